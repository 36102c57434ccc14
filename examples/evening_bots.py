"""An attack of our own, in a module that can be imported: bots that come in the evening."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from armrace.extending import Adversary, Limits, corrupt, implement


class EveningState(NamedTuple):
    """What the attack knows."""

    best: int
    day: int
    begins: int


class EveningBots(Adversary, frozen=True, tag="evening-bots"):
    """Hides the best arm in the last part of each day, and praises all others."""

    family = "daily life"
    reference = "an example"

    day: Annotated[int, Limits("decisions a day", 10, 1_000_000)] = 1000
    evening: Annotated[float, Limits("share of the day in which bots come", 0.01, 1)] = 0.25

    def start(self, setting):
        """Return the state before the first round."""
        return EveningState(setting.best, self.day, round(self.day * (1 - self.evening)))


@implement(corrupt, EveningState)
def come_in_the_evening(state, round, weights, rewards, left, stream):
    """Change the rewards of one round; the engine checks and charges the change."""
    if round % state.day >= state.begins:
        for arm in range(rewards.size):
            rewards[arm] = 0.0 if arm == state.best else 1.0
