"""A guard around any policy: the race's guarantee at a small part of its cost.

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

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    SAME_ARM,
    Eligible,
    Ticket,
    assign,
    choose,
    decide,
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
from armrace.limits import Limits
from armrace.policies.base import ArmView, Guarantee, Policy
from armrace.policies.common.wrapping import require_restrictable, resolve_base
from armrace.policies.races import RacePolicy
from armrace.policies.races.race import (
    NEVER,
    Race,
    arm_with_fewest_plays,
    assign_to_layer,
    cell_of,
    layer_at,
    layer_of,
    make_pooled_race,
)
from armrace.randomness import Purpose, stream_for
from armrace.specification import Confidence
from armrace.theory import SharpLayer, guard_layers, guarded_regret

_ARMS, _ROUNDS = 2, 64
"""The size of the run that shows whether a base can serve."""

_ACCEPTED: set[tuple[type[Policy], str]] = set()
"""Bases that have been found fit."""


class Guarded(RacePolicy, frozen=True, tag="guarded"):
    """Lets a base policy play, and takes arms from it that a small race has shown to be bad.

    A part ``2^-share`` of the rounds is labelled: layer ``l`` of the guard, counted from 1, has
    the label with probability ``2^-(share + l)``, and the first layer gets what remains. A layer
    learns from its labelled rounds and from those of all slower layers, and from no other, by a
    coin that no adversary sees. It is designed for a corruption of ``first 2^(share + l - 1)``,
    deletes arms by the intervals of ``sharp-race``, and deletes them from all faster layers too. Of
    its rounds every ``1 + lead``-th is a turn, in which it plays its active arms one after the
    other. The base plays all other rounds, among the arms that are active in the fastest layer that
    has any. It learns from the rounds that it plays.

    **With any base and against any adaptive adversary**, with probability ``1 - delta`` and for all
    corruptions ``C`` at once, the pseudo-regret is of the order of
    ``K (ln T + (1 + lead) max(2^share, C/first)) ln(KT/delta) / gap``; ``armrace.theory`` has it
    with constants as ``guarded_regret``. **Without corruption** the expected pseudo-regret is at
    most that of the base plus ``guard_overhead``, if the base can lose arms without harm, as UCB1,
    KL-UCB, EXP3 and Tsallis-INF can. Up to ``C = first 2^share`` the base keeps what it promises
    itself. Above that, **the guard can hurt a robust base**: a fooled layer takes the best arm from
    it until a slower layer has deleted the arms that remain. That the overhead has a second
    logarithm is no weakness of this guard: no policy with such a bound can do without. All of this
    is proved in this library's theory page (Theorem C, Proposition L), tried by ``armrace
    verify``, and compared with a second implementation in plain Python.

    A base that draws arms by weights is told that an arm that it has lost pays 0: whenever it draws
    one, another is drawn by the same weights among the others and played instead. Indices and
    posteriors simply choose among the arms that are left. A base may be given by name or, with
    parameters, as ``{"name": "tsallis-inf", "estimator": "iw"}``; on the command line as
    ``--set base=thompson`` or ``--set 'base={"name": ...}'``. Races, which are their own guards,
    and policies whose choices cannot be restricted are refused. If the base's distribution is
    costly to compute, so is the guard's, and an adversary sees it as it was last computed.

    A larger ``share`` costs less without corruption and tolerates more before the guard can be
    fooled, but the bound grows with ``2^share``. With ``share`` 4 and ``first`` 1 the fastest layer
    tolerates 16 at a small allowance, and a turn costs one round in 32.

    >>> policy = Guarded(base="thompson")
    >>> policy.layer_count(arms=10, horizon=10**6)
    17
    >>> policy.start(arms=2, horizon=100).race.share
    array([0.03515625, 0.015625  , 0.0078125 , 0.00390625])
    """

    family: ClassVar[str] = "robust"
    learns_from_others: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "Lykouris, Mirrokni and Paes Leme (2018), Algorithm 2, as a guard around another policy; "
        "proved in this library's theory page"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "Theorem C of the theory page; `check_guarantee` tries it against all known attacks."
    )

    base: Annotated[Any, "policy that plays most rounds: a name, or its parameters with a name"] = (
        "tsallis-inf"
    )
    share: Annotated[int, Limits("a part of 2^-share of the rounds is labelled", 0, 30)] = 4
    lead: Annotated[int, Limits("rounds of the base before each turn of a layer", 0, 1000)] = 1
    first: Annotated[
        float,
        Limits(
            "corruption that layers expect to meet; the first tolerates 2^share of it",
            0,
            1e9,
            low_open=True,
        ),
    ] = 1.0
    delta: Confidence = 0.05

    def validate(self) -> None:
        base = resolve_base(self)
        if isinstance(base, RacePolicy):
            raise InvalidParameter(
                f"base must not be a race or contain one; got {base.tag()}, which deletes arms "
                "itself."
            )
        require_restrictable(base)

    @property
    def exact_tickets(self) -> bool:  # type: ignore[override]
        """Whether tickets carry the probability of their arm, as those of the base do."""
        return bool(self.base.exact_tickets)

    def layer_count(self, arms: int, horizon: int) -> int:
        return len(self._layers(arms, horizon))

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        bound = guarded_regret(
            gaps, horizon, self.delta, corruption, self.share, self.lead, self.first
        )
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> GuardState:
        # Known only now: the number of layers may depend on arms and horizon.
        if self.base.layer_count(arms, horizon) != 1:
            raise InvalidParameter(
                f"base must be a policy with a single layer; got {self.base.tag()}."
            )
        _require_base(self.base)
        return make_guard(
            base=self.base.start(arms, horizon),
            race=make_pooled_race(arms, self._layers(arms, horizon), self.lead),
            weighted=bool(self.base.draws_by_weights),
            exact=self.exact_tickets,
            stream=stream_for(0, Purpose.LEARNER, 0),
        )

    def inspect(self, state: GuardState) -> Sequence[ArmView]:  # type: ignore[override]
        return super().inspect(state.race)

    def _layers(self, arms: int, horizon: int) -> list[SharpLayer]:
        return guard_layers(arms, horizon, self.delta, self.share, self.first)


def _require_base(base: Policy) -> None:
    """Refuse a policy that cannot serve as a base; one that was accepted is not asked again.

    A base may have parameters that cannot be hashed, so it is known by its text.
    """
    key = type(base), repr(base)
    if key not in _ACCEPTED:
        _play_short_run(base)
        _ACCEPTED.add(key)


def _play_short_run(base: Policy) -> None:
    """Play a short run, and refuse a base whose tickets are not what it declares."""
    state = base.start(_ARMS, _ROUNDS)
    stream = stream_for(0, Purpose.LEARNER, 0)
    for number in range(_ROUNDS):
        ticket = decide(state, stream)
        _require_plain(base, ticket)
        if ticket.probability < 1.0 and not base.draws_by_weights:
            raise InvalidParameter(
                f"base must declare that it draws_by_weights, as its tickets say; got {base.tag()}."
            )
        # Both rewards occur, so that tickets are seen before and after estimates move.
        learn(state, ticket, float(number % 2))


def _require_plain(base: Policy, ticket: Ticket) -> None:
    """Refuse a base whose tickets use the fields in which the guard keeps those of the base."""
    if ticket.inner_layer != 0 or ticket.inner_probability != 1.0 or ticket.inner_arm != SAME_ARM:
        raise InvalidParameter(
            f"base must not be composed of other policies; got {base.tag()}, whose tickets carry "
            "an inner layer, probability or arm."
        )


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
