"""Which arm a layer plays next, with which probability, and among which arms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.generics import NO_LAYER, Eligible, Ticket, make_ticket
from armrace.policies.races.state import NEVER, Race, cell_of, layer_of


@inlined
def next_arm(layer: Any) -> int:
    """Return the arm that a layer with active arms plays next."""
    # There is no leader until the first reward has come, which may be long after several decisions.
    if layer.leads > 0 and layer.leader != NEVER:
        return layer.leader
    return layer.turn


@inlined
def next_arm_or(fallback: int, layer: Any) -> int:
    """Return the arm that a layer plays next; the fallback if it has no active arm."""
    return next_arm(layer) if layer.active_count > 0 else fallback


@inlined
def fallback_arm(state: Race) -> int:
    """Return the arm that empty layers play: the best mean of the fastest non-empty layer.

    Args:
        state: the state of a race.
    """
    layer = 0
    # The loop has a fixed bound: the compiler can then remove it where the result is not used,
    # which it may not do with a loop that could run forever.
    for _ in range(state.share.size - 1):
        if layer_of(state, layer).active_count > 0:
            break
        layer += 1
    # Deletions reach all faster layers, so that if the fastest has an arm, no layer is empty.
    if layer == 0:
        return NEVER
    # The paper lets an empty layer play any active arm of this one (Algorithm 2, erratum 13).
    return _best_mean(state, layer, None, True)


@inlined
def _best_mean(state: Race, number: int, eligible: Eligible, active: bool) -> int:
    """Return the eligible arm with the best mean in a layer; only active arms if ``active``."""
    best, best_mean = NEVER, -1.0
    for arm in range(state.cells.shape[1]):
        if eligible is not None and not eligible[arm]:
            continue
        cell = cell_of(state, number, arm)
        if cell.active or not active:
            mean = cell.sums / cell.pulls if cell.pulls > 0 else 0.0
            if mean > best_mean:
                best, best_mean = arm, mean
    return best


@inlined
def arm_with_fewest_plays(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> int:
    """Return the eligible active arm with the fewest plays in a layer; NEVER if there is none.

    Args:
        state: the state of a race.
        number: the layer, from 0.
        eligible: which arms may be chosen.
    """
    fewest, least = NEVER, 0
    for arm in range(state.cells.shape[1]):
        cell = cell_of(state, number, arm)
        # Strictly fewer, so that the lowest index wins among equals, as in the cycle of turns.
        if eligible[arm] and cell.active and (fewest == NEVER or cell.assigned < least):
            fewest, least = arm, cell.assigned
    return fewest


@inlined
def arm_probability(state: Race, arm: int, eligible: Eligible) -> float:
    """Return the total share of the layers that would play ``arm`` next.

    Args:
        state: the state of a race.
        arm: the arm.
        eligible: which arms may be chosen, or ``None`` for all.
    """
    total = 0.0
    if eligible is None:
        fallback = fallback_arm(state)
        for layer in range(state.share.size):
            if next_arm_or(fallback, layer_of(state, layer)) == arm:
                total += state.share[layer]
    else:
        for layer in range(state.share.size):
            if _eligible_arm(state, layer, eligible)[0] == arm:
                total += state.share[layer]
    return total


@outlined
def choose_eligible(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> Ticket:
    """Return the ticket of a layer's next play when only some arms are eligible."""
    arm, learns = _eligible_arm(state, number, eligible)
    # Several layers may play the same arm, so that its probability is the sum of their shares.
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
        fewest = arm_with_fewest_plays(state, number, eligible)
        if fewest != NEVER:
            return fewest, True
    # Nothing is learned from a play in another layer's place: the layer's sample would no longer be
    # drawn by its own coin (erratum 13).
    for other in range(state.share.size):
        arm = _best_mean(state, other, eligible, True)
        if arm != NEVER:
            return arm, False
    return _best_mean(state, state.share.size - 1, eligible, False), False
