"""Patience: for how many rewards an arm's interval need not be recomputed, and what happens then.

With the paper's intervals, patience is short enough that no sequence of rewards in [0, 1] could
delete an arm before it ends, so that every deletion happens in the same round as in the paper. The
other intervals are costly, and are recomputed when the number of rewards has grown by about one
per cent. This is valid because those intervals hold at all times simultaneously, so in particular
at the times at which they are evaluated. In a layer with a single active arm nothing can be
deleted, and patience never ends.
"""

from __future__ import annotations

from armrace.kernels.compiling import inlined, outlined
from armrace.policies.races.eliminations import (
    best_mean_arm,
    eliminate,
    highest_lower_end,
    lowest_upper_end,
)
from armrace.policies.races.intervals import PAPER
from armrace.policies.races.state import NEVER, Race, cell_of, evidence, interval, layer_of

_PATIENCE = 7
"""Intervals other than the paper's are recomputed after ``n / 2^7`` further rewards."""
_CAUTION = 0.999
"""A safety factor, so that rounding errors never make patience too long."""


@inlined
def use_up_patience(state: Race, number: int, arm: int) -> None:
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
