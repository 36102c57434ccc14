"""The race: layers of active arm elimination, coupled by global eliminations.

One mechanism carries the races of Lykouris, Mirrokni and Paes Leme (STOC 2018) and their sharper
forms: plain and enlarged active arm elimination are races of one layer, the Fast-Slow race has
two, the Multi-layer race ``ceil(lg T)``. Layers run from the fastest (0) to the most robust (the
last).

A layer keeps a confidence interval for each arm, made by the race's :class:`Rule` of the rewards
of its own plays or, if the race is *pooled*, of those and the plays of all slower layers. An arm
is deleted when its interval lies wholly below that of another active arm, and then from all
faster layers too. A layer plays its active arms in turn; in a race that *leads*, so many plays
after each turn go to the arm with the best mean instead.

A reward changes only the intervals of its own arm. Those that are costly to compute are computed
anew only when the number of rewards has grown by a hundredth or so: an interval that holds for
all times holds at those of one's choice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import NO_LAYER, Ticket, decide, distribution, implement, learn
from armrace.kernels.intervals import PAPER, Rule, ends, needs_squares
from armrace.kernels.streams import Stream, uniform

__all__ = [
    "NEVER",
    "Race",
    "arm_probability",
    "delete_arm",
    "evidence",
    "fallback_arm",
    "halving_layer_at",
    "interval",
    "layer_at",
    "layer_from",
    "make_race",
    "play_layer",
]

NEVER = -1
"""The round and layer of an elimination that has not happened, and the leader of no arms."""

_EXPONENT_OF_A_HALF, _MANTISSA = 1022, 52
"""Of a double: its exponent as stored, and the bits below it."""

_PATIENCE = 7
"""An interval is computed anew after ``n / 2^7`` further rewards."""


class Race(NamedTuple):
    """State of a race; two-dimensional arrays have a row a layer and a column an arm."""

    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    """Rewards of the layer's own plays; what others contribute is in no count of a layer's."""
    sums: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]
    """Sums of the rewards' squares, where the rule needs them."""
    means: npt.NDArray[np.float64]
    """Centres of the intervals, where the race leads; minus infinity as for ``lower``."""
    lower: npt.NDArray[np.float64]
    """Lower ends of the intervals; minus infinity where deleted or without a reward."""
    upper: npt.NDArray[np.float64]
    highest_lower: npt.NDArray[np.float64]
    lowest_upper: npt.NDArray[np.float64]
    """The extreme ends of each layer: an arm is to be deleted when they pass one another."""
    patience: npt.NDArray[np.int64]
    """Rewards to come before the interval is computed anew."""
    active: npt.NDArray[np.bool_]
    active_count: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]
    """The active arm whose turn it is, for each layer that has active arms."""
    leader: npt.NDArray[np.int64]
    """The active arm with the best mean, for each layer of a race that leads."""
    leads: npt.NDArray[np.int64]
    """How many plays the leader has before it is another arm's turn."""
    eliminated_at: npt.NDArray[np.int64]
    eliminated_by: npt.NDArray[np.int64]
    deletions: npt.NDArray[np.int64]
    """How many entries of ``active`` have become false."""
    share: npt.NDArray[np.float64]
    tail: npt.NDArray[np.float64]
    """Probability of a layer or any slower one; one longer than there are layers."""
    tolerated: npt.NDArray[np.float64]
    """The corruption up to which each layer is sure of its arms."""
    halving: npt.NDArray[np.bool_]
    """Whether each layer but the first has half of the share before it, down to ``2^-layers``."""
    rule: Rule
    pooled: npt.NDArray[np.bool_]
    leading: npt.NDArray[np.int64]
    """How many plays the leader of a layer has after each turn; 0 in a race that does not lead."""
    rounds: npt.NDArray[np.int64]
    """How many decisions have been made."""


def make_race(
    arms: int,
    share: npt.NDArray[np.float64],
    rule: Rule,
    pooled: bool = False,
    leading: int = 0,
    tolerated: npt.NDArray[np.float64] | None = None,
) -> Race:
    """A race at its start: all arms active in all layers.

    A layer tolerates a corruption of one over its share unless told otherwise.
    """
    layers = share.size
    shape = (layers, arms)
    return Race(
        assigned=np.zeros(shape, dtype=np.int64),
        pulls=np.zeros(shape, dtype=np.int64),
        sums=np.zeros(shape),
        squares=np.zeros(shape),
        means=np.full(shape, -np.inf),
        lower=np.full(shape, -np.inf),
        upper=np.full(shape, np.inf),
        highest_lower=np.full(layers, -np.inf),
        lowest_upper=np.full(layers, np.inf),
        patience=np.zeros(shape, dtype=np.int64),
        active=np.ones(shape, dtype=np.bool_),
        active_count=np.full(layers, arms, dtype=np.int64),
        turn=np.zeros(layers, dtype=np.int64),
        leader=np.full(layers, NEVER, dtype=np.int64),
        leads=np.zeros(layers, dtype=np.int64),
        eliminated_at=np.full(shape, NEVER, dtype=np.int64),
        eliminated_by=np.full(shape, NEVER, dtype=np.int64),
        deletions=np.zeros(1, dtype=np.int64),
        share=share,
        tail=np.append(np.cumsum(share[::-1])[::-1], 0.0),
        tolerated=_one_over(share) if tolerated is None else tolerated,
        halving=np.array([_halves(share)]),
        rule=rule,
        pooled=np.array([pooled]),
        leading=np.array([leading], dtype=np.int64),
        rounds=np.zeros(1, dtype=np.int64),
    )


def _one_over(share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(1.0, share, out=np.full(share.size, np.inf), where=share > 0.0)


def _halves(share: npt.NDArray[np.float64]) -> bool:
    usual = 2.0 ** -np.arange(1.0, share.size + 1)
    return share.size > 1 and bool(np.array_equal(share[1:], usual[1:]))


@inlined
def evidence(state: Race, layer: int, arm: int) -> tuple[int, float, float]:
    """Number, sum and sum of squares of the rewards that a layer goes by."""
    pulls, total = state.pulls[layer, arm], state.sums[layer, arm]
    squares = state.squares[layer, arm]
    if state.pooled[0]:
        for slower in range(layer + 1, state.share.size):
            pulls += state.pulls[slower, arm]
            total += state.sums[slower, arm]
            squares += state.squares[slower, arm]
    return pulls, total, squares


@inlined
def interval(
    state: Race, layer: int, pulls: int, total: float, squares: float
) -> tuple[float, float]:
    """The interval that a layer makes of so many rewards."""
    rule = state.rule
    return ends(
        rule.kind[0],
        pulls,
        total,
        squares,
        rule.log_lower[layer],
        rule.log_upper[layer],
        rule.allowance[layer],
    )


@implement(distribution, Race)
def race_distribution(state: Race, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    fallback = fallback_arm(state)
    for layer in range(state.share.size):
        arm = _next_arm(state, layer) if state.active_count[layer] > 0 else fallback
        out[arm] += state.share[layer]


@implement(decide, Race)
def race_decide(state: Race, stream: Stream) -> Ticket:
    state.rounds[0] += 1
    layer = layer_from(state, 0, stream) if state.share.size > 1 else 0
    if state.active_count[layer] == 0:
        arm = fallback_arm(state)
        return Ticket(arm, NO_LAYER, arm_probability(state, arm), 0)
    return play_layer(state, layer, arm_probability(state, _next_arm(state, layer)))


@inlined
def play_layer(state: Race, layer: int, probability: float) -> Ticket:
    """Let a layer with active arms make its next play, which had this probability."""
    arm = _next_arm(state, layer)
    state.assigned[layer, arm] += 1
    if state.leads[layer] > 0:
        state.leads[layer] -= 1
    else:
        state.leads[layer] = state.leading[0]
        if state.active_count[layer] > 1:
            _pass_turn(state, layer)
    return Ticket(arm, layer, probability, 0)


@implement(learn, Race)
def race_learn(state: Race, ticket: Ticket, reward: float) -> None:
    layer, arm = ticket.layer, ticket.arm
    if layer == NO_LAYER:
        return
    state.pulls[layer, arm] += 1
    state.sums[layer, arm] += reward
    if needs_squares(state.rule.kind[0]):
        state.squares[layer, arm] += reward * reward
    fastest = 0 if state.pooled[0] else layer
    for user in range(layer, fastest - 1, -1):
        # where a single arm is left, no interval matters any more
        if state.active_count[user] > 1 and state.active[user, arm]:
            _take_up(state, user, arm)


@inlined
def _take_up(state: Race, layer: int, arm: int) -> None:
    """Let a layer look at one more reward of an active arm."""
    if state.patience[layer, arm] > 0:
        state.patience[layer, arm] -= 1
        return
    pulls, total, squares = evidence(state, layer, arm)
    low, high = interval(state, layer, pulls, total, squares)
    if state.rule.kind[0] != PAPER:
        state.patience[layer, arm] = pulls >> _PATIENCE
    _move_interval(state, layer, arm, low, high)
    if state.lowest_upper[layer] < state.highest_lower[layer]:
        _eliminate(state, layer)
    if state.leading[0] > 0 and state.active[layer, arm]:
        _follow(state, layer, arm, total / pulls)


@inlined
def layer_from(state: Race, fastest: int, stream: Stream) -> int:
    """Draw a layer, given that it is none before ``fastest``."""
    level = uniform(stream) * state.tail[fastest]
    if state.halving[0]:
        return halving_layer_at(level, state.share)
    return layer_at(level, state.tail, fastest)


@inlined
def layer_at(level: float, tail: npt.NDArray[np.float64], fastest: int) -> int:
    """The layer whose stretch of [0, 1) holds ``level``; the slowest have the lowest levels."""
    layer = fastest
    while level < tail[layer + 1]:
        layer += 1
    return layer


@inlined
def halving_layer_at(level: float, share: npt.NDArray[np.float64]) -> int:
    """:func:`layer_at` for shares that halve from layer to layer, without a branch.

    Then layer ``l``, from 0, begins at ``2^-(l+1) - 2^-layers``. With ``2^-layers`` added, the last
    share, which is exact, a level's binary exponent tells its layer.
    """
    last = share.size - 1
    exponent = int(np.float64(level + share[last]).view(np.int64) >> _MANTISSA)
    return min(max(_EXPONENT_OF_A_HALF - exponent, 0), last)


@inlined
def _next_arm(state: Race, layer: int) -> int:
    """What a layer with active arms plays next."""
    if state.leads[layer] > 0 and state.leader[layer] != NEVER:
        return state.leader[layer]
    return state.turn[layer]


@inlined
def arm_probability(state: Race, arm: int) -> float:
    """Total share of the layers whose next play is ``arm``."""
    total = 0.0
    fallback = fallback_arm(state)
    for layer in range(state.share.size):
        following = _next_arm(state, layer) if state.active_count[layer] > 0 else fallback
        if following == arm:
            total += state.share[layer]
    return total


@inlined
def fallback_arm(state: Race) -> int:
    """What an empty layer plays: the best mean of the fastest layer that is not empty."""
    layer = 0
    for _ in range(state.share.size - 1):  # a loop with an end is left out where nobody asks
        if state.active_count[layer] > 0:
            break
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
    that has had the fewest turns, the lowest index first among equals.
    """
    arms = state.active.shape[1]
    arm = state.turn[layer]
    for _ in range(arms):
        arm = arm + 1 if arm + 1 < arms else 0
        if state.active[layer, arm]:
            break
    state.turn[layer] = arm


@inlined
def _move_interval(state: Race, layer: int, arm: int, low: float, high: float) -> None:
    """Give an arm its new interval, and keep the extreme ends of the layer up to date.

    The other ends are looked through only where the arm held an extreme and no longer does.
    """
    was_highest = state.lower[layer, arm] == state.highest_lower[layer]
    was_lowest = state.upper[layer, arm] == state.lowest_upper[layer]
    state.lower[layer, arm] = low
    state.upper[layer, arm] = high
    if low >= state.highest_lower[layer]:
        state.highest_lower[layer] = low
    elif was_highest:
        state.highest_lower[layer] = _largest(state.lower[layer])
    if high <= state.lowest_upper[layer]:
        state.lowest_upper[layer] = high
    elif was_lowest:
        state.lowest_upper[layer] = _smallest(state.upper[layer])


@inlined
def _largest(ends: npt.NDArray[np.float64]) -> float:
    largest = -np.inf
    for arm in range(ends.size):
        largest = max(largest, ends[arm])
    return largest


@inlined
def _smallest(ends: npt.NDArray[np.float64]) -> float:
    smallest = np.inf
    for arm in range(ends.size):
        smallest = min(smallest, ends[arm])
    return smallest


@inlined
def _eliminate(state: Race, layer: int) -> None:
    """Delete every arm of ``layer`` whose interval lies below another's.

    One pass does what the paper's loop does: whoever is deleted on account of an arm that is
    itself deleted would also be deleted on account of the latter's better.
    """
    highest_lower = state.highest_lower[layer]
    for arm in range(state.upper.shape[1]):
        if state.upper[layer, arm] < highest_lower:
            delete_arm(state, layer, arm)


@inlined
def _follow(state: Race, layer: int, arm: int, mean: float) -> None:
    """Let the layer be led by its best mean, now that this arm's has changed."""
    state.means[layer, arm] = mean
    leader = state.leader[layer]
    if leader in (arm, NEVER):
        state.leader[layer] = _best_mean(state, layer)
        return
    best = state.means[layer, leader]
    if mean > best or (mean == best and arm < leader):
        state.leader[layer] = arm


@inlined
def _best_mean(state: Race, layer: int) -> int:
    """The active arm with the best mean, the first of equals; none before the first reward."""
    best, best_mean = NEVER, -np.inf
    for arm in range(state.means.shape[1]):
        if state.means[layer, arm] > best_mean:
            best, best_mean = arm, state.means[layer, arm]
    return best


@inlined
def delete_arm(state: Race, by_layer: int, arm: int) -> None:
    """Delete an arm from ``by_layer``, which may be one beyond the race's own, and all faster."""
    for layer in range(min(by_layer + 1, state.share.size)):
        if state.active[layer, arm]:
            state.active[layer, arm] = False
            state.active_count[layer] -= 1
            state.deletions[0] += 1
            state.lower[layer, arm] = -np.inf
            state.upper[layer, arm] = np.inf
            state.means[layer, arm] = -np.inf
            state.highest_lower[layer] = _largest(state.lower[layer])
            state.lowest_upper[layer] = _smallest(state.upper[layer])
            state.eliminated_at[layer, arm] = state.rounds[0]
            state.eliminated_by[layer, arm] = by_layer
            if state.turn[layer] == arm:
                _pass_turn(state, layer)
            if state.leader[layer] == arm:
                state.leader[layer] = _best_mean(state, layer)
