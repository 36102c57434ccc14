"""Environments whose visitors differ: each round draws one, and rewards depend on it.

There is a finite number of kinds of visitors, equally likely, each with a vector, a leaf and the
mean reward of every arm. So all means are known exactly: of each context, each leaf and each arm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.environments.base import Environment, require_arms
from armrace.errors import InvalidParameter
from armrace.kernels import laws
from armrace.kernels.crowds import Crowd, make_crowd
from armrace.limits import Limits
from armrace.randomness import Purpose, generator_for

Floats = npt.NDArray[np.float64]

_KINDS = 4096
_LONGEST = 1.0 + 1e-9
_FARTHEST = 3.0
"""Coordinates are cut off here, in deviations, so that means stay within [0, 1]."""


class Kinds(NamedTuple):
    """The kinds of visitors: one row each."""

    vectors: Floats
    """With an axis more, that of the arms, where arms have features."""
    leaves: npt.NDArray[np.int64]
    means: Floats


class VisitorEnvironment(Environment, frozen=True):
    """A base for environments of visitors; :meth:`kinds` says which there are."""

    family: ClassVar[str] = "visitors"

    def kinds(self) -> Kinds:
        """Return the kinds of visitors, which must be the same at every call."""
        raise NotImplementedError(f"{type(self).__name__} does not say its kinds")

    def mean_rewards(self, horizon: int) -> Floats:
        return np.asarray(self.crowd().means.mean(axis=0))

    def support(self) -> Floats:
        return np.tile([0.0, 1.0], (self.arms, 1))

    def law(self) -> laws.Law:
        means = self.crowd().means
        return laws.make_law(laws.VISITORS, means.shape[1], table=means)

    def crowd(self) -> Crowd:
        return _crowd_of(self)


@lru_cache(maxsize=16)
def _crowd_of(environment: VisitorEnvironment) -> Crowd:
    # Every replication asks for it a few times.
    kinds = environment.kinds()
    return make_crowd(kinds.vectors, kinds.leaves, kinds.means)


class Visitors(VisitorEnvironment, frozen=True, tag="visitors", eq=False):
    """Visitors of your own: a table of vectors, leaves and mean rewards, one row a kind.

    A row of :class:`armrace.contexts.Schema`'s ``vector`` and a leaf for each visitor of a log, and
    what each arm would pay on average, make an environment of that log.

    >>> shop = Visitors(vectors=np.eye(2), leaves=np.array([0, 1]), means=np.eye(2))
    >>> shop.mean_rewards(1)
    array([0.5, 0.5])
    """

    vectors: Annotated[
        np.ndarray, "encoded features of length at most 1, one row a kind, or one a kind and arm"
    ]
    means: Annotated[np.ndarray, "probability that an arm pays, one row a kind, one column an arm"]
    leaves: Annotated[np.ndarray | None, "the leaf of each kind; by default all in one"] = None

    def validate(self) -> None:
        means = _table("means", self.means)
        vectors = _table("vectors", self.vectors, means.shape[1])
        leaves = np.zeros(len(vectors)) if self.leaves is None else np.asarray(self.leaves)
        if not len(vectors) == len(means) == len(leaves):
            raise InvalidParameter(
                "vectors, means and leaves must have a row for each kind; "
                f"got {len(vectors)}, {len(means)} and {len(leaves)}."
            )
        require_arms(means[0], "means")
        if not bool(((means >= 0) & (means <= 1)).all()):
            raise InvalidParameter("each of means must be in [0, 1]; got others.")
        if not float(np.square(vectors).sum(axis=-1).max()) <= _LONGEST:
            raise InvalidParameter("each of vectors must have a length of at most 1.")
        whole = leaves.ndim == 1 and bool(((leaves >= 0) & (leaves % 1 == 0)).all())
        if not whole or leaves.max() >= 256:
            raise InvalidParameter("each of leaves must be a whole number in [0, 255].")
        for name, array in (("vectors", vectors), ("means", means), ("leaves", leaves)):
            msgspec.structs.force_setattr(self, name, np.array(array, dtype=np.float64))

    def kinds(self) -> Kinds:
        leaves: Any = self.leaves
        return Kinds(self.vectors, leaves.astype(np.int64), self.means)


def _table(name: str, given: Any, arms: int = 0) -> Floats:
    table = np.asarray(given)
    fits = table.ndim == 2 or (table.ndim == 3 and table.shape[1] == arms)
    if not fits or not table.size or table.dtype.kind not in "buif":
        raise InvalidParameter(f"{name} must be a table of numbers with at least one row.")
    return table.astype(np.float64)


_Dimension = Annotated[int, Limits("number of features", 1, 127)]
_Seed = Annotated[int, Limits("seed of the instance: which vectors and slopes it has", 0, 2**31)]
_Levels = Annotated[tuple[float, ...], Limits("mean of each arm at the average visitor", 0, 1)]
_Slope = Annotated[float, Limits("how far a deviation of its features moves a mean", 0, 0.3)]
_Rates = Annotated[tuple[tuple[float, ...], ...], "mean of each arm, one row a cluster"]
_Noise = Annotated[float, Limits("deviation of features within a cluster", 0, 10)]
_OddsSlope = Annotated[float, Limits("how far features move the logarithm of the odds", 0, 10)]


class LinearVisitors(VisitorEnvironment, frozen=True, tag="linear-visitors"):
    """Features are normal, and an arm's mean reward is a linear function of them.

    The mean of an arm is its level at the average visitor and moves by ``slope`` with each
    deviation of one combination of features, which is another for each arm. Leaves are the signs
    of the first three features.

    ``bots`` are visitors whose features are forged: all the same ones, three deviations from the
    average in every direction in which the arm of the highest level improves. No arm ever pays for
    them, so that they cost no regret of their own, and tell a model of the features lies.
    """

    levels: _Levels
    slope: _Slope
    dimension: _Dimension = 9
    seed: _Seed = 0
    bots: Annotated[float, Limits("share of visits with forged features", 0, 0.5)] = 0.0

    def validate(self) -> None:
        require_arms(self.levels, "levels")
        reach = _FARTHEST * self.slope
        if min(self.levels) < reach or max(self.levels) > 1 - reach:
            raise InvalidParameter(
                f"levels must be at least three slopes from 0 and 1; got a slope of {self.slope:g}."
            )

    def kinds(self) -> Kinds:
        generator = generator_for(self.seed, Purpose.VISITORS)
        features = generator.normal(size=(_KINDS, self.dimension))
        directions = generator.normal(size=(len(self.levels), self.dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        # Shrunk towards the average visitor where a mean would leave its range, so that means stay
        # linear in the features.
        farthest = np.abs(features @ directions.T).max(axis=1, keepdims=True)
        features *= np.minimum(1.0, _FARTHEST / farthest)
        means = np.array(self.levels) + self.slope * (features @ directions.T)
        bots = round(self.bots * _KINDS)
        features[:bots] = _FARTHEST * np.sign(directions[np.argmax(self.levels)])
        means[:bots] = 0.0
        signs = (features[:, :3] > 0) @ (1 << np.arange(min(3, self.dimension)))
        return _rounded(features, signs.astype(np.int64), means.clip(0.0, 1.0))


class ClusterVisitors(VisitorEnvironment, frozen=True, tag="cluster-visitors"):
    """Visitors come in clusters, which are the leaves; each has its own mean for every arm.

    The features of a visitor are those of the centre of the cluster with some noise. The means are
    arbitrary, so that a linear function of the features cannot tell them; or, with a ``slope``,
    their odds move with the features as well.
    """

    rates: _Rates
    noise: _Noise = 0.3
    slope: _OddsSlope = 0.0
    dimension: _Dimension = 4
    seed: _Seed = 0

    def validate(self) -> None:
        if not self.rates or len({len(row) for row in self.rates}) != 1:
            raise InvalidParameter("rates must have rows of one length.")
        require_arms(self.rates[0], "rates")
        if not all(0 < rate < 1 for row in self.rates for rate in row):
            raise InvalidParameter("each of rates must be in (0, 1).")

    def kinds(self) -> Kinds:
        generator = generator_for(self.seed, Purpose.VISITORS)
        rates = np.array(self.rates)
        centres = generator.normal(size=(len(rates), self.dimension))
        directions = generator.normal(size=(rates.shape[1], self.dimension))
        leaves = np.arange(_KINDS) % len(rates)
        moves = self.noise * generator.normal(size=(_KINDS, self.dimension))
        odds = rates / (1.0 - rates)
        scaled = odds[leaves] * np.exp(self.slope * (moves @ directions.T))
        return _rounded(centres[leaves] + moves, leaves, scaled / (1.0 + scaled))


class OfferVisitors(VisitorEnvironment, frozen=True, tag="offers"):
    """Arms have features as well, such as a price, that differ from round to round.

    The mean reward of an arm is one linear function, the same for all arms, of the visitor's
    features, of the arm's, and of the product of the first of each. So a model that the arms share
    learns from all of them at once, and what it has learned holds for an arm that it has never
    seen.
    """

    offers: Annotated[int, Limits("number of arms", 2, 1000)] = 5
    slope: _Slope = 0.12
    dimension: _Dimension = 3
    arm_dimension: Annotated[int, Limits("number of features of an arm", 1, 124)] = 4
    seed: _Seed = 5

    def kinds(self) -> Kinds:
        generator = generator_for(self.seed, Purpose.VISITORS)
        own = generator.normal(size=(_KINDS, 1, self.dimension)).repeat(self.offers, axis=1)
        offers = generator.normal(size=(_KINDS, self.offers, self.arm_dimension))
        features = np.concatenate([own, offers, own[:, :, :1] * offers[:, :, :1]], axis=2)
        direction = generator.normal(size=features.shape[2])
        direction /= float(np.linalg.norm(direction))
        farthest = np.abs(features @ direction).max(axis=1)[:, np.newaxis, np.newaxis]
        features *= np.minimum(1.0, _FARTHEST / farthest)
        means = 0.5 + self.slope * (features @ direction)
        return _rounded(features, np.zeros(_KINDS, dtype=np.int64), means.clip(0.0, 1.0))


def _rounded(features: Floats, leaves: npt.NDArray[np.int64], means: Floats) -> Kinds:
    """A constant and the features, scaled so that every vector has a length below 1.

    Rounded, because the last bits of matrix products differ between machines, and a run must not.
    """
    vectors = np.concatenate([np.ones((*features.shape[:-1], 1)), features], axis=-1)
    scaled = 0.99 * vectors / np.linalg.norm(vectors, axis=-1).max()
    return Kinds(np.round(scaled, 4), leaves, np.round(means, 6))


_MIXED = (
    (0.55, 0.35, 0.45), (0.35, 0.60, 0.40), (0.30, 0.45, 0.70),
    (0.65, 0.50, 0.30), (0.40, 0.65, 0.55), (0.50, 0.30, 0.60),
)  # fmt: skip
_CLICKS = (
    (0.080, 0.030, 0.050, 0.020, 0.040), (0.030, 0.090, 0.040, 0.050, 0.020),
    (0.020, 0.050, 0.070, 0.030, 0.040), (0.050, 0.020, 0.030, 0.100, 0.060),
    (0.013, 0.030, 0.050, 0.040, 0.080), (0.060, 0.040, 0.030, 0.020, 0.030),
)  # fmt: skip


class MainVisitors(LinearVisitors, frozen=True, tag="visitors-main"):
    """Ten coordinates, five arms, of which one is the best for 98% of the visitors.

    What contexts add is little; what forged feedback can do to those who use them is not.
    """

    levels: _Levels = (0.62, 0.52, 0.50, 0.48, 0.46)
    slope: _Slope = 0.03
    seed: _Seed = 1


class MixedVisitors(LinearVisitors, frozen=True, tag="visitors-mid"):
    """Ten coordinates, five arms, each of which is the best for 12% to 27% of the visitors."""

    levels: _Levels = (0.54, 0.53, 0.52, 0.50, 0.48)
    slope: _Slope = 0.12
    seed: _Seed = 2


class Segments(ClusterVisitors, frozen=True, tag="visitors-segments"):
    """Six segments and three arms, with mean rewards that no linear function describes."""

    rates: _Rates = _MIXED
    seed: _Seed = 3


class ClickVisitors(ClusterVisitors, frozen=True, tag="visitors-clicks"):
    """Six segments and five arms with click rates of 1% to 10%, which features move somewhat."""

    rates: _Rates = _CLICKS
    noise: _Noise = 0.2
    slope: _OddsSlope = 0.3
    dimension: _Dimension = 9
    seed: _Seed = 4


CONTEXTUAL: dict[str, VisitorEnvironment] = {
    "main": MainVisitors(),
    "mid": MixedVisitors(),
    "segments": Segments(),
    "clicks": ClickVisitors(),
}
"""The four situations in which contextual policies are compared."""
