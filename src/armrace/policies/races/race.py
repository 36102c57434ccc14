"""The race, made fast; :mod:`armrace.policies.races.textbook` has it in 50 readable lines.

Layers of active arm elimination are coupled by global eliminations. One mechanism carries the races
of Lykouris, Mirrokni and Paes Leme (STOC 2018) and their sharper forms: plain and enlarged active
arm elimination are races of one layer, the Fast-Slow race has two, the Multi-layer race ``ceil(lg
T)``. Layers run from the fastest (0) to the most robust (the last).

A layer keeps a confidence interval for each arm. The race's :class:`Rule` computes it from the
rewards of the layer's own plays or, if the race is *pooled*, from those and the plays of all slower
layers. An arm is deleted when its interval lies entirely below that of another active arm; it is
then deleted from all faster layers too. A layer plays its active arms in turn; in a race that
*leads*, a fixed number of plays after each turn go to the arm with the best mean instead.

Intervals are not recomputed at every reward: most rewards are only counted and summed (see
:mod:`armrace.policies.races.patience`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_LAYER,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream
from armrace.policies.races.choices import (
    arm_probability,
    choose_eligible,
    fallback_arm,
    next_arm,
    next_arm_or,
)
from armrace.policies.races.intervals import needs_squares
from armrace.policies.races.layer_draws import draw_layer
from armrace.policies.races.patience import use_up_patience
from armrace.policies.races.state import (
    Race,
    cell_of,
    layer_of,
)


@implement(distribution, Race)
def race_distribution(state: Race, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    fallback = fallback_arm(state)
    for layer in range(state.share.size):
        out[next_arm_or(fallback, layer_of(state, layer))] += state.share[layer]


@implement(choose, Race)
def race_choose(state: Race, stream: Stream, eligible: Eligible = None) -> Ticket:
    # A race of one layer draws nothing: it is as deterministic as the paper's active arm
    # elimination.
    number = draw_layer(state, stream) if state.share.size > 1 else 0
    if eligible is not None:
        return choose_eligible(state, number, eligible)
    if layer_of(state, number).active_count == 0:
        # The layer was fooled, and slower layers have deleted the arms that it had left. It plays
        # what the fastest layer with arms takes for the best, and records nothing.
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
    """Count a play of an arm in a layer, and advance the turn if it was this arm's.

    Args:
        state: the state of a race.
        number: the layer, from 0.
        arm: the arm.
    """
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
        # Intervals stop making room for the reward, which will not come (docs/decisions/017). The
        # turn stays used up: other arms have had theirs since.
        cell = cell_of(state, ticket.layer, ticket.arm)
        cell.assigned = max(0, cell.assigned - 1)  # a drop may be forged


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
            use_up_patience(state, layer, ticket.arm)
    else:
        use_up_patience(state, ticket.layer, ticket.arm)
