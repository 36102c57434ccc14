"""A second family of attacks, for ``docs/locked.py`` alone.

It was written after the policies were chosen and differs in kind from the two-phase family that
they were chosen against: it has a *rhythm* in place of phases, forges *parts* of rewards or lets
several decoys take turns, and is driven by the odds of the best arm against its strongest rival or
by what the learner has just been paid. The classes are not in the catalogue, so no search uses
them unless it is told to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.extending import (
    Adversary,
    Floats,
    Limits,
    Setting,
    Stream,
    corrupt,
    implement,
    inlined,
    observe,
    uniform,
)

__all__ = ["BlindRhythmic", "Rhythmic", "hand_made"]

Rhythm = Literal["steady", "pulsed", "swelling", "echo"]
Forgery = Literal["drip", "level", "rotate", "flip", "hide"]
RHYTHMS: tuple[Rhythm, ...] = ("steady", "pulsed", "swelling", "echo")
FORGERIES: tuple[Forgery, ...] = ("drip", "level", "rotate", "flip", "hide")
_STEADY, _PULSED, _SWELLING, _ECHO = range(len(RHYTHMS))
_DRIP, _LEVEL, _ROTATE, _FLIP, _HIDE = range(len(FORGERIES))


class RhythmicState(NamedTuple):
    """When and what is forged, and until which round an echo lasts."""

    rhythm: int
    forgery: int
    looks: bool
    best: int
    decoy: int
    strength: float
    start: float
    period: float
    duty: float
    odds: float
    echo_until: npt.NDArray[np.int64]


class Rhythmic(Adversary, frozen=True, tag="rhythmic"):
    """Forges rewards in a rhythm.

    Rhythms: ``steady``; ``pulsed``, in the first part ``duty`` of every period; ``swelling``, in
    ever more rounds, until after one period all are hit; ``echo``, for one hundredth of a period
    after the learner was paid more than 1/2 by the best arm.

    Forgeries: ``drip`` moves the best arm's reward by ``strength`` of the way to 0 and all others'
    as far to 1; ``level`` shows the second best arm's reward on the best arm; ``rotate`` shows 0 on
    the best arm and 1 on one other, which changes every round; ``flip`` shows ``1 - x`` on the two
    best arms; ``hide`` moves the best arm's reward by ``strength`` of the way to 0.
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "written to judge policies that were chosen against other attacks"
    scales: ClassVar[Mapping[str, str]] = {"start_at": "log", "period": "log"}

    rhythm: Annotated[Rhythm, "when rewards are forged"] = "steady"
    forgery: Annotated[Forgery, "what is forged"] = "drip"
    strength: Annotated[float, Limits("part of the way that a reward is moved", 0.01, 1)] = 1.0
    start_at: Annotated[float, Limits("share of the horizon that passes first", 0, 1)] = 0.0
    period: Annotated[float, Limits("length of a period, as a share of the horizon", 0, 1)] = 0.05
    duty: Annotated[float, Limits("part of a period in which a pulse strikes", 0.01, 1)] = 0.2
    odds: Annotated[
        float, Limits("least ratio of the best arm's probability to the likeliest other's", 0, 4)
    ] = 0.0

    def start(self, setting: Setting) -> RhythmicState:
        """No round was played."""
        return RhythmicState(
            rhythm=RHYTHMS.index(self.rhythm),
            forgery=FORGERIES.index(self.forgery),
            looks=self.sees_weights,
            best=setting.best,
            decoy=setting.runner_up,
            strength=float(self.strength),
            start=self.start_at * setting.horizon,
            period=max(2.0, self.period * setting.horizon),
            duty=float(self.duty),
            odds=float(self.odds),
            echo_until=np.zeros(1, dtype=np.int64),
        )


class BlindRhythmic(Rhythmic, frozen=True, tag="blind-rhythmic"):
    """As ``rhythmic``, without a look at the learner's distribution: ``odds`` does not matter."""

    sees_weights: ClassVar[bool] = False


def hand_made(family: type[Rhythmic]) -> list[Rhythmic]:
    """Return some members to begin a search with."""
    members = [
        family(rhythm=rhythm, forgery=forgery) for rhythm in RHYTHMS for forgery in FORGERIES
    ]
    members += [
        family(forgery=forgery, strength=strength)
        for forgery in ("drip", "hide")
        for strength in (0.1, 0.25, 0.5)
    ]
    members += [family(forgery="drip", odds=odds) for odds in (0.25, 1.0, 4.0)]
    members += [family(forgery="rotate", odds=odds, start_at=0.02) for odds in (0.25, 1.0)]
    return members


@inlined
def _is_time(state: RhythmicState, round: int, stream: Stream) -> bool:
    since = round - state.start
    if since < 0.0:
        return False
    if state.rhythm == _PULSED:
        return since % state.period < state.duty * state.period
    if state.rhythm == _SWELLING:
        return uniform(stream) * state.period < since
    if state.rhythm == _ECHO:
        return round < state.echo_until[0]
    return True


@inlined
def _are_odds_good(state: RhythmicState, weights: Floats) -> bool:
    if not state.looks or state.odds == 0.0:
        return True
    rival = 0.0
    for arm in range(weights.size):
        if arm != state.best:
            rival = max(rival, weights[arm])
    return weights[state.best] >= state.odds * rival


@implement(corrupt, RhythmicState)
def forge_in_rhythm(
    state: RhythmicState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if not _is_time(state, round, stream) or not _are_odds_good(state, weights):
        return
    best, decoy, strength = state.best, state.decoy, state.strength
    if state.forgery == _DRIP:
        for arm in range(rewards.size):
            rewards[arm] += strength * (1.0 - rewards[arm]) if arm != best else 0.0
        rewards[best] *= 1.0 - strength
    elif state.forgery == _LEVEL:
        rewards[best] = rewards[decoy]
    elif state.forgery == _ROTATE:
        turn = round % (rewards.size - 1)
        rewards[turn if turn < best else turn + 1] = 1.0
        rewards[best] = 0.0
    elif state.forgery == _FLIP:
        rewards[best] = 1.0 - rewards[best]
        rewards[decoy] = 1.0 - rewards[decoy]
    else:
        rewards[best] *= 1.0 - strength


@implement(observe, RhythmicState)
def hear_the_best_arm(state: RhythmicState, round: int, arm: int, reward: float) -> None:
    if arm == state.best and reward > 0.5:
        state.echo_until[0] = round + 1 + max(1, int(0.01 * state.period))
