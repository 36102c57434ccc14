"""Environments: independent rewards drawn from each arm's law, and a table of recorded rewards."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.environments.base import (
    Environment,
    require_arms,
    require_equal_lengths,
)
from armrace.errors import InvalidParameter
from armrace.kernels import laws
from armrace.limits import Limits, check_number
from armrace.specification import MAXIMAL_HORIZON

Floats = npt.NDArray[np.float64]


class Bernoulli(Environment, frozen=True, tag="bernoulli"):
    """Each arm pays 1 with its own probability, else 0: clicks."""

    means: Annotated[tuple[float, ...], Limits("probability of a 1, one per arm", 0, 1)]

    def validate(self) -> None:
        require_arms(self.means, "means")

    def mean_rewards(self, horizon: int) -> Floats:
        return np.array(self.means, dtype=np.float64)

    def support(self) -> Floats:
        return np.tile([0.0, 1.0], (len(self.means), 1))

    def law(self) -> laws.Law:
        return laws.make_law(laws.BERNOULLI, len(self.means), first=self.means)


class Deterministic(Environment, frozen=True, tag="deterministic"):
    """Each arm always pays the same."""

    rewards: Annotated[tuple[float, ...], Limits("the reward, one per arm", 0, 1)]

    def validate(self) -> None:
        require_arms(self.rewards, "rewards")

    def mean_rewards(self, horizon: int) -> Floats:
        return np.array(self.rewards, dtype=np.float64)

    def support(self) -> Floats:
        return np.array(self.rewards, dtype=np.float64)[:, np.newaxis]

    def law(self) -> laws.Law:
        return laws.make_law(laws.DETERMINISTIC, len(self.rewards), first=self.rewards)


class Uniform(Environment, frozen=True, tag="uniform"):
    """Each arm pays uniformly between its own two ends."""

    lows: Annotated[tuple[float, ...], Limits("least reward, one per arm", 0, 1)]
    highs: Annotated[tuple[float, ...], Limits("largest reward, one per arm", 0, 1)]

    def validate(self) -> None:
        require_arms(self.lows, "lows")
        require_equal_lengths(lows=self.lows, highs=self.highs)
        for low, high in zip(self.lows, self.highs, strict=True):
            if low > high:
                raise InvalidParameter(f"each low must be at most its high; got {low} and {high}.")

    def mean_rewards(self, horizon: int) -> Floats:
        return np.asarray((np.array(self.lows) + np.array(self.highs)) / 2)

    def law(self) -> laws.Law:
        return laws.make_law(laws.UNIFORM, len(self.lows), first=self.lows, second=self.highs)


_SHAPE = Limits("shape of the Beta law, one per arm", 1e-3, 1e6)


class Beta(Environment, frozen=True, tag="beta"):
    """Each arm pays by its own Beta law: ratings, shares of time."""

    alphas: Annotated[tuple[float, ...], _SHAPE]
    betas: Annotated[tuple[float, ...], _SHAPE]

    def validate(self) -> None:
        require_arms(self.alphas, "alphas")
        require_equal_lengths(alphas=self.alphas, betas=self.betas)

    def mean_rewards(self, horizon: int) -> Floats:
        alphas, betas = np.array(self.alphas), np.array(self.betas)
        return np.asarray(alphas / (alphas + betas))

    def law(self) -> laws.Law:
        return laws.make_law(laws.BETA, len(self.alphas), first=self.alphas, second=self.betas)


class FiniteSupport(Environment, frozen=True, tag="finite-support"):
    """Each arm pays one of a few values, with its own probabilities: stars of a review."""

    values: Annotated[tuple[float, ...], Limits("the rewards that occur", 0, 1)]
    probabilities: Annotated[
        tuple[tuple[float, ...], ...], "probability of each value, one row per arm"
    ]

    def validate(self) -> None:
        require_arms(self.probabilities, "probabilities")
        if not self.values:
            raise InvalidParameter("values must name at least 1 reward; got none.")
        for row in self.probabilities:
            if not isinstance(row, (tuple, list)):
                raise InvalidParameter(f"each of probabilities must be a row; got {row!r}.")
            require_equal_lengths(values=self.values, probabilities=row)
            for item in row:
                check_number("each of probabilities", item, Limits("", 0, 1))
            if not math.isclose(sum(row), 1, abs_tol=1e-9):
                raise InvalidParameter(
                    f"the probabilities of an arm must sum to 1; got {sum(row):g}."
                )

    def mean_rewards(self, horizon: int) -> Floats:
        probabilities = np.array(self.probabilities, dtype=np.float64)
        return np.asarray(probabilities @ np.array(self.values, dtype=np.float64))

    def support(self) -> Floats:
        return np.tile(np.array(self.values, dtype=np.float64), (len(self.probabilities), 1))

    def law(self) -> laws.Law:
        arms = len(self.probabilities)
        return laws.make_law(
            laws.FINITE,
            arms,
            values=self.support(),
            cumulative=np.cumsum(np.array(self.probabilities, dtype=np.float64), axis=1),
        )


class Constrained(Environment, frozen=True, tag="constrained"):
    """Bernoulli arms whose means move up and down together, in phases that grow.

    In every second phase all means are moved by ``shift``, so that the gaps stay: a stochastically
    constrained adversary (Zimmert and Seldin 2021). With a growth above 1, the last phase soon
    outweighs all before, and means over different rounds cannot be compared.

    >>> Constrained(means=(1.0, 0.875), shift=-0.5).mean_rewards(3)  # 1 round high, 2 low
    array([0.66666667, 0.54166667])
    """

    means: Annotated[tuple[float, ...], Limits("mean in the first phase, one per arm", 0, 1)]
    shift: Annotated[float, Limits("what every second phase adds to all means", -1, 1)]
    growth: Annotated[float, Limits("factor by which phases grow", 1, 1e6, low_open=True)] = 1.6
    first: Annotated[int, Limits("rounds of the first phase", 1, MAXIMAL_HORIZON)] = 1

    def validate(self) -> None:
        require_arms(self.means, "means")
        for mean in self.means:
            check_number("each of means plus shift", round(mean + self.shift, 12), Limits("", 0, 1))

    def mean_rewards(self, horizon: int) -> Floats:
        ends = np.minimum(self._ends()[:, 0], horizon)
        moved = np.diff(ends, prepend=0.0)[1::2].sum() / horizon
        return np.asarray(np.array(self.means, dtype=np.float64) + moved * self.shift)

    def support(self) -> Floats:
        return np.tile([0.0, 1.0], (len(self.means), 1))

    def law(self) -> laws.Law:
        means = np.array(self.means, dtype=np.float64)
        moved = np.clip(means + self.shift, 0.0, 1.0)
        return laws.make_law(laws.PHASES, means.size, means, moved, table=self._ends())

    def _ends(self) -> Floats:
        """The first round after each phase, until beyond the longest run."""
        ends, length = [0.0], float(self.first)
        while ends[-1] <= 2.0 * MAXIMAL_HORIZON:
            ends.append(ends[-1] + round(length))
            length *= self.growth
        return np.array(ends[1:])[:, np.newaxis]


_ANY = 1e6


class Gaussian(Environment, frozen=True, tag="gaussian"):
    """Each arm pays by its own normal law: rewards may be anything, also below 0 and above 1.

    The model has rewards in [0, 1]. This law is for published experiments that do not; only
    policies that take any reward play here, and an attack may show any reward.
    """

    means: Annotated[tuple[float, ...], Limits("mean reward, one per arm", -_ANY, _ANY)]
    sigma: Annotated[float, Limits("standard deviation of all arms", 0, _ANY, low_open=True)] = 1.0

    def validate(self) -> None:
        require_arms(self.means, "means")

    def mean_rewards(self, horizon: int) -> Floats:
        return np.array(self.means, dtype=np.float64)

    def reward_range(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def law(self) -> laws.Law:
        return laws.make_law(laws.GAUSSIAN, len(self.means), self.means, self.sigma)


class WideUniform(Uniform, frozen=True, tag="wide-uniform"):
    """As uniform, with ends that may lie below 0 or above 1: sub-Gaussian, and not Gaussian."""

    lows: Annotated[tuple[float, ...], Limits("least reward, one per arm", -_ANY, _ANY)]
    highs: Annotated[tuple[float, ...], Limits("largest reward, one per arm", -_ANY, _ANY)]

    def reward_range(self) -> tuple[float, float]:
        return min(self.lows), max(self.highs)


class Table(Environment, frozen=True, tag="table", eq=False):
    """Pays what a table says: an array of rounds x arms."""

    family: ClassVar[str] = "record"
    rewards: Annotated[np.ndarray, "rewards in [0, 1], one row per round and one column per arm"]

    def validate(self) -> None:
        table = self.rewards
        if not isinstance(table, np.ndarray) or table.ndim != 2:
            raise InvalidParameter("rewards must be an array of rounds x arms.")
        if table.dtype.kind not in "buif":
            raise InvalidParameter(f"rewards must be an array of numbers; got {table.dtype}.")
        if table.shape[1] < 2 or table.shape[0] < 1:
            rounds, arms = table.shape
            raise InvalidParameter(
                f"rewards must have at least 1 round and 2 arms; got {rounds} and {arms}."
            )
        # A masked array compares as masked, not as false, and would pass the next test.
        if np.ma.is_masked(table):
            count = int(np.count_nonzero(np.ma.getmaskarray(table)))
            raise InvalidParameter(f"rewards must have no masked values; got {count}.")
        if not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidParameter("each of rewards must be in [0, 1]; got others.")
        # A copy, so that the specification stays as it is whatever becomes of the caller's array.
        msgspec.structs.force_setattr(self, "rewards", np.array(table, subok=False))

    def mean_rewards(self, horizon: int) -> npt.NDArray[np.float64]:
        return np.asarray(self.rewards[:horizon].mean(axis=0, dtype=np.float64))

    def law(self) -> laws.Law:
        table = np.ascontiguousarray(self.rewards, dtype=np.float64)
        return laws.make_law(laws.TABLE, table.shape[1], table=table)

    def check_horizon(self, horizon: int) -> None:
        if horizon > len(self.rewards):
            raise InvalidParameter(
                f"horizon must be at most the table's {len(self.rewards)} rounds; got {horizon}."
            )
