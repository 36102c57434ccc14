"""Eliminations: which arms a layer deletes, and what deleting an arm changes."""

from __future__ import annotations

import numpy as np

from armrace.kernels.compiling import inlined
from armrace.policies.races.state import FOREVER, NEVER, Race, cell_of, layer_of


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
