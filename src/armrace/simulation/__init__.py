"""Experiments, the engine's front, parallel runs and results."""

from armrace.simulation.comparison import Comparison
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.results import Result
from armrace.simulation.simulate import compare, simulate
from armrace.simulation.storage import load

__all__ = ["Comparison", "Experiment", "Result", "compare", "load", "make_experiment", "simulate"]
