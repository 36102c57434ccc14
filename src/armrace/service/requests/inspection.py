"""Audits and the check of sample ratios."""

from __future__ import annotations

import math

import msgspec

from armrace.forensics import Audit
from armrace.forensics.audit import LEVEL
from armrace.limits import check_number
from armrace.service.answers import RatioCheck, RatioRow
from armrace.service.aside import Later
from armrace.service.books import Books
from armrace.service.defaults import AUDIT_LEVEL
from armrace.service.totals import ArmTotals
from armrace.statistics.chi_square import chi_square_tail

__all__ = [
    "AuditNow",
    "CheckRatio",
]

_LEAST_EXPECTED = 5.0


class AuditNow(msgspec.Struct, frozen=True):
    """Audit what was learned in the current generation."""

    tenant: str
    name: str
    level: float = AUDIT_LEVEL

    def perform(self, books: Books) -> Audit | Later[Audit]:
        """Settle what is due, and return the audit, with the names of the arms."""
        check_number("level", self.level, LEVEL)
        experiment = books.settled(self.tenant, self.name)
        learner, arms = experiment.generation.learner.still(), [*experiment.arms]
        return Later(lambda: _named(learner.audit(self.level), arms))


def _named(audit: Audit, arms: list[str]) -> Audit:
    alarms = [
        msgspec.structs.replace(alarm, arm=arms[int(alarm.arm)]) if alarm.arm is not None else alarm
        for alarm in audit.alarms
    ]
    names: list[str | int] = [arms[int(place)] for place in audit.arms]
    return msgspec.structs.replace(audit, alarms=alarms, arms=names)


class CheckRatio(msgspec.Struct, frozen=True):
    """Compare how often arms were chosen with the sums of their published probabilities."""

    tenant: str
    name: str

    def perform(self, books: Books) -> RatioCheck:
        """Return the comparison."""
        experiment = books.experiment(self.tenant, self.name)
        arms = experiment.totals.arms
        rows = [
            RatioRow(name, totals.comparable, totals.expected)
            for name, totals in zip(experiment.arms, arms, strict=True)
        ]
        left_out = experiment.decisions - sum(totals.comparable for totals in arms)
        return RatioCheck(rows, left_out, *_chi_square(arms))


def _chi_square(arms: list[ArmTotals]) -> tuple[float | None, float | None]:
    """Compare counts with sums of probabilities, arm by arm, where enough are expected.

    Each count minus its expectation is a sum of martingale differences, whose conditional
    variances are at most the probabilities. So the statistic is at most as large as Pearson's.
    """
    cells = [totals for totals in arms if totals.expected >= _LEAST_EXPECTED]
    if len(cells) < 2:
        return None, None
    statistic = math.fsum((t.comparable - t.expected) ** 2 / t.expected for t in cells)
    return statistic, chi_square_tail(statistic, len(cells) - 1)
