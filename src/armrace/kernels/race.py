"""The race: layers of active arm elimination, coupled by global eliminations.

One mechanism carries four algorithms of Lykouris, Mirrokni and Paes Leme (STOC 2018): plain
and enlarged active arm elimination are races of one layer, the Fast-Slow race has two, the
Multi-layer race ``ceil(lg T)``. Layers run from the fastest (0) to the most robust (the last).

A layer keeps for each arm the confidence interval ``mean +- sqrt(L / n) + c / n``, where ``L``
is the race's logarithmic term and ``c`` the layer's allowance for corruption. A reward changes
only the interval of its own arm; an arm is deleted when its interval lies wholly below that of
another active arm, and then from all faster layers too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import NO_LAYER, Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream, uniform

__all__ = ["NEVER", "Race", "arm_probability", "delete_arm", "half_width", "make_race"]

NEVER = -1
"""The round and layer of an elimination that has not happened."""


class Race(NamedTuple):
    """State of a race; two-dimensional arrays have a row a layer and a column an arm."""

    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    """Lower ends of the intervals; minus infinity where deleted or without a reward."""
    upper: npt.NDArray[np.float64]
    active: npt.NDArray[np.bool_]
    active_count: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]
    """The active arm with the fewest assigned plays, for each layer that has active arms."""
    eliminated_at: npt.NDArray[np.int64]
    eliminated_by: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]
    tail: npt.NDArray[np.float64]
    """Probability of a layer or any slower one; one longer than there are layers."""
    allowance: npt.NDArray[np.float64]
    log_term: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]
    """How many decisions have been made."""


def make_race(
    arms: int,
    share: npt.NDArray[np.float64],
    allowance: npt.NDArray[np.float64],
    log_term: float,
) -> Race:
    """A race at its start: all arms active in all layers."""
    layers = share.size
    shape = (layers, arms)
    return Race(
        assigned=np.zeros(shape, dtype=np.int64),
        pulls=np.zeros(shape, dtype=np.int64),
        sums=np.zeros(shape),
        lower=np.full(shape, -np.inf),
        upper=np.full(shape, np.inf),
        active=np.ones(shape, dtype=np.bool_),
        active_count=np.full(layers, arms, dtype=np.int64),
        turn=np.zeros(layers, dtype=np.int64),
        eliminated_at=np.full(shape, NEVER, dtype=np.int64),
        eliminated_by=np.full(shape, NEVER, dtype=np.int64),
        share=share,
        tail=np.append(np.cumsum(share[::-1])[::-1], 0.0),
        allowance=allowance,
        log_term=np.array([log_term]),
        rounds=np.zeros(1, dtype=np.int64),
    )


@inlined
def half_width(pulls: float, log_term: float, allowance: float) -> float:
    """Half the width of the confidence interval after ``pulls`` rewards."""
    return math.sqrt(log_term / pulls) + allowance / pulls


@implement(distribution, Race)
def race_distribution(state: Race, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    fallback = _fallback(state)
    for layer in range(state.share.size):
        arm = state.turn[layer] if state.active_count[layer] > 0 else fallback
        out[arm] += state.share[layer]


@implement(decide, Race)
def race_decide(state: Race, stream: Stream) -> Ticket:
    state.rounds[0] += 1
    layer = _sample_layer(state, stream)
    if state.active_count[layer] == 0:
        arm = _fallback(state)
        return Ticket(arm, NO_LAYER, arm_probability(state, arm), 0)
    arm = state.turn[layer]
    probability = arm_probability(state, arm)
    state.assigned[layer, arm] += 1
    _pass_turn(state, layer)
    return Ticket(arm, layer, probability, 0)


@implement(learn, Race)
def race_learn(state: Race, ticket: Ticket, reward: float) -> None:
    layer, arm = ticket.layer, ticket.arm
    if layer == NO_LAYER:
        return
    pulls = state.pulls[layer, arm] + 1
    total = state.sums[layer, arm] + reward
    state.pulls[layer, arm] = pulls
    state.sums[layer, arm] = total
    if state.active[layer, arm]:
        mean = total / pulls
        width = half_width(pulls, state.log_term[0], state.allowance[layer])
        state.lower[layer, arm] = mean - width
        state.upper[layer, arm] = mean + width
        _eliminate(state, layer)


@inlined
def _sample_layer(state: Race, stream: Stream) -> int:
    layer = 0
    if state.share.size > 1:
        level = uniform(stream)
        while level < state.tail[layer + 1]:
            layer += 1
    return layer


@inlined
def arm_probability(state: Race, arm: int) -> float:
    """Total share of the layers whose next play is ``arm``."""
    total = 0.0
    fallback = _fallback(state)
    for layer in range(state.share.size):
        following = state.turn[layer] if state.active_count[layer] > 0 else fallback
        if following == arm:
            total += state.share[layer]
    return total


@inlined
def _fallback(state: Race) -> int:
    """What an empty layer plays: the best mean of the fastest layer that is not empty."""
    layer = 0
    while state.active_count[layer] == 0:
        layer += 1
    if layer == 0:
        return NEVER
    best, best_mean = NEVER, -1.0
    for arm in range(state.active.shape[1]):
        if state.active[layer, arm]:
            pulls = state.pulls[layer, arm]
            mean = state.sums[layer, arm] / pulls if pulls > 0 else 0.0
            if mean > best_mean:
                best, best_mean = arm, mean
    return best


@inlined
def _pass_turn(state: Race, layer: int) -> None:
    """Move to the next active arm.

    Arms leave but never enter, so going round in order of index always meets the active arm
    with the fewest assigned plays, the lowest index first among equals.
    """
    arms = state.active.shape[1]
    arm = state.turn[layer]
    for _ in range(arms):
        arm = arm + 1 if arm + 1 < arms else 0
        if state.active[layer, arm]:
            break
    state.turn[layer] = arm


@inlined
def _eliminate(state: Race, layer: int) -> None:
    """Delete every arm of ``layer`` whose interval lies below another's.

    One pass does what the paper's loop does: whoever is deleted on account of an arm that is
    itself deleted would also be deleted on account of the latter's better.
    """
    lower, upper = state.lower[layer], state.upper[layer]
    highest_lower, lowest_upper = -np.inf, np.inf
    for arm in range(lower.size):
        highest_lower = max(highest_lower, lower[arm])
        lowest_upper = min(lowest_upper, upper[arm])
    if lowest_upper < highest_lower:
        for arm in range(lower.size):
            if upper[arm] < highest_lower:
                delete_arm(state, layer, arm)


@inlined
def delete_arm(state: Race, by_layer: int, arm: int) -> None:
    """Delete an arm from ``by_layer``, which may be one beyond the race's own, and all faster."""
    for layer in range(min(by_layer + 1, state.share.size)):
        if state.active[layer, arm]:
            state.active[layer, arm] = False
            state.active_count[layer] -= 1
            state.lower[layer, arm] = -np.inf
            state.upper[layer, arm] = np.inf
            state.eliminated_at[layer, arm] = state.rounds[0]
            state.eliminated_by[layer, arm] = by_layer
            if state.turn[layer] == arm:
                _pass_turn(state, layer)
