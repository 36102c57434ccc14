"""The guard: a race that gets a few rounds of its own and takes bad arms from a base policy.

Every round draws a label: a layer of the race, or none. Unlabelled rounds are the base's, and the
race learns nothing from them. Of the rounds of a layer, the base plays ``lead`` before each *turn*,
in which the layer plays its next active arm; the layer learns from all of them. The base's plays
are restricted to the *allowed* arms, those that are active in the fastest layer that has any.

How the base loses an arm depends on how it chooses:

- A base without weights (an index, a posterior) draws among the allowed arms as it would if there
  were no others, and learns from its own plays.
- A base with weights draws among all arms. If it draws an arm that is not allowed, another is
  drawn by the same weights among the allowed arms and played in its place, and the base is told
  that the arm it drew paid 0. A base that was only restricted would never see another loss of
  the arm; the arm's estimated loss would stay where it is while all others grow, and the weights
  of the allowed arms, relative to each other, would become flat.

In both cases the arm that is played has the law of a restricted choice of the base's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    distribution_among,
    drop,
    learn,
    make_ticket,
    stamped,
    unwrap_ticket,
    wrap_ticket,
)
from armrace.kernels.live import check_arm
from armrace.kernels.sampling import restricted_probability
from armrace.kernels.streams import Stream, uniform
from armrace.policies.races.choices import arm_with_fewest_plays
from armrace.policies.races.layer_draws import layer_at
from armrace.policies.races.race import assign_to_layer
from armrace.policies.races.state import NEVER, Race, cell_of, layer_of

_BASE_LAYERS = 1
"""How many layers a base has; policies with more are refused."""

Bools = npt.NDArray[np.bool_]


class Scratch(NamedTuple):
    """Space in which the law of the next decision is computed."""

    allowed: Bools
    """The arms that the base may play."""
    allowed_count: npt.NDArray[np.int64]
    turns: npt.NDArray[np.float64]
    """The probability of a turn of each arm and, last, of any turn."""
    up_to_date: Bools
    """Whether all this is that of the next decision; only labelled rounds change it."""
    weights: npt.NDArray[np.float64]
    stream: Stream
    """For a choice of the base's that is only looked at."""


class GuardState(NamedTuple):
    """The base policy's state and the guard's race, whose shares sum to that of labelled rounds."""

    base: Any
    race: Race
    weighted: Bools
    """Whether the base draws arms by weights, so that it must be told of arms it has lost."""
    exact: Bools
    """Whether tickets carry the probability of their arm."""
    scratch: Scratch


def make_guard(base: Any, race: Race, weighted: bool, exact: bool, stream: Stream) -> GuardState:
    """Put a guard around the state of a base policy before its first round."""
    # A race begins with a turn; a layer of the guard begins with its rounds of the base.
    race.layers.leads = race.leading[0]
    arms = race.cells.shape[1]
    return GuardState(
        base=base,
        race=race,
        weighted=np.array([weighted]),
        exact=np.array([exact]),
        scratch=Scratch(
            allowed=np.ones(arms, dtype=np.bool_),
            allowed_count=np.array([arms], dtype=np.int64),
            turns=np.zeros(arms + 1),
            up_to_date=np.zeros(1, dtype=np.bool_),
            weights=np.zeros(arms),
            stream=stream,
        ),
    )


@implement(distribution, GuardState)
def guard_distribution(state: GuardState, out: npt.NDArray[np.float64]) -> None:
    _survey(state, None)
    _fill_law(state, out)
    turns = state.scratch.turns
    for arm in range(out.size):
        out[arm] = (1.0 - turns[out.size]) * out[arm] + turns[arm]


@implement(choose, GuardState)
def guard_choose(state: GuardState, stream: Stream, eligible: Eligible = None) -> Ticket:
    race, allowed = state.race, state.scratch.allowed
    _survey(state, eligible)
    label = _draw_label(race, stream)
    if label != NO_LAYER:
        arm = _turn_of(race, label, eligible)
        if arm != NEVER:
            probability = _mix(state, arm, _law_at(state, arm))
            # NO_ARM keeps the base from learning: it sees only what it drew itself
            # (docs/decisions/018).
            return make_ticket(arm, label, probability, 0.0, NO_ARM)
    all_allowed = state.scratch.allowed_count[0] == allowed.size
    if all_allowed or state.weighted[0]:
        drawn = choose(state.base, stream, eligible)
    else:
        drawn = choose(state.base, stream, allowed)
    arm, own = check_arm(drawn.arm, allowed.size), drawn.probability
    if not all_allowed and state.weighted[0]:
        # The base keeps the ticket of the arm that it drew, and is told that this arm paid 0. The
        # arm that is played has the restricted law, whichever of the two draws gave it.
        if not allowed[arm]:
            arm = check_arm(_choose_allowed(state, stream).arm, allowed.size)
        distribution(state.base, state.scratch.weights)
        own = restricted_probability(state.scratch.weights, arm, allowed)
    # Nothing is recorded under the label of a layer that has deleted the arm: an empty layer, or
    # one without an active arm among the eligible.
    if label != NO_LAYER and not cell_of(race, label, arm).active:
        label = NO_LAYER
    return wrap_ticket(drawn, arm, label, _mix(state, arm, own))


@inlined
def _draw_label(race: Race, stream: Stream) -> int:
    """Draw the layer that a round is given to, or none."""
    # One draw for both questions: the tail of the first layer is the share of all labelled rounds.
    level = uniform(stream)
    return layer_at(level, race.tail, 0) if level < race.tail[0] else NO_LAYER


@inlined
def _mix(state: GuardState, arm: int, own: float) -> float:
    """Return an arm's probability, given its probability in a round of the base's."""
    turns = state.scratch.turns
    return (1.0 - turns[turns.size - 1]) * own + turns[arm] if state.exact[0] else np.nan


@inlined
def _survey(state: GuardState, eligible: Eligible) -> None:
    """Find the arms that the base may play, and those whose turn it is in each layer."""
    # What was found for some eligible arms does not hold for the next decision, which may have
    # others. What was found for all arms holds until a layer plays or learns.
    if eligible is not None or not state.scratch.up_to_date[0]:
        _find_allowed(state, eligible)
        _find_turns(state, eligible)
        state.scratch.up_to_date[0] = eligible is None


@outlined
def _find_allowed(state: GuardState, eligible: Eligible) -> None:
    """Mark the eligible arms that are active in the fastest layer that has any.

    If every eligible arm has been deleted everywhere, all of them are marked.
    """
    race, allowed = state.race, state.scratch.allowed
    layers, count = race.share.size, 0
    for label in range(layers + 1):
        for arm in range(allowed.size):
            # The label after the last layer stands for no deletions at all.
            allowed[arm] = label == layers or cell_of(race, label, arm).active
            if eligible is not None:
                allowed[arm] = allowed[arm] and eligible[arm]
            count += allowed[arm]
        if count > 0:
            break
    state.scratch.allowed_count[0] = count


@outlined
def _find_turns(state: GuardState, eligible: Eligible) -> None:
    """Write the probability of a turn of each arm into scratch space."""
    race, turns = state.race, state.scratch.turns
    turns.fill(0.0)
    for label in range(race.share.size):
        arm = _turn_of(race, label, eligible)
        if arm != NEVER:
            turns[arm] += race.share[label]
            turns[turns.size - 1] += race.share[label]


@inlined
def _turn_of(race: Race, label: int, eligible: Eligible) -> int:
    """Return the arm that a layer plays in its next round; NEVER if that is not a turn.

    Of eligible arms only, it is the active one with the fewest plays in this layer.
    """
    layer = layer_of(race, label)
    if layer.active_count == 0 or layer.leads > 0:
        return NEVER
    if eligible is None:
        return layer.turn
    # The cycle of turns may be at an arm that is not eligible, and must not move on by a choice.
    return arm_with_fewest_plays(race, label, eligible)


@inlined
def _fill_law(state: GuardState, out: npt.NDArray[np.float64]) -> None:
    """Write the law of the arm that is played in a round of the base's."""
    if state.scratch.allowed_count[0] == out.size:
        distribution(state.base, out)
    elif state.weighted[0] or not state.exact[0]:
        distribution_among(state.base, state.scratch.allowed, out)
    else:
        # The base is deterministic: it plays the arm of the largest index among those allowed.
        out.fill(0.0)
        out[_choose_allowed(state, state.scratch.stream).arm] = 1.0


@outlined
def _law_at(state: GuardState, arm: int) -> float:
    """Return an arm's probability in a round of the base's; NaN if the base does not compute it."""
    if not state.exact[0]:
        return np.nan
    _fill_law(state, state.scratch.weights)
    return state.scratch.weights[arm]


@outlined
def _choose_allowed(state: GuardState, stream: Stream) -> Ticket:
    return choose(state.base, stream, state.scratch.allowed)


@implement(assign, GuardState)
def guard_assign(state: GuardState, ticket: Ticket) -> Ticket:
    race = state.race
    if ticket.layer != NO_LAYER:
        assign_to_layer(race, ticket.layer, ticket.arm)
        state.scratch.up_to_date[0] = False
    race.rounds[0] += 1
    if ticket.inner_arm == NO_ARM:
        return ticket
    completed = assign(state.base, unwrap_ticket(ticket, _BASE_LAYERS))
    return stamped(ticket, completed.phase, completed.memo)


@implement(learn, GuardState)
def guard_learn(state: GuardState, ticket: Ticket, reward: float) -> None:
    if ticket.layer != NO_LAYER:
        _learn_by_race(state, ticket.layer, ticket.arm, reward)
    if ticket.inner_arm != NO_ARM:
        # A lost arm that the base drew was not played; to the base it paid 0.
        inner = unwrap_ticket(ticket, _BASE_LAYERS)
        learn(state.base, inner, reward if inner.arm == ticket.arm else 0.0)


@outlined
def _learn_by_race(state: GuardState, label: int, arm: int, reward: float) -> None:
    learn(state.race, make_ticket(arm, label), reward)
    state.scratch.up_to_date[0] = False


@implement(drop, GuardState)
def guard_drop(state: GuardState, ticket: Ticket) -> None:
    drop(state.race, make_ticket(ticket.arm, ticket.layer))
    if ticket.inner_arm != NO_ARM:
        drop(state.base, unwrap_ticket(ticket, _BASE_LAYERS))
