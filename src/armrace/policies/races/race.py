"""The race: layers of active arm elimination, coupled by global eliminations.

One mechanism carries the races of Lykouris, Mirrokni and Paes Leme (STOC 2018) and their sharper
forms: plain and enlarged active arm elimination are races of one layer, the Fast-Slow race has
two, the Multi-layer race ``ceil(lg T)``. Layers run from the fastest (0) to the most robust (the
last).

A layer keeps a confidence interval for each arm. The race's :class:`Rule` computes it from the
rewards of the layer's own plays or, if the race is *pooled*, from those and the plays of all slower
layers. An arm is deleted when its interval lies entirely below that of another active arm; it is
then deleted from all faster layers too. A layer plays its active arms in turn; in a race that
*leads*, a fixed number of plays after each turn go to the arm with the best mean instead.

Intervals are not recomputed at every reward. Each arm has a *patience*, the number of further
rewards that are only counted and summed. With the paper's intervals, patience is short enough that
no sequence of rewards in [0, 1] could delete an arm before it ends, so that every deletion happens
in the same round as in the paper. The other intervals are costly, and are recomputed when the
number of rewards has grown by about one per cent. This is valid because those intervals hold at
all times simultaneously, so in particular at the times at which they are evaluated. In a layer with
a single active arm nothing can be deleted, and patience never ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.generics import (
    NO_LAYER,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    implement,
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream, uniform
from armrace.policies.races.intervals import PAPER, needs_squares
from armrace.policies.races.state import (
    CELL,
    FOREVER,
    LAYER,
    NEVER,
    Race,
    cell_of,
    evidence,
    interval,
    layer_of,
    make_race,
)

__all__ = [
    "CELL",
    "FOREVER",
    "LAYER",
    "NEVER",
    "Race",
    "arm_probability",
    "assign_to_layer",
    "cell_of",
    "delete_arm",
    "draw_layer",
    "evidence",
    "fallback_arm",
    "halving_layer_at",
    "interval",
    "layer_at",
    "layer_from",
    "layer_of",
    "make_race",
    "next_arm",
]

_EXPONENT_OF_A_HALF, _MANTISSA = 1022, 52
"""The stored exponent of 0.5 as a double, and the number of mantissa bits below the exponent."""

_PATIENCE = 7
"""Intervals other than the paper's are recomputed after ``n / 2^7`` further rewards."""
_CAUTION = 0.999
"""A safety factor, so that rounding errors never make patience too long."""


@implement(distribution, Race)
def race_distribution(state: Race, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    fallback = fallback_arm(state)
    for layer in range(state.share.size):
        out[_next_arm_or(fallback, layer_of(state, layer))] += state.share[layer]


@implement(choose, Race)
def race_choose(state: Race, stream: Stream, eligible: Eligible = None) -> Ticket:
    number = draw_layer(state, stream) if state.share.size > 1 else 0
    if eligible is not None:
        return _choose_eligible(state, number, eligible)
    if layer_of(state, number).active_count == 0:
        arm = fallback_arm(state)
        return make_ticket(arm, NO_LAYER, arm_probability(state, arm, None))
    arm = next_arm(layer_of(state, number))
    return make_ticket(arm, number, arm_probability(state, arm, None))


@implement(assign, Race)
def race_assign(state: Race, ticket: Ticket) -> Ticket:
    if ticket.layer != NO_LAYER:
        assign_to_layer(state, ticket.layer, ticket.arm)
    state.rounds[0] += 1
    return ticket


@inlined
def assign_to_layer(state: Race, number: int, arm: int) -> None:
    """Count a play of an arm in a layer, and advance the turn if it was this arm's."""
    layer, cell = layer_of(state, number), cell_of(state, number, arm)
    # Read before anything is written: after a choice of its own, compiled code then knows that
    # it is this arm's turn. It is not if the choice was restricted or made by another state.
    is_its_turn, leads, following = arm == layer.turn, layer.leads, cell.next
    cell.assigned += 1
    if leads > 0:
        layer.leads = leads - 1
    else:
        layer.leads = state.leading[0]
        if is_its_turn:
            layer.turn = following


@implement(drop, Race)
def race_drop(state: Race, ticket: Ticket) -> None:
    if ticket.layer != NO_LAYER:
        cell_of(state, ticket.layer, ticket.arm).assigned -= 1


@outlined
def _choose_eligible(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> Ticket:
    """Return the ticket of a layer's next play when only some arms are eligible."""
    arm, learns = _eligible_arm(state, number, eligible)
    probability = arm_probability(state, arm, eligible)
    return make_ticket(arm, number if learns else NO_LAYER, probability)


@inlined
def _eligible_arm(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> tuple[int, bool]:
    """Return the next arm of a layer among eligible arms, and whether the layer learns from it.

    The arm is the layer's leader if the leader is to be played next, else the active arm with the
    fewest plays. A layer without an eligible active arm plays the arm with the best mean of the
    fastest layer that has one, or of the slowest layer if every eligible arm is deleted everywhere.
    """
    layer = layer_of(state, number)
    if layer.active_count > 0:
        if layer.leads > 0 and layer.leader != NEVER and eligible[layer.leader]:
            return layer.leader, True
        fewest = NEVER
        for arm in range(state.cells.shape[1]):
            cell = cell_of(state, number, arm)
            if not (eligible[arm] and cell.active):
                continue
            if fewest == NEVER or cell.assigned < cell_of(state, number, fewest).assigned:
                fewest = arm
        if fewest != NEVER:
            return fewest, True
    for other in range(state.share.size):
        arm = _best_eligible_mean(state, other, eligible, True)
        if arm != NEVER:
            return arm, False
    return _best_eligible_mean(state, state.share.size - 1, eligible, False), False


@inlined
def _best_eligible_mean(
    state: Race, number: int, eligible: npt.NDArray[np.bool_], active: bool
) -> int:
    """Return the eligible arm with the best mean in a layer; only active arms if ``active``."""
    best, best_mean = NEVER, -1.0
    for arm in range(state.cells.shape[1]):
        cell = cell_of(state, number, arm)
        if eligible[arm] and (cell.active or not active):
            mean = cell.sums / cell.pulls if cell.pulls > 0 else 0.0
            if mean > best_mean:
                best, best_mean = arm, mean
    return best


@implement(learn, Race)
def race_learn(state: Race, ticket: Ticket, reward: float) -> None:
    if ticket.layer == NO_LAYER:
        return
    cell = cell_of(state, ticket.layer, ticket.arm)
    cell.pulls += 1
    cell.sums += reward
    if needs_squares(state.rule.kind[0]):
        cell.squares += reward * reward
    # Two separate paths, so that a race that is not pooled has no branch that depends on the
    # layer: the layer is random, and a processor would mispredict such a branch every other round.
    if state.pooled[0]:
        for layer in range(ticket.layer, -1, -1):
            _use_up_patience(state, layer, ticket.arm)
    else:
        _use_up_patience(state, ticket.layer, ticket.arm)


@inlined
def _use_up_patience(state: Race, number: int, arm: int) -> None:
    """Count one more reward of an arm; when the arm's patience ends, recompute its interval."""
    cell = cell_of(state, number, arm)
    cell.patience -= 1
    if cell.patience < 0:
        _update_interval(state, number, arm)


@outlined
def _update_interval(state: Race, number: int, arm: int) -> None:
    """Recompute an arm's interval and delete dominated arms."""
    cell, layer = cell_of(state, number, arm), layer_of(state, number)
    pulls, total, squares, due = evidence(state, number, arm)
    if layer.patient:
        # While a layer is patient, the intervals of its other arms are out of date too: one
        # interval alone could not be compared with them.
        _update_all_intervals(state, number)
    else:
        low, high = interval(state, number, pulls, total, squares, due)
        _move_interval(state, number, arm, low, high)
    if layer.lowest_upper < layer.highest_lower:
        _eliminate(state, number)
    # ``delete_arm`` has set the patience of deleted arms and of a last active arm to FOREVER.
    if not cell.active or layer.active_count == 1:
        return
    if state.rule.kind[0] == PAPER:
        cell.patience = 0
        _set_patience(state, number)
    else:
        cell.patience = pulls >> _PATIENCE
    if state.leading[0] > 0:
        _update_leader(state, number, arm, total / pulls)


@inlined
def _update_all_intervals(state: Race, number: int) -> None:
    """Recompute the intervals of all active arms of a layer, and end its patience."""
    layer = layer_of(state, number)
    layer.patient = False
    for arm in range(state.cells.shape[1]):
        cell = cell_of(state, number, arm)
        if cell.active:
            cell.patience = 0
            cell.lower, cell.upper = interval(state, number, *evidence(state, number, arm))
    layer.highest_lower = _highest_lower(state, number)
    layer.lowest_upper = _lowest_upper(state, number)


@inlined
def _set_patience(state: Race, number: int) -> None:
    """Set the patience of all arms of a layer with the paper's intervals.

    Patience is the number of further rewards per arm that cannot delete any arm. Let ``n`` be the
    least number of rewards of an arm and ``w`` the half-width for ``n``, and let every arm receive
    up to ``m < n`` further rewards. A mean ``x`` grows by at most ``(1 - x) m/n`` and falls by at
    most ``x m/n``. A half-width is a sum of powers of ``1/n`` with exponents of at most 1, and
    shrinks by at most ``w m/n``. Consider the lower end of one arm and the upper end of another. If
    the mean of the first is at least that of the second, the two ends approach each other by at
    most ``(1 + 2w) m/n``. If it is smaller by ``g``, they approach by up to ``g m/n`` more, but
    they also start at least ``g`` further apart than the extreme ends of the layer.
    """
    layer = layer_of(state, number)
    # ``slowest`` had the fewest rewards when the patience was last set, so this may be too long
    # but never too short. Most calls return here, without a pass over all arms.
    if _longest_patience(state, number, layer.slowest) == 0:
        return
    fewest = evidence(state, number, layer.slowest)[0]
    for arm in range(state.cells.shape[1]):
        if cell_of(state, number, arm).active:
            pulls = evidence(state, number, arm)[0]
            if pulls < fewest:
                layer.slowest, fewest = arm, pulls
    patience = _longest_patience(state, number, layer.slowest)
    layer.patient = patience > 0
    for arm in range(state.cells.shape[1]):
        if cell_of(state, number, arm).active:
            cell_of(state, number, arm).patience = patience


@inlined
def _longest_patience(state: Race, number: int, arm: int) -> int:
    """Return how many rewards per arm cannot delete any arm, if ``arm`` has the fewest so far."""
    pulls = evidence(state, number, arm)[0]
    if pulls == 0:
        return 0
    layer = layer_of(state, number)
    low, high = interval(state, number, pulls, 0.0, 0.0, 0)
    distance = layer.lowest_upper - layer.highest_lower
    return int(_CAUTION * distance * pulls / (1.0 + 2.0 * max(-low, high)))


@inlined
def draw_layer(state: Race, stream: Stream) -> int:
    """Draw the layer of a round."""
    level = uniform(stream)
    if state.halving[0]:
        return halving_layer_at(level, state.share.size)
    return layer_at(level, state.tail, 0)


@inlined
def layer_from(state: Race, fastest: int, stream: Stream) -> int:
    """Draw a layer, given that it is ``fastest`` or slower."""
    return layer_at(uniform(stream) * state.tail[fastest], state.tail, fastest)


@inlined
def layer_at(level: float, tail: npt.NDArray[np.float64], fastest: int) -> int:
    """Return the layer whose part of [0, 1) contains ``level``; slow layers have low levels."""
    layer = fastest
    while level < tail[layer + 1]:
        layer += 1
    return layer


@inlined
def halving_layer_at(level: float, layers: int) -> int:
    """Return the layer for a level in [0, 1) if shares halve, from the level's binary exponent.

    Layer ``l > 0`` has the levels from ``2^-(l+1)`` to ``2^-l``, layer 0 all others.
    """
    # The number of leading zeros is read from the bits of the double: unlike the loop of
    # ``layer_at``, that has no branch that depends on the random level.
    layer = _EXPONENT_OF_A_HALF - int(np.float64(level).view(np.int64) >> _MANTISSA)
    return layer if layer < layers else 0


@inlined
def next_arm(layer: Any) -> int:
    """Return the arm that a layer with active arms plays next."""
    if layer.leads > 0 and layer.leader != NEVER:
        return layer.leader
    return layer.turn


@inlined
def _next_arm_or(fallback: int, layer: Any) -> int:
    """Return the arm that a layer plays next; the fallback if it has no active arm."""
    return next_arm(layer) if layer.active_count > 0 else fallback


@inlined
def arm_probability(state: Race, arm: int, eligible: Eligible) -> float:
    """Return the total share of the layers that would play ``arm`` next."""
    total = 0.0
    if eligible is None:
        fallback = fallback_arm(state)
        for layer in range(state.share.size):
            if _next_arm_or(fallback, layer_of(state, layer)) == arm:
                total += state.share[layer]
    else:
        for layer in range(state.share.size):
            if _eligible_arm(state, layer, eligible)[0] == arm:
                total += state.share[layer]
    return total


@inlined
def fallback_arm(state: Race) -> int:
    """Return the arm that empty layers play: the best mean of the fastest non-empty layer."""
    layer = 0
    # The loop has a fixed bound: the compiler can then remove it where the result is not used,
    # which it may not do with a loop that could run forever.
    for _ in range(state.share.size - 1):
        if layer_of(state, layer).active_count > 0:
            break
        layer += 1
    if layer == 0:
        return NEVER
    best, best_mean = NEVER, -1.0
    for arm in range(state.cells.shape[1]):
        cell = cell_of(state, layer, arm)
        if cell.active:
            mean = cell.sums / cell.pulls if cell.pulls > 0 else 0.0
            if mean > best_mean:
                best, best_mean = arm, mean
    return best


@inlined
def _move_interval(state: Race, number: int, arm: int, low: float, high: float) -> None:
    """Give an arm its new interval, and update the extreme ends of the layer.

    A pass over the other arms is needed only if this arm had an extreme end and no longer has it.
    """
    cell, layer = cell_of(state, number, arm), layer_of(state, number)
    was_highest = cell.lower == layer.highest_lower
    was_lowest = cell.upper == layer.lowest_upper
    cell.lower = low
    cell.upper = high
    if low >= layer.highest_lower:
        layer.highest_lower = low
    elif was_highest:
        layer.highest_lower = _highest_lower(state, number)
    if high <= layer.lowest_upper:
        layer.lowest_upper = high
    elif was_lowest:
        layer.lowest_upper = _lowest_upper(state, number)


@inlined
def _highest_lower(state: Race, number: int) -> float:
    highest = -np.inf
    for arm in range(state.cells.shape[1]):
        highest = max(highest, cell_of(state, number, arm).lower)
    return highest


@inlined
def _lowest_upper(state: Race, number: int) -> float:
    lowest = np.inf
    for arm in range(state.cells.shape[1]):
        lowest = min(lowest, cell_of(state, number, arm).upper)
    return lowest


@inlined
def _eliminate(state: Race, number: int) -> None:
    """Delete every arm of a layer whose interval lies below another's.

    One pass is equivalent to the paper's repeated comparison: if an arm is dominated by an arm
    that is itself deleted, it is also dominated by the arm that deletes the latter.
    """
    # Read once, before the loop: deleting an arm updates the field.
    highest_lower = layer_of(state, number).highest_lower
    for arm in range(state.cells.shape[1]):
        if cell_of(state, number, arm).upper < highest_lower:
            delete_arm(state, number, arm)


@inlined
def _update_leader(state: Race, number: int, arm: int, mean: float) -> None:
    """Record an arm's new mean, and make the arm with the best mean the layer's leader."""
    layer = layer_of(state, number)
    cell_of(state, number, arm).means = mean
    if layer.leader in (arm, NEVER):
        layer.leader = _best_mean(state, number)
        return
    best = cell_of(state, number, layer.leader).means
    if mean > best or (mean == best and arm < layer.leader):
        layer.leader = arm


@inlined
def _best_mean(state: Race, number: int) -> int:
    """Return the active arm with the best mean, the first of equals; NEVER if there is none yet."""
    best, best_mean = NEVER, -np.inf
    for arm in range(state.cells.shape[1]):
        mean = cell_of(state, number, arm).means
        if mean > best_mean:
            best, best_mean = arm, mean
    return best


@inlined
def delete_arm(state: Race, by_layer: int, arm: int) -> None:
    """Delete an arm from ``by_layer`` and all faster layers.

    ``by_layer`` may be the number of layers: a policy on top of the race, such as SAPO, then
    deletes the arm from all of them.
    """
    for number in range(min(by_layer + 1, state.share.size)):
        cell, layer = cell_of(state, number, arm), layer_of(state, number)
        if cell.active:
            cell.active = False
            layer.active_count -= 1
            state.deletions[0] += 1
            # Infinite ends keep a deleted arm out of all maxima and minima without a test.
            cell.lower = -np.inf
            cell.upper = np.inf
            cell.means = -np.inf
            cell.patience = FOREVER
            layer.highest_lower = _highest_lower(state, number)
            layer.lowest_upper = _lowest_upper(state, number)
            cell.eliminated_at = state.rounds[0]
            cell.eliminated_by = by_layer
            _skip_turns_of(state, number, arm)
            if layer.leader == arm:
                layer.leader = _best_mean(state, number)
            if layer.slowest == arm:
                layer.slowest = layer.turn
            if layer.active_count == 1:
                cell_of(state, number, layer.turn).patience = FOREVER


@inlined
def _skip_turns_of(state: Race, number: int, arm: int) -> None:
    """Remove an arm from the cycle of turns.

    Arms are only ever removed. So the cycle in order of index always continues with the active
    arm that has had the fewest turns, the lowest index among equals.
    """
    layer, after = layer_of(state, number), cell_of(state, number, arm).next
    for other in range(state.cells.shape[1]):
        if cell_of(state, number, other).next == arm:
            cell_of(state, number, other).next = after
    if layer.turn == arm:
        layer.turn = after
