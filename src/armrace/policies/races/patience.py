"""What a reward changes in a race: intervals, and with them deletions.

Intervals are not recomputed at every reward: most rewards are only counted and summed. *Patience*
is for how many rewards an arm's interval need not be recomputed.

With the paper's intervals, patience is short enough that no sequence of rewards in [0, 1] could
delete an arm before it ends, so that every deletion happens in the same round as in the paper. The
other intervals are costly, and are recomputed when the number of rewards has grown by about one
per cent. This is valid because those intervals hold at all times simultaneously, so in particular
at the times at which they are evaluated. In a layer with a single active arm nothing can be
deleted, and patience never ends.
"""

from __future__ import annotations

import numpy as np

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import NO_LAYER, Ticket, learn
from armrace.policies.races.intervals import PAPER, needs_squares
from armrace.policies.races.race import FOREVER, NEVER, Race, cell_of, evidence, interval, layer_of

_PATIENCE = 7
"""Intervals other than the paper's are recomputed after ``n / 2^7`` further rewards."""
_CAUTION = 0.999
"""A safety factor, so that rounding errors never make patience too long."""


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
        # Slow layers first, so that an arm that several layers would delete is recorded as deleted
        # by the slowest of them.
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
        eliminate(state, number)
    # ``delete_arm`` has set the patience of deleted arms and of a last active arm to FOREVER.
    if not cell.active or layer.active_count == 1:
        return
    if state.rule.kind[0] == PAPER:
        # In case ``_set_patience`` returns early: the next reward then recomputes the interval.
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
    layer.highest_lower = highest_lower_end(state, number)
    layer.lowest_upper = lowest_upper_end(state, number)


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
    # With a sum of 0 the ends are minus and plus the half-widths.
    low, high = interval(state, number, pulls, 0.0, 0.0, 0)
    distance = layer.lowest_upper - layer.highest_lower
    return int(_CAUTION * distance * pulls / (1.0 + 2.0 * max(-low, high)))


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
        layer.highest_lower = highest_lower_end(state, number)
    if high <= layer.lowest_upper:
        layer.lowest_upper = high
    elif was_lowest:
        layer.lowest_upper = lowest_upper_end(state, number)


@inlined
def _update_leader(state: Race, number: int, arm: int, mean: float) -> None:
    """Record an arm's new mean, and make the arm with the best mean the layer's leader."""
    layer = layer_of(state, number)
    cell_of(state, number, arm).means = mean
    # The leader's own mean may have fallen below that of any other arm.
    if layer.leader in (arm, NEVER):
        layer.leader = best_mean_arm(state, number)
        return
    best = cell_of(state, number, layer.leader).means
    if mean > best or (mean == best and arm < layer.leader):
        layer.leader = arm


@inlined
def eliminate(state: Race, number: int) -> None:
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
def delete_arm(state: Race, by_layer: int, arm: int) -> None:
    """Delete an arm from ``by_layer`` and all faster layers.

    ``by_layer`` may be the number of layers: a policy on top of the race, such as SAPO, then
    deletes the arm from all of them.

    Args:
        state: the state of a race.
        by_layer: the layer that deletes the arm, from 0.
        arm: the arm.
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
            layer.highest_lower = highest_lower_end(state, number)
            layer.lowest_upper = lowest_upper_end(state, number)
            cell.eliminated_at = state.rounds[0]
            cell.eliminated_by = by_layer
            _skip_turns_of(state, number, arm)
            if layer.leader == arm:
                layer.leader = best_mean_arm(state, number)
            if layer.slowest == arm:
                # Any active arm will do: ``_set_patience`` looks for the one with the fewest
                # rewards.
                layer.slowest = layer.turn
            if layer.active_count == 1:
                # The cycle of turns has one arm left, so that this is the last active arm.
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


@inlined
def highest_lower_end(state: Race, number: int) -> float:
    """Return the highest lower end of a layer's intervals; minus infinity if there is none."""
    highest = -np.inf
    for arm in range(state.cells.shape[1]):
        highest = max(highest, cell_of(state, number, arm).lower)
    return highest


@inlined
def lowest_upper_end(state: Race, number: int) -> float:
    """Return the lowest upper end of a layer's intervals; infinity if there is none."""
    lowest = np.inf
    for arm in range(state.cells.shape[1]):
        lowest = min(lowest, cell_of(state, number, arm).upper)
    return lowest


@inlined
def best_mean_arm(state: Race, number: int) -> int:
    """Return the active arm with the best mean, the first of equals; NEVER if there is none yet."""
    best, best_mean = NEVER, -np.inf
    for arm in range(state.cells.shape[1]):
        mean = cell_of(state, number, arm).means
        if mean > best_mean:
            best, best_mean = arm, mean
    return best
