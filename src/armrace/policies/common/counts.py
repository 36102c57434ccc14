"""Plays and rewards of each arm: what nearly every policy keeps.

A play counts as *assigned* when it is decided and as *pulled* when its reward has come; the
two differ only while feedback is outstanding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined
from armrace.kernels.leaves import row_of
from armrace.limits import Limits
from armrace.policies.base import ArmView, Policy


class Counts(NamedTuple):
    """Counts and reward sums, one per arm, and the number of decisions."""

    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]


def make_counts(arms: int) -> Counts:
    """Counts before the first round.

    Args:
        arms: the number of arms.
    """
    return Counts(
        assigned=np.zeros(arms, dtype=np.int64),
        pulls=np.zeros(arms, dtype=np.int64),
        sums=np.zeros(arms),
        rounds=np.zeros(1, dtype=np.int64),
    )


@inlined
def count_play(counts: Counts, arm: int) -> None:
    """Count a decision.

    Args:
        counts: the counts to change.
        arm: the arm of the decision.
    """
    counts.rounds[0] += 1
    counts.assigned[arm] += 1


@inlined
def record(counts: Counts, arm: int, reward: float) -> float:
    """Count a reward, and return the arm's new mean.

    Args:
        counts: the counts to change.
        arm: the arm that paid.
        reward: what it paid.
    """
    pulls = counts.pulls[arm] + 1
    total = counts.sums[arm] + reward
    counts.pulls[arm] = pulls
    counts.sums[arm] = total
    return total / pulls


class CountingPolicy(Policy, frozen=True):
    """A policy of one layer whose state has ``counts``."""

    def upper_bound(self, state: Any, arm: int) -> float | None:
        """The arm's index, for a policy that has one.

        Args:
            state: a state with ``counts``.
            arm: the arm.
        """
        return None

    def inspect(self, state: Any) -> Sequence[ArmView]:
        counts: Counts = state.counts
        return [
            ArmView(
                layer=0,
                arm=arm,
                assigned=int(counts.assigned[arm]),
                pulls=int(pulls),
                mean=float(counts.sums[arm] / pulls) if pulls else None,
                upper=self.upper_bound(state, arm) if pulls else None,
            )
            for arm, pulls in enumerate(counts.pulls)
        ]


class LeafPolicy(CountingPolicy, frozen=True):
    """A policy that plays each leaf as a problem of its own."""

    family: ClassVar[str] = "contextual"
    reference: ClassVar[str] = "the policy of each leaf, which see"
    takes_contexts: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True

    def inspect(self, state: Any) -> Sequence[ArmView]:
        """Return a view of each arm in each leaf, whose number stands for the layer."""
        return [
            msgspec.structs.replace(view, layer=leaf)
            for leaf in range(state.leaf_count)
            for view in super(LeafPolicy, self).inspect(row_of(state.stack, leaf))
        ]


class RandomisedFeedback(CountingPolicy, frozen=True):
    """A policy that undoes randomised response."""

    family: ClassVar[str] = "robust"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Gajane, Urvoy and Kaufmann (2018), Corrupt bandits for preserving local privacy"
    )
    source_kind: ClassVar[str] = "print"

    p00: Annotated[float, Limits("probability that a reward of 0 is seen as 0", 0, 1)] = 0.9
    p11: Annotated[float, Limits("probability that a reward of 1 is seen as 1", 0, 1)] = 0.9

    def validate(self) -> None:
        if self.p00 + self.p11 == 1:
            raise InvalidParameter(
                "p00 and p11 must not add to 1, where feedback says nothing; "
                f"got {self.p00:g} and {self.p11:g}."
            )

    @property
    def falls(self) -> bool:
        """Whether the mean that an arm shows falls as its mean rises."""
        return self.p00 + self.p11 < 1
