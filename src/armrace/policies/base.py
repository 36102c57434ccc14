"""The base class of policies: a specification that creates a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.kernels.generics import ContextShape
from armrace.specification import Specification
from armrace.theory.eliminations import gaps_of


class ArmView(msgspec.Struct, frozen=True, gc=False):
    """One layer's view of one arm; ``None`` where the policy has no such quantity."""

    layer: int
    arm: int
    assigned: int
    pulls: int
    mean: float | None
    lower: float | None = None
    upper: float | None = None
    active: bool = True
    eliminated_at: int | None = None
    """The round, counted from 1, in which the arm was deleted from the layer."""
    eliminated_by: int | None = None
    evidence: int | None = None
    """The rewards that the interval rests on; in a race that pools, those of slower layers too."""
    evidence_mean: float | None = None
    """Their mean, which lies within the interval."""


class Guarantee(NamedTuple):
    """A proven bound on the pseudo-regret, whatever the attack does."""

    pseudo_regret: float
    failure: float
    """The probability with which the bound may fail; 0 for a bound on the expectation."""


class Policy(Specification, frozen=True):
    """A bandit algorithm, described by its parameters.

    A policy of your own subclasses this, gives a ``tag`` and a ``start``, and registers
    ``distribution``, ``choose``, ``assign`` and ``learn`` for the class of its state.
    """

    kind: ClassVar[str] = "policy"
    families: ClassVar[tuple[str, ...]] = (
        "paper",
        "robust",
        "stochastic",
        "adversarial",
        "contextual",
        "published",
    )
    exact_tickets: ClassVar[bool] = True
    """Whether tickets carry the probability of their arm. If it is costly to compute, tickets
    carry NaN, and ``distribution`` computes it on request."""

    draws_by_weights: ClassVar[bool] = False
    """Whether it draws arms at random by weights that it knows, in some rounds at least. If not, it
    chooses the arm itself, and the probability that a ticket carries is 1 or, if costly, NaN."""

    takes_new_arms: ClassVar[bool] = False
    """Whether arms can be added while it runs: whether it is clear what to think of an arm that was
    never played, whenever the arm comes, as for an index that is then infinite."""

    loses_arms: ClassVar[bool] = False
    """Whether an arm can be taken away while it runs: whether it then chooses among the others as
    well as if the arm had never been there, whatever that arm paid. An index does. A leader does if
    it is told, see :mod:`armrace.policies.leaders.estimates`."""

    learns_from_others: ClassVar[bool] = False
    """Whether a policy that draws by weights learns from decisions that it did not draw, because it
    only counts their rewards. If it divides rewards by probabilities, it must not: what the others
    did not choose had the probability 0. A policy that does not draw by weights may learn."""

    takes_contexts: ClassVar[bool] = False
    """Whether it looks at visitors' contexts; ``start`` then takes their shape, too."""

    takes_arm_features: ClassVar[bool] = False
    """Whether its contexts may have a vector for each arm, with features of the arm."""

    takes_any_reward: ClassVar[bool] = False
    """Whether rewards may lie outside [0, 1], as in experiments with Gaussian ones."""

    def start(self, arms: int, horizon: int) -> Any:
        """Return the state before the first round.

        Args:
            arms: the number of arms.
            horizon: the number of rounds that are planned.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it starts")

    def start_with(self, arms: int, horizon: int, shape: ContextShape | None) -> Any:
        """Return the state before the first round, where visitors may differ.

        Args:
            arms: the number of arms.
            horizon: the number of rounds that are planned.
            shape: how large contexts are; ``None`` if visitors are not told apart.
        """
        if shape is None or not self.takes_contexts:
            return self.start(arms, horizon)
        if shape.of_arms and not self.takes_arm_features:
            # It sees the vectors of all arms as one.
            shape = ContextShape(shape.room(arms), shape.leaves)
        start: Any = self.start
        return start(arms, horizon, shape)

    def layer_count(self, arms: int, horizon: int) -> int:
        """Return the number of layers that learn separately.

        Args:
            arms: the number of arms.
            horizon: the number of rounds that are planned.
        """
        return 1

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        """Return what is proven about the policy, with constants; None if nothing is.

        Args:
            gaps: the gap of every arm except one best arm.
            horizon: the number of rounds.
            corruption: the most that an attack spends, as the paper counts it.
        """
        return None

    def guarantee_at(
        self, means: Sequence[float], horizon: int, corruption: float
    ) -> Guarantee | None:
        """Return what is proven about the policy on arms whose mean rewards are known.

        It is :meth:`guarantee` for their gaps, unless the policy has a theorem that uses means.

        Args:
            means: the mean rewards of the arms.
            horizon: the number of rounds.
            corruption: the most that an attack spends, as the paper counts it.
        """
        return self.guarantee(gaps_of(means), horizon, corruption)

    def coefficients(self, state: Any) -> npt.NDArray[np.float64] | None:
        """Return for each arm (row) what it is predicted to pay for each coordinate of a vector.

        Args:
            state: a state that :meth:`start` has returned.
        """
        return None

    def experts(self, state: Any) -> tuple[list[str], npt.NDArray[np.float64]] | None:
        """Return the experts that learn, and the weight of each at the latest decision.

        The weights of single arms follow those of the experts that are named.

        Args:
            state: a state that :meth:`start` has returned.
        """
        return None

    def inspect(self, state: Any) -> Sequence[ArmView]:
        """Return a view of each layer and arm; an empty one if the state cannot be inspected.

        Args:
            state: a state that :meth:`start` has returned.
        """
        return ()
