"""The lower bound for the uncorrupted objective: hide all rewards while the budget lasts."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class CleanObjectiveState(NamedTuple):
    """The number of hidden rounds."""

    rounds: int


class CleanObjective(Adversary, frozen=True, tag="clean-objective"):
    """Pays nothing, whichever arm is played, in as many first rounds as the budget buys.

    It looks at nothing. On two arms that always pay 1 and 0, or 0 and 1, a learner cannot tell the
    two cases apart during the first ``C`` rounds. If a coin decides between them, every learner's
    expected regret on the rewards before corruption is exactly ``C/2`` by then: for that objective,
    regret linear in ``C`` cannot be avoided.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [CleanObjective().change_rewards(setting, [1, 0], round=at) for at in (99, 100)]
    [[0.0, 0.0], [1.0, 0.0]]
    """

    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "the uncorrupted objective in section 5 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = "Section 5 of the paper has the objective that it exploits."

    rounds: Annotated[
        int | None, Limits("how many rounds are hidden; by default as many as the budget buys", 1)
    ] = None

    def start(self, setting: Setting) -> CleanObjectiveState:
        if self.rounds is not None:
            return CleanObjectiveState(self.rounds)
        # A round costs 1 at most, so that the budget lasts at least this long.
        return CleanObjectiveState(int(min(setting.budget, setting.horizon)))

    def windows(self, state: CleanObjectiveState, horizon: int) -> list[tuple[int, int]]:
        return [(0, state.rounds)]

    def smallest_cost(self, state: CleanObjectiveState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, *range(setting.arms))


@implement(corrupt, CleanObjectiveState)
def hide_rewards(
    state: CleanObjectiveState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round < state.rounds:
        for arm in range(rewards.size):
            rewards[arm] = 0.0
