"""Experiments, parallel runs, results and their storage."""

from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.identification import Identification, identify
from armrace.simulation.results import Comparison, Result
from armrace.simulation.scenarios import SCENARIOS, Scenario
from armrace.simulation.simulate import compare, simulate
from armrace.simulation.storage import load

__all__ = [
    "SCENARIOS",
    "Comparison",
    "Experiment",
    "Identification",
    "Result",
    "Scenario",
    "compare",
    "identify",
    "load",
    "make_experiment",
    "simulate",
]
