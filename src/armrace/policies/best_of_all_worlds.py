"""The race with SAPO as its slowest layer: the paper's way towards the best of all worlds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

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
    stamped,
    unwrap_ticket,
    wrap_ticket,
)
from armrace.kernels.sampling import restricted_probability
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits
from armrace.policies.base import ArmView
from armrace.policies.common.switching import (
    AFTER_SWITCH,
    BEFORE_SWITCH,
    SapoState,
    best_active,
    has_switched,
    make_sapo,
    view_tested,
)
from armrace.policies.leaders.estimates import (
    fill_probabilities,
    restart_gains,
)
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import paper_rule
from armrace.policies.races.patience import delete_arm
from armrace.policies.races.race import Race, arm_probability, layer_of, make_race
from armrace.specification import Confidence
from armrace.theory import layer_tolerances

_TOP_LAYERS = 1
"""How many layers SAPO has."""


class BestOfAllWorldsState(NamedTuple):
    """The race, with its shares given that SAPO does not get the round, and SAPO."""

    race: Race
    top: SapoState
    top_share: npt.NDArray[np.float64]
    horizon: npt.NDArray[np.int64]


class BestOfAllWorlds(RacePolicy, frozen=True, tag="best-of-all-worlds"):
    """The race up to a corruption of T^alpha, with SAPO in place of all slower layers.

    Layers ``l`` up to ``floor(alpha lg T)`` eliminate arms as in the Multi-layer race, each with
    probability ``2^-l``; SAPO has the round with probability ``T^-alpha``, and what remains goes
    to layer 1. Arms that SAPO eliminates are deleted from all layers; if that leaves none, they
    play the best of SAPO's active arms and learn nothing. While ``alpha lg T`` is below 1 there
    is SAPO alone.

    The paper claims, and sketches why, that the pseudo-regret is that of the Multi-layer race if
    the corruption is at most ``T^alpha``, and of order ``T^(1/2 + alpha)`` up to logarithms
    whatever it is. It does not say what
    happens once SAPO switches to EXP3.P. Here the other layers are then discarded and every round
    is drawn from EXP3.P, which learns only from rounds that SAPO would have had and is tuned for
    as many as it can expect of them. SAPO is told the horizon ``T``, of which it sees a part;
    intervals are those of the Multi-layer race with as many layers as there are here. See ``sapo``
    for its constants and for ``scale``, with which **nothing is proved unless it is 1**.

    >>> policy = BestOfAllWorlds(alpha=0.25)
    >>> state = policy.start(arms=2, horizon=2**16)
    >>> policy.layer_count(2, 2**16), state.top_share[0], state.race.share * (1 - 2**-4)
    (5, np.float64(0.0625), array([0.5   , 0.25  , 0.125 , 0.0625]))
    """

    family: ClassVar[str] = "paper"
    draws_by_weights: ClassVar[bool] = True
    learns_from_others: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "section 5 of Lykouris, Mirrokni and Paes Leme (2018), towards best of all worlds"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "The claim and its sketch were read in section 5 of the paper, which proves neither; "
        "how the layers go on after SAPO switches is this library's reading."
    )

    alpha: Annotated[
        float,
        Limits("exponent of the corruption up to which it races", 0, 0.5, True, True),
    ] = 0.25
    delta: Confidence = 0.05
    scale: Annotated[
        float, Limits("factor on SAPO's constants; not covered by the proof unless 1", 1e-3, 10)
    ] = 1.0

    def layer_count(self, arms: int, horizon: int) -> int:
        """The layers of the race, and SAPO."""
        return math.floor(self.alpha * math.log2(horizon)) + 1

    def start(self, arms: int, horizon: int) -> BestOfAllWorldsState:
        layers = self.layer_count(arms, horizon)
        log_term = math.log(4 * arms * horizon * layers / self.delta)
        top_share = horizon**-self.alpha if layers > 1 else 1.0
        share = 2.0 ** -np.arange(1.0, layers)
        if layers > 1:
            # Not negative: T^-alpha <= 2^-floor(alpha lg T). The race has the shares given that it
            # plays.
            share[0] = 1.0 - top_share - share[1:].sum()
            share /= share.sum()
        designed, allowances = 2.0 ** np.arange(1.0, layers), np.full(layers - 1, log_term)
        tolerated = layer_tolerances(designed.tolist(), allowances.tolist())
        return BestOfAllWorldsState(
            race=make_race(
                arms, share, paper_rule(log_term, allowances), tolerated=np.array(tolerated)
            ),
            top=make_sapo(arms, horizon, float(self.scale)),
            top_share=np.array([top_share]),
            horizon=np.array([horizon], dtype=np.int64),
        )

    def inspect(self, state: Any) -> Sequence[ArmView]:
        return [
            *super().inspect(state.race),
            *view_tested(state.top, state.top.eliminated_at, state.race.share.size),
        ]


@inlined
def _race_is_over(race: Race) -> bool:
    """Whether no layer has an active arm; the slowest layer is the last to lose them."""
    layers = race.share.size
    return layers == 0 or layer_of(race, layers - 1).active_count == 0


@implement(distribution, BestOfAllWorldsState)
def best_of_all_worlds_distribution(
    state: BestOfAllWorldsState, out: npt.NDArray[np.float64]
) -> None:
    if has_switched(state.top):
        fill_probabilities(state.top.fallback, out)
        return
    if _race_is_over(state.race):
        out.fill(0.0)
        out[best_active(state.top, None)] = 1.0
    else:
        distribution(state.race, out)
    for arm in range(out.size):
        out[arm] = _mix(state, out[arm], state.top.probabilities[arm])


@inlined
def _mix(state: BestOfAllWorldsState, racing: float, top: float) -> float:
    share = state.top_share[0]
    return (1.0 - share) * racing + share * top


@implement(choose, BestOfAllWorldsState)
def best_of_all_worlds_choose(
    state: BestOfAllWorldsState, stream: Stream, eligible: Eligible = None
) -> Ticket:
    layers = state.race.share.size
    if layers == 0 or uniform(stream) < state.top_share[0]:
        inner = choose(state.top, stream, eligible)
        probability = inner.probability
        if not has_switched(state.top):
            racing = _race_probability(state, inner.arm, eligible)
            probability = _mix(state, racing, inner.probability)
        return wrap_ticket(inner, inner.arm, layers, probability)
    if has_switched(state.top):
        inner = choose(state.top, stream, eligible)
        return make_ticket(inner.arm, NO_LAYER, inner.probability)
    if _race_is_over(state.race):
        arm = best_active(state.top, eligible)
        return make_ticket(arm, NO_LAYER, _mix(state, 1.0, _top_probability(state, arm, eligible)))
    inner = choose(state.race, stream, eligible)
    top = _top_probability(state, inner.arm, eligible)
    return make_ticket(inner.arm, inner.layer, _mix(state, inner.probability, top))


@inlined
def _race_probability(state: BestOfAllWorldsState, arm: int, eligible: Eligible) -> float:
    """Return the probability of ``arm`` in a round that is not SAPO's."""
    if _race_is_over(state.race):
        return 1.0 if arm == best_active(state.top, eligible) else 0.0
    return arm_probability(state.race, arm, eligible)


@inlined
def _top_probability(state: BestOfAllWorldsState, arm: int, eligible: Eligible) -> float:
    """Return the probability with which SAPO plays ``arm`` before its switch."""
    if eligible is None:
        return state.top.probabilities[arm]
    return restricted_probability(state.top.probabilities, arm, eligible)


@implement(assign, BestOfAllWorldsState)
def best_of_all_worlds_assign(state: BestOfAllWorldsState, ticket: Ticket) -> Ticket:
    if ticket.layer == state.race.share.size:
        # The race does not see this decision, but its clock counts all rounds.
        state.race.rounds[0] += 1
        inner = assign(state.top, unwrap_ticket(ticket, _TOP_LAYERS))
        return stamped(ticket, inner.phase, 0.0)
    if has_switched(state.top):
        state.race.rounds[0] += 1
        return stamped(ticket, AFTER_SWITCH, 0.0)
    return stamped(assign(state.race, ticket), BEFORE_SWITCH, 0.0)


@implement(drop, BestOfAllWorldsState)
def best_of_all_worlds_drop(state: BestOfAllWorldsState, ticket: Ticket) -> None:
    if ticket.layer != state.race.share.size:
        drop(state.race, ticket)


@implement(learn, BestOfAllWorldsState)
def best_of_all_worlds_learn(state: BestOfAllWorldsState, ticket: Ticket, reward: float) -> None:
    if ticket.layer == state.race.share.size:
        _learn_top(state, ticket, reward)
    elif not has_switched(state.top):
        learn(state.race, ticket, reward)


@inlined
def _learn_top(state: BestOfAllWorldsState, ticket: Ticket, reward: float) -> None:
    """Let SAPO learn, and pass its eliminations, or its switch, on to the race."""
    top, switched_before = state.top, has_switched(state.top)
    learn(top, unwrap_ticket(ticket, _TOP_LAYERS), reward)
    if switched_before:
        return
    for arm in range(top.active.size):
        if not top.active[arm]:
            delete_arm(state.race, state.race.share.size, arm)
    if has_switched(top):
        # EXP3.P learns from SAPO's rounds alone. There may be none left if play goes on past the
        # horizon.
        remaining = state.top_share[0] * (state.horizon[0] - state.race.rounds[0])
        restart_gains(top.fallback, max(1.0, remaining), math.log(top.active.size))
