"""Counts and sums of an experiment's arms over all its generations."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from armrace.service.open_decisions import OpenDecision

__all__ = ["ArmTotals", "Totals", "read_shares", "write_shares"]


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
    """The sum of the rewards that count, on the grid; whole numbers, so that order is no matter."""
    comparable: int = 0
    """Decisions for which the probabilities of all arms are known."""
    expected: float = 0.0
    """The sum of the arm's probabilities over all comparable decisions."""


class Totals(msgspec.Struct, array_like=True):
    """What was counted of each arm, in the order of the arms."""

    arms: list[ArmTotals]

    def add_arm(self) -> None:
        """Begin to count a new arm."""
        self.arms.append(ArmTotals())

    def count_decision(self, arm: int, shares: bytes) -> None:
        """Count a decision, with the probabilities that all arms had."""
        self.arms[arm].decisions += 1
        if shares:
            self.arms[arm].comparable += 1
            for totals, share in zip(self.arms, read_shares(shares), strict=False):
                totals.expected += share

    def count_closed(self, decision: OpenDecision) -> None:
        """Count a decision whose window has closed."""
        totals, steps = self.arms[decision.arm], decision.counted_steps
        totals.closed += 1
        if steps is not None:
            totals.rewarded += 1
            totals.steps += steps
        elif decision.steps is not None:
            totals.withheld += 1


def write_shares(shares: Sequence[float]) -> bytes:
    """Return probabilities in single precision, which is enough for counts."""
    return struct.pack(f"<{len(shares)}f", *shares)


def read_shares(shares: bytes) -> tuple[float, ...]:
    """Return probabilities that :func:`write_shares` wrote."""
    return struct.unpack(f"<{len(shares) // 4}f", shares)
