"""The map between rewards as they are stated and shares of their range, from 0 to 1."""

from __future__ import annotations

from typing import NamedTuple

from armrace.statistics.proportions import Interval


class Scale(NamedTuple):
    """The range of rewards, which is scaled to [0, 1].

    >>> scale = Scale(-1.0, 3.0)
    >>> scale.share(1.0), scale.reward(0.5), scale.difference(0.5)
    (0.5, 1.0, 2.0)
    """

    low: float = 0.0
    high: float = 1.0

    def share(self, reward: float) -> float:
        """Return where a reward lies in the range."""
        return (reward - self.low) / (self.high - self.low)

    def reward(self, share: float) -> float:
        """Return the reward at a share of the range."""
        return self.low + (self.high - self.low) * share

    def difference(self, share: float) -> float:
        """Return the difference of rewards that are this share of the range apart."""
        return (self.high - self.low) * share

    def interval(self, shares: Interval) -> Interval:
        """Return the interval of rewards for one of shares."""
        return Interval(self.reward(shares.low), self.reward(shares.high))
