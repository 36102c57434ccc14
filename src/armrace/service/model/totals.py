"""Counts and sums of an experiment's arms over all its generations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import msgspec
import numpy as np

from armrace.errors import DamagedFile
from armrace.service.model.visits import Visit

__all__ = ["ArmTotals", "Totals", "write_shares"]

_TOGETHER = 512
"""How many decisions wait until their probabilities are added to the sums, for speed."""


class ArmTotals(msgspec.Struct, array_like=True):
    """What was counted of one arm."""

    decisions: int = 0
    closed: int = 0
    """Decisions whose window has closed."""
    rewarded: int = 0
    """Closed decisions with a reward that counts."""
    withheld: int = 0
    """Closed decisions whose reward was retracted or is in quarantine."""
    steps: int = 0
    """The sum of the rewards that count, on the grid; integers, whose sum has no order."""
    comparable: int = 0
    """Decisions for which the probabilities of all arms are known."""
    expected: float = 0.0
    """The sum of the arm's probabilities over all comparable decisions."""


class Totals:
    """What was counted of each arm, in the order of the arms.

    Args:
        arms: what was counted so far.
    """

    def __init__(self, arms: list[ArmTotals]) -> None:
        self._arms = arms
        self._shares: list[bytes] = []
        """Probabilities of decisions that are not yet part of the sums."""

    @property
    def arms(self) -> list[ArmTotals]:
        """What was counted of each arm."""
        self._add_shares()
        return self._arms

    def still(self) -> Totals:
        """Return a copy."""
        return Totals([copy(each) for each in self.arms])

    def add_arm(self) -> None:
        """Begin to count a new arm."""
        self.arms.append(ArmTotals())

    def count_decision(self, arm: int, shares: bytes) -> None:
        """Count a decision, with the probabilities that all arms had.

        Args:
            arm: the place of its arm.
            shares: the probability of every arm in single precision; empty if it is not known.
        """
        totals = self._arms[arm]
        totals.decisions += 1
        if shares:
            totals.comparable += 1
            self._shares.append(shares)
            if len(self._shares) >= _TOGETHER:
                self._add_shares()

    def _add_shares(self) -> None:
        """Add up what is waiting, in the order in which it came, on which the last bits depend."""
        if not self._shares:
            return
        width = len(self._arms)
        rows = np.frombuffer(b"".join(self._shares), dtype="<f4")
        if rows.size != width * len(self._shares):
            raise DamagedFile("the log has a decision with probabilities of other arms.")
        self._shares = []
        before = np.array([[each.expected for each in self._arms]])
        # Not ``sum``, which need not add in order: the result must be that of one by one.
        sums = np.cumsum(np.vstack([before, rows.reshape(-1, width)]), axis=0)[-1]
        for totals, expected in zip(self._arms, sums.tolist(), strict=True):
            totals.expected = expected

    def count_closed(self, visit: Visit) -> None:
        """Count a visit whose window has closed."""
        totals, steps = self._arms[visit.arm], visit.counted_steps
        totals.closed += 1
        if steps is not None:
            totals.rewarded += 1
            totals.steps += steps
        elif visit.steps is not None:
            totals.withheld += 1


def write_shares(shares: Sequence[float] | np.ndarray) -> bytes:
    """Return probabilities in single precision, which is enough for counts."""
    return np.asarray(shares, dtype="<f4").tobytes()
