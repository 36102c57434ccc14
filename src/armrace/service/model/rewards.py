"""The range of an experiment's rewards, and the grid on which they are kept.

Learners take rewards in [0, 1]. A reward of the declared range is mapped there and rounded to a
multiple of 2^-20. Sums of such numbers are exact in double precision up to 2^33 rewards, so that
counts and sums do not depend on the order in which rewards come.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number

__all__ = ["GRID", "RewardScale"]

GRID = 2**20
"""Steps of the grid between the smallest and the largest reward."""


_NARROWEST, _NARROWEST_SHARE = 1e-290, 2.0**-32
"""How wide the range of rewards must be, at least and in parts of its larger end."""


class RewardScale(msgspec.Struct, frozen=True):
    """The map between rewards as the user states them and steps of the grid.

    >>> scale = RewardScale(low=-1.0, high=3.0)
    >>> scale.steps(1.0), scale.reward(524288), RewardScale.learned(524288)
    (524288, 1.0, 0.5)
    """

    low: float = 0.0
    high: float = 1.0

    def steps(self, reward: Any) -> int:
        """Return the step of the grid that is nearest to a reward.

        Raises:
            InvalidParameter: the reward is not a number in the declared range.
        """
        number = isinstance(reward, (int, float)) or hasattr(reward, "__float__")
        if not number or isinstance(reward, str):
            raise InvalidParameter(f"reward must be a number; got {reward!r:.100}.")
        try:
            value = float(reward)
        except (OverflowError, TypeError, ValueError):
            check_number("reward", reward, Limits("reward", self.low, self.high))
            raise
        if not self.low <= value <= self.high:  # also refuses NaN
            short = f"{value:g}"
            # Six digits of 1.0000001 would read as if it were in the range.
            given = short if float(short) == value else repr(value)
            raise InvalidParameter(f"reward must be in [{self.low:g}, {self.high:g}]; got {given}.")
        if self.low == 0.0 and self.high == 1.0:
            return round(value * GRID)
        # Halved, so that the width of a range such as [-1e308, 1e308] does not overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return round(min(share, 1.0) * GRID)

    def reward(self, steps: float) -> float:
        """Return the reward, or the mean of rewards, that a number of steps stands for."""
        share = steps / GRID
        return self.low * (1.0 - share) + self.high * share

    @staticmethod
    def learned(steps: Any) -> Any:
        """Return the number in [0, 1] that a learner is given, or an array of them."""
        return steps / GRID


def check_range(low: float, high: float) -> None:
    """Refuse a range that is empty, not finite, or too narrow for the grid.

    Args:
        low: the smallest reward.
        high: the largest reward.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidParameter(
            f"rewards must be a range of two finite numbers, the smaller first; got {low}, {high}."
        )
    # Else neighbours on the grid, of which there are a million, would be the same number.
    least = max(_NARROWEST, _NARROWEST_SHARE * max(abs(low), abs(high)))
    if high / 2 - low / 2 < least / 2:
        raise InvalidParameter(
            f"rewards must be a range at least {least:g} wide; got {low}, {high}."
        )
