"""The forms of a log that policies meet: as logged, under an attack, or without a source."""

from __future__ import annotations

from typing import NamedTuple

from armrace.adversaries import Adversary
from armrace.evaluation.runs import Run
from armrace.policies import Policy

__all__ = ["Form", "PlannedRuns"]


class Form(NamedTuple):
    """One form of the log that a policy meets, and who corrupts the rewards."""

    name: str
    attack: Adversary
    budget: float
    without: int | None = None
    """The place of the source whose rows are left out."""
    found_by: str = ""
    """The effort of the search that found the attack, if one did."""


class PlannedRuns(NamedTuple):
    """A policy on a form of the log, and its runs."""

    policy: Policy
    label: str
    form: Form
    runs: list[Run]
    rows: int
    """The rows of the log in this form."""
    horizon: int
    """The number of decisions that the policy plans for."""
