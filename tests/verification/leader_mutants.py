"""Regularised leaders with one mistake each, to show which check of ``verify`` detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Floats,
    Ticket,
    assign,
    choose,
    distribution,
    forwards,
    learn,
    make_ticket,
    stamped,
)
from armrace.kernels.sampling import draw_arm, total_weight
from armrace.kernels.streams import Stream, uniform
from armrace.policies.base import Policy
from armrace.policies.exp3 import Exp3
from armrace.policies.lb_inf import LbInf
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier
from armrace.policies.tsallis_inf import TsallisInf

__all__ = [
    "LEADER_MUTATIONS",
    "BrokenExp3",
    "BrokenLbInf",
    "BrokenOptimisticLogBarrier",
    "BrokenTsallisInf",
    "LeaderMutation",
    "leader_mutants",
]

LeaderMutation = Literal[
    "losses not divided by the probability",
    "losses divided by another arm's probability",
    "probabilities that sum to 0.99",
    "an old distribution drawn from",
    "every fifth arm drawn at random",
    "predictions not subtracted",
    "predictions of rewards, not of losses",
    "predictions that never move",
    "learning rates x4",
    "learning rates 1/4",
    "a first scale of 1.2",
    "optimism x4",
    "no optimism",
]

_NOT_DIVIDED, _ANOTHER_ARM, _SUM, _OLD, _AT_RANDOM, _NOT_SUBTRACTED = range(6)
_FIFTH, _LEAST = 0.2, 1e-3


class BrokenLeader(NamedTuple):
    """A leader, a mistake in how it is used, and the distributions of this round and the last."""

    leader: Any
    mistake: int
    current: Floats
    last: Floats


@implement(distribution, BrokenLeader)
def broken_distribution(state: BrokenLeader, out: Floats) -> None:
    distribution(state.leader, out)
    if state.mistake == _SUM:
        for arm in range(out.size):
            out[arm] *= 0.99


@implement(choose, BrokenLeader)
def broken_choose(state: BrokenLeader, stream: Stream, eligible: Eligible = None) -> Ticket:
    distribution(state.leader, state.current)
    ticket = choose(state.leader, stream, eligible)
    drawn = ticket.arm
    if state.mistake == _OLD:
        drawn = draw_arm(state.last, total_weight(state.last), stream)
    if state.mistake == _AT_RANDOM and uniform(stream) < _FIFTH:
        drawn = int(uniform(stream) * state.current.size)
    # The estimate of an arm that is hardly ever drawn would be beyond all numbers.
    if drawn != ticket.arm and state.current[drawn] > _LEAST:
        ticket = make_ticket(drawn, 0, state.current[drawn])
    if state.mistake == _SUM:
        ticket = make_ticket(ticket.arm, 0, 0.99 * ticket.probability)
    return ticket


@implement(assign, BrokenLeader)
def broken_assign(state: BrokenLeader, ticket: Ticket) -> Ticket:
    for arm in range(state.current.size):
        state.last[arm] = state.current[arm]
    assigned = assign(state.leader, ticket)
    return stamped(assigned, 0, 0.0) if state.mistake == _NOT_SUBTRACTED else assigned


@implement(learn, BrokenLeader)
def broken_learn(state: BrokenLeader, ticket: Ticket, reward: float) -> None:
    probability = ticket.probability
    if state.mistake == _NOT_DIVIDED:
        probability = 1.0
    if state.mistake == _ANOTHER_ARM:
        probability = state.current[(ticket.arm + 1) % state.current.size]
    used = make_ticket(ticket.arm, ticket.layer, probability)
    learn(state.leader, stamped(used, ticket.phase, ticket.memo), reward)


@forwards(distribution, choose, assign)
class MisledLeader(NamedTuple):
    """A leader that takes the reward that it predicts for the loss."""

    leader: Any


@implement(learn, MisledLeader)
def misled_learn(state: MisledLeader, ticket: Ticket, reward: float) -> None:
    learn(state.leader, ticket, reward)
    predictions = state.leader.estimates.predictions
    predictions[ticket.arm] = 1.0 - predictions[ticket.arm]


Mutate = Callable[[Any], Any]


def _used_wrongly(mistake: int) -> Mutate:
    """Return a mistake in how a leader is used, for a state that starts with equal weights."""

    def mutate(state: Any) -> BrokenLeader:
        arms = state.counts.pulls.size
        return BrokenLeader(state, mistake, np.full(arms, 1 / arms), np.full(arms, 1 / arms))

    return mutate


def _with(**changes: Callable[[Any], Any]) -> Mutate:
    """Return a mistake in fields of the state at its start."""
    return lambda state: state._replace(
        **{name: change(getattr(state, name)) for name, change in changes.items()}
    )


def _times(factor: float) -> Callable[[Any], Any]:
    return lambda value: value * factor


_IN_USE: dict[LeaderMutation, Mutate] = {
    "losses not divided by the probability": _used_wrongly(_NOT_DIVIDED),
    "losses divided by another arm's probability": _used_wrongly(_ANOTHER_ARM),
    "probabilities that sum to 0.99": _used_wrongly(_SUM),
    "an old distribution drawn from": _used_wrongly(_OLD),
    "every fifth arm drawn at random": _used_wrongly(_AT_RANDOM),
}
_WITH_PREDICTIONS: dict[LeaderMutation, Mutate] = {
    "predictions not subtracted": _used_wrongly(_NOT_SUBTRACTED),
    "predictions of rewards, not of losses": MisledLeader,
}

LEADER_MUTATIONS: dict[type[Policy], dict[LeaderMutation, Mutate]] = {
    # Scales are reciprocals of learning rates, and grow with the root of ``growth``.
    OptimisticLogBarrier: {
        **_IN_USE,
        **_WITH_PREDICTIONS,
        "learning rates x4": _with(first_scale=_times(1 / 4), growth=_times(1 / 16)),
        "learning rates 1/4": _with(first_scale=_times(4), growth=_times(16)),
        "a first scale of 1.2": _with(first_scale=lambda scale: 1.2),
        "optimism x4": _with(optimism=_times(4)),
        "no optimism": _with(optimism=_times(0)),
    },
    LbInf: {
        **_IN_USE,
        **_WITH_PREDICTIONS,
        "predictions that never move": _with(prediction_rate=_times(0)),
        "learning rates x4": _with(scales=_times(1 / 4), growth=_times(1 / 16)),
        "learning rates 1/4": _with(scales=_times(4), growth=_times(16)),
        "a first scale of 1.2": _with(scales=lambda scales: np.full(scales.size, 1.2)),
    },
    TsallisInf: {
        **_IN_USE,
        "predictions not subtracted": _WITH_PREDICTIONS["predictions not subtracted"],
        "learning rates x4": _with(rate_scale=_times(4)),
        "learning rates 1/4": _with(rate_scale=_times(1 / 4)),
    },
    Exp3: {
        **_IN_USE,
        "learning rates x4": _with(learning_rate=_times(4)),
        "learning rates 1/4": _with(learning_rate=_times(1 / 4)),
    },
}
"""For each leader, from its state at the start, one with a mistake."""


class BrokenOptimisticLogBarrier(OptimisticLogBarrier, frozen=True, tag="broken-log-barrier"):
    """An optimistic log barrier with a mistake."""

    mutation: Annotated[LeaderMutation, "the mistake"] = "optimism x4"

    def start(self, arms: int, horizon: int) -> Any:
        return LEADER_MUTATIONS[OptimisticLogBarrier][self.mutation](super().start(arms, horizon))


class BrokenLbInf(LbInf, frozen=True, tag="broken-lb-inf"):
    """LB-INF with a mistake."""

    mutation: Annotated[LeaderMutation, "the mistake"] = "learning rates x4"

    def start(self, arms: int, horizon: int) -> Any:
        return LEADER_MUTATIONS[LbInf][self.mutation](super().start(arms, horizon))


class BrokenTsallisInf(TsallisInf, frozen=True, tag="broken-tsallis-inf"):
    """Tsallis-INF with a mistake."""

    mutation: Annotated[LeaderMutation, "the mistake"] = "learning rates x4"

    def start(self, arms: int, horizon: int) -> Any:
        return LEADER_MUTATIONS[TsallisInf][self.mutation](super().start(arms, horizon))


class BrokenExp3(Exp3, frozen=True, tag="broken-exp3"):
    """EXP3 with a mistake."""

    mutation: Annotated[LeaderMutation, "the mistake"] = "learning rates x4"

    def start(self, arms: int, horizon: int) -> Any:
        return LEADER_MUTATIONS[Exp3][self.mutation](super().start(arms, horizon))


_BROKEN: dict[type[Policy], Any] = {
    OptimisticLogBarrier: BrokenOptimisticLogBarrier,
    LbInf: BrokenLbInf,
    TsallisInf: BrokenTsallisInf,
    Exp3: BrokenExp3,
}


def leader_mutants() -> Iterator[tuple[str, LeaderMutation | None, Policy]]:
    """Return each leader unbroken, and then with each mistake."""
    for kind, mutations in LEADER_MUTATIONS.items():
        yield kind.tag(), None, kind()
        for mutation in sorted(mutations, key=get_args(LeaderMutation).index):
            yield kind.tag(), mutation, _BROKEN[kind](mutation=mutation)
