"""Full marks for an arm that does not deserve them."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits


class FakeReviewsState(NamedTuple):
    """The arm that is praised, and in which share of the rounds."""

    decoy: int
    rate: float


class FakeReviews(Adversary, frozen=True, tag="fake-reviews"):
    """In a random share of the rounds, a decoy's reward is a full mark, deserved or not.

    Other arms keep their rewards. It knows the means and looks at nothing else. A learner that is
    misled keeps playing the decoy, and is paid for it as long as the budget lasts.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> FakeReviews(rate=1.0).change_rewards(setting, [1, 0])
    [1.0, 1.0]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the fake reviews of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of bought reviews."

    decoy: Annotated[
        int | None, Limits("the arm that is praised, from 0; by default the worst", 0)
    ] = None
    rate: Annotated[float, Limits("share of the rounds with a fake review", 0, 1)] = 0.5

    def start(self, setting: Setting) -> FakeReviewsState:
        worst = int(np.argmin(setting.means))  # the first of equals
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
