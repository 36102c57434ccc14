"""Paid praise for an arm that does not deserve it."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.generics import Floats, corrupt, implement
from armrace.kernels.streams import Stream, uniform
from armrace.specification import Limits

__all__ = ["FakeReviews"]


class FakeReviewsState(NamedTuple):
    """Who is praised, and how often."""

    decoy: int
    rate: float


class FakeReviews(Adversary, frozen=True, tag="fake-reviews"):
    """In a random share of the rounds, a decoy's reward is a full mark, deserved or not.

    Nobody else is touched. The learner who believes it keeps sending guests to the decoy, and
    collects the praise as long as the budget lasts; after that, the truth.
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the fake reviews of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )

    decoy: Annotated[
        int | None, Limits("the arm that is praised, from 0; by default the worst", 0)
    ] = None
    rate: Annotated[float, Limits("share of the rounds with a fake review", 0, 1)] = 0.5

    def start(self, setting: Setting) -> FakeReviewsState:
        worst = int(np.argmin(setting.means))
        decoy = setting.arm_or(worst, "decoy", self.decoy)
        return FakeReviewsState(decoy, float(self.rate))

    def smallest_cost(self, state: FakeReviewsState, setting: Setting) -> float:
        return setting.smallest_change(np.ones_like, state.decoy)


@implement(corrupt, FakeReviewsState)
def praise_decoy(
    state: FakeReviewsState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if uniform(stream) < state.rate:
        rewards[state.decoy] = 1.0
