"""Counts and sums of an experiment's arms over all its generations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import msgspec
import numpy as np

from armrace.errors import DamagedFile
from armrace.service.open_decisions import OpenDecision

__all__ = ["ArmTotals", "Totals", "TotalsData", "write_shares"]

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


class TotalsData(msgspec.Struct, frozen=True, array_like=True):
    """Totals as plain data."""

    arms: list[ArmTotals]


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

    def save(self) -> TotalsData:
        """Return the totals as plain data."""
        return TotalsData(self.arms)

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

    def count_decisions(
        self, arms: np.ndarray, comparable: np.ndarray, shares: Sequence[bytes]
    ) -> None:
        """Count many decisions, as :meth:`count_decision` would one by one.

        Args:
            arms: their arms.
            comparable: for each decision whether it comes with probabilities.
            shares: the probabilities of those that do.
        """
        counts = np.bincount(arms, minlength=len(self._arms)).tolist()
        known = np.bincount(arms[comparable], minlength=len(self._arms)).tolist()
        for totals, count, with_shares in zip(self._arms, counts, known, strict=True):
            totals.decisions += count
            totals.comparable += with_shares
        self._shares += shares
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

    def count_all_closed(
        self, arms: np.ndarray, counted: np.ndarray, withheld: np.ndarray, steps: np.ndarray
    ) -> None:
        """Count decisions whose window has closed; arrays have an entry for each decision.

        Args:
            arms: their arms.
            counted: whether they have a reward that counts.
            withheld: whether they have one that does not.
            steps: the reward that counts, on the grid; else 0.
        """
        size = len(self._arms)
        sums = zip(
            np.bincount(arms, minlength=size).tolist(),
            np.bincount(arms[counted], minlength=size).tolist(),
            np.bincount(arms[withheld], minlength=size).tolist(),
            # Sums of whole numbers below 2^53 are exact.
            np.bincount(arms, steps, minlength=size).astype(np.int64).tolist(),
            strict=True,
        )
        for totals, (closed, with_reward, without, earned) in zip(self._arms, sums, strict=True):
            totals.closed += closed
            totals.rewarded += with_reward
            totals.withheld += without
            totals.steps += earned

    def count_closed(self, decision: OpenDecision) -> None:
        """Count a decision whose window has closed."""
        totals, steps = self._arms[decision.arm], decision.counted_steps
        totals.closed += 1
        if steps is not None:
            totals.rewarded += 1
            totals.steps += steps
        elif decision.steps is not None:
            totals.withheld += 1


def write_shares(shares: Sequence[float] | np.ndarray) -> bytes:
    """Return probabilities in single precision, which is enough for counts."""
    return np.asarray(shares, dtype="<f4").tobytes()
