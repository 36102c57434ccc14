"""Environments, the sources of rewards; ``ENVIRONMENTS`` is their catalogue."""

from armrace.environments.base import Environment
from armrace.environments.laws import Bernoulli, Beta, Deterministic, FiniteSupport, Uniform
from armrace.environments.table import Table
from armrace.specification import Catalogue

__all__ = [
    "ENVIRONMENTS",
    "Bernoulli",
    "Beta",
    "Deterministic",
    "Environment",
    "FiniteSupport",
    "Table",
    "Uniform",
]

ENVIRONMENTS: Catalogue[Environment] = Catalogue(
    "environment", (Bernoulli, Beta, Uniform, FiniteSupport, Deterministic, Table)
)
