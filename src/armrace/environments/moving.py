"""Environments whose means move: changes, at once or little by little, and seasons.

Rewards are 0 or 1. The best arm may be another in each round, and the ledger has, besides the
regret against the best single arm of the run, ``dynamic_regret`` against the best arm of each.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import numpy.typing as npt

from armrace.environments.base import Environment, require_arms, require_equal_lengths
from armrace.errors import InvalidParameter
from armrace.kernels import laws
from armrace.limits import Limits, check_number
from armrace.specification import MAXIMAL_HORIZON, is_list

Floats = npt.NDArray[np.float64]


class Changing(Environment, frozen=True, tag="changing"):
    """Bernoulli arms whose means change at given rounds, at once or little by little.

    With ``levels`` of two rows that are each other's reverse and one change over all rounds, the
    means cross.

    >>> crossing = Changing(levels=((0.6, 0.4), (0.4, 0.6)), changes=(0,), lasting=4)
    >>> crossing.mean_rewards(4)  # 0.6, 0.55, 0.5 and 0.45 of the first arm
    array([0.525, 0.475])
    """

    levels: Annotated[tuple[tuple[float, ...], ...], "means of all arms, a row for each level"]
    changes: Annotated[
        tuple[int, ...],
        Limits("round in which each row after the first begins", 0, MAXIMAL_HORIZON),
    ]
    lasting: Annotated[int, Limits("rounds that a change takes; 0: none", 0, MAXIMAL_HORIZON)] = 0

    def validate(self) -> None:
        if len(self.levels) != len(self.changes) + 1:
            raise InvalidParameter(
                "levels must have one row more than there are changes; "
                f"got {len(self.levels)} and {len(self.changes)}."
            )
        for row in self.levels:
            if not is_list(row):
                raise InvalidParameter(f"each of levels must be a row of means; got {row!r}.")
            require_arms(row, "each of levels")
            require_equal_lengths(**{"means of the first level": self.levels[0], "of another": row})
            for mean in row:
                check_number("each of levels", mean, Limits("", 0, 1))
        for before, after in zip(self.changes, self.changes[1:], strict=False):
            if after < before + self.lasting or after == before:
                raise InvalidParameter(
                    "each of changes must begin when the one before is over; "
                    f"got {before} and {after}, with lasting {self.lasting}."
                )

    def mean_rewards(self, horizon: int) -> Floats:
        knots, total = self._knots(), np.zeros(len(self.levels[0]))
        ends = np.append(knots[1:, 0], np.inf).clip(max=horizon)
        for start, end, level, following in zip(
            knots[:, 0], ends, knots[:, 1:], [*knots[1:], knots[-1]], strict=True
        ):
            count, width = end - start, following[0] - start
            if count > 0:  # rounds start, start + 1, ... of a line between two knots
                slope = (following[1:] - level) / width if width > 0 else 0.0 * level
                total += count * level + slope * count * (count - 1) / 2
        return np.asarray(total / horizon)

    def support(self) -> Floats:
        return np.tile([0.0, 1.0], (len(self.levels[0]), 1))

    def law(self) -> laws.Law:
        return laws.make_law(laws.CHANGING, len(self.levels[0]), table=self._knots())

    def _knots(self) -> Floats:
        """Rounds and the means there, between which the means move evenly."""
        rows = [[0.0, *self.levels[0]]]
        for change, before, after in zip(self.changes, self.levels, self.levels[1:], strict=False):
            rows += [[float(change), *before], [float(change + self.lasting), *after]]
        return np.array(rows, dtype=np.float64)


class Seasonal(Environment, frozen=True, tag="seasonal"):
    """Bernoulli arms whose means go up and down like a wave, each arm by its own swing.

    >>> Seasonal(means=(0.5, 0.5), swings=(0.1, -0.1), period=8).mean_rewards(4)  # half a wave
    array([0.56035534, 0.43964466])
    """

    means: Annotated[tuple[float, ...], Limits("mean in the middle of the wave, one per arm", 0, 1)]
    swings: Annotated[tuple[float, ...], Limits("how far it goes up, or first down", -1, 1)]
    period: Annotated[int, Limits("rounds of a wave", 2, MAXIMAL_HORIZON)]

    def validate(self) -> None:
        require_arms(self.means, "means")
        require_equal_lengths(means=self.means, swings=self.swings)
        for mean, swing in zip(self.means, self.swings, strict=True):
            for end in (mean - swing, mean + swing):
                check_number("each of means with its swing", round(end, 12), Limits("", 0, 1))

    def mean_rewards(self, horizon: int) -> Floats:
        # The sum of sin(a n) for n < h is sin(a h / 2) sin(a (h - 1) / 2) / sin(a / 2); whole
        # waves sum to 0.
        angle, rounds = 2.0 * math.pi / self.period, horizon % self.period
        total = math.sin(angle * rounds / 2) * math.sin(angle * (rounds - 1) / 2)
        wave = total / math.sin(angle / 2) / horizon
        return np.array(self.means) + wave * np.array(self.swings)

    def support(self) -> Floats:
        return np.tile([0.0, 1.0], (len(self.means), 1))

    def law(self) -> laws.Law:
        period = np.array([[float(self.period)]])
        arms = len(self.means)
        return laws.make_law(laws.SEASONAL, arms, self.means, self.swings, table=period)
