"""Races, guards and leaders with one mistake each, to show which check of ``verify`` detects it.

A mutant has the guarantee of the class from which it derives; only its running state differs.
``make mutants`` checks all of them and prints ``docs/mutants.csv``. It exits with 1 if a mutant is
not detected or an unbroken policy does not pass.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_ARM,
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
    wrap_ticket,
)
from armrace.kernels.sampling import draw_arm, total_weight
from armrace.kernels.streams import Stream, uniform
from armrace.policies import (
    Exp3,
    ExpertBarrier,
    Guarded,
    LbInf,
    LeafBarrier,
    MultiLayerRace,
    OptimisticLogBarrier,
    Policy,
    SharpRace,
    TsallisInf,
)
from armrace.policies.guarded import GuardState
from armrace.policies.races import RacePolicy
from armrace.policies.races.race import Race
from armrace.verification.claims import QUICK, Check, Claim, Preset
from armrace.verification.contexts import ContextSubject, context_mechanics_claims
from armrace.verification.guarantees import DELTA
from armrace.verification.leader_guarantees import LeaderSubject
from armrace.verification.leaders import leader_mechanics_claims
from armrace.verification.mechanics import guard_mechanics_claims, mechanics_claims
from armrace.verification.protocol import protocol_claims
from armrace.verification.spending import martingale_claims, spending_claims
from armrace.verification.verify import AnySubject, make_subjects, try_claims
from verification.broken import broken
from verification.late import ENGINE_MISTAKES, late_mutants, mistaken_engine

Mutate = Callable[[Any], Any]
"""From a state at its start, one with a mistake."""

# --- races and guards -----------------------------------------------------------------------


def scale_rule(log_terms: float, allowances: float) -> Callable[[Race], Race]:
    """Return a mistake that multiplies log terms and allowances of all intervals."""

    def mutate(race: Race) -> Race:
        rule = race.rule._replace(
            log_lower=race.rule.log_lower * log_terms,
            log_upper=race.rule.log_upper * log_terms,
            allowance=race.rule.allowance * allowances,
        )
        return race._replace(rule=rule)

    return mutate


def lead_by_50(race: Race) -> Race:
    """Put 50 other plays between two turns of a layer."""
    return race._replace(leading=np.array([50], dtype=np.int64))


def with_shares(race: Race, share: Floats) -> Race:
    """Draw the layers with other probabilities."""
    tail = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    return race._replace(share=share, tail=tail)


def _draw_too_often(race: Race) -> Race:
    """Give the second layer 50% more rounds, at the expense of the first."""
    share = race.share.copy()
    if share.size > 1:
        share[0] -= share[1] / 2
        share[1] *= 1.5
    return with_shares(race, share)._replace(halving=np.array([False]))


@forwards(distribution, choose, assign)
class LeakyRace(NamedTuple):
    """A race that feeds every reward to every layer, whichever was drawn."""

    race: Race
    share: Floats

    @property
    def inspected(self) -> Race:
        return self.race


@implement(learn, LeakyRace)
def leaky_learn(state: LeakyRace, ticket: Ticket, reward: float) -> None:
    for layer in range(state.share.size):
        learn(state.race, make_ticket(ticket.arm, layer, ticket.probability), reward)


@forwards(distribution, assign, learn)
class UnboundGuard(NamedTuple):
    """A guard whose base may play every arm, deleted or not."""

    guard: GuardState
    race: Race


@implement(choose, UnboundGuard)
def unbound_choose(state: UnboundGuard, stream: Stream, eligible: Eligible = None) -> Ticket:
    ticket = choose(state.guard, stream, eligible)
    if ticket.inner_arm == NO_ARM:
        return ticket
    drawn = choose(state.guard.base, stream, eligible)
    return wrap_ticket(drawn, drawn.arm, ticket.layer, ticket.probability)


def _in_race(mutate: Callable[[Race], Race]) -> Callable[[GuardState], GuardState]:
    """Return the guard whose race has a mistake."""
    return lambda state: state._replace(race=mutate(state.race))


def _label_too_often(race: Race) -> Race:
    """Give the second layer 50% more rounds, which the base then lacks."""
    share = race.share.copy()
    share[1] *= 1.5
    return with_shares(race, share)


def _feed_everything(race: Race) -> Race:
    """Give the first layer all rounds that no other layer has."""
    share = race.share.copy()
    share[0] = 1.0 - share[1:].sum()
    return with_shares(race, share)


_OF_RACES: Mapping[str, Mutate] = {
    "log terms 0": scale_rule(0, 1),
    "log terms 1/8": scale_rule(1 / 8, 1),
    "log terms x4": scale_rule(4, 1),
    "allowances 0": scale_rule(1, 0),
    "allowances 1/4": scale_rule(1, 1 / 4),
    "allowances 1/2": scale_rule(1, 1 / 2),
    "doubled widths": scale_rule(4, 2),
    "a lead of 50": lead_by_50,
    "a layer fed everything": lambda race: LeakyRace(race, race.share.copy()),
    "a layer drawn too often": _draw_too_often,
}
_OF_GUARDS: Mapping[str, Mutate] = {
    "a label drawn too often": _in_race(_label_too_often),
    "a layer fed everything": _in_race(_feed_everything),
    "the base plays deleted arms": lambda state: UnboundGuard(state, state.race),
    "allowances 1/2": _in_race(scale_rule(1, 1 / 2)),
    "a lead of 50": _in_race(lead_by_50),
}

# --- leaders --------------------------------------------------------------------------------

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


_IN_USE: Mapping[str, Mutate] = {
    "losses not divided by the probability": _used_wrongly(_NOT_DIVIDED),
    "losses divided by another arm's probability": _used_wrongly(_ANOTHER_ARM),
    "probabilities that sum to 0.99": _used_wrongly(_SUM),
    "an old distribution drawn from": _used_wrongly(_OLD),
    "every fifth arm drawn at random": _used_wrongly(_AT_RANDOM),
}
_WITH_PREDICTIONS: Mapping[str, Mutate] = {
    "predictions not subtracted": _used_wrongly(_NOT_SUBTRACTED),
    "predictions of rewards, not of losses": MisledLeader,
}

MUTATIONS: Mapping[type[Policy], Mapping[str, Mutate]] = {
    MultiLayerRace: _OF_RACES,
    SharpRace: _OF_RACES,
    Guarded: _OF_GUARDS,
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
    LeafBarrier: {
        "learning rates x4": _with(stack=_with(first_scale=_times(1 / 4), growth=_times(1 / 16))),
    },
    ExpertBarrier: {
        "learning rates x4": _with(mixture=_with(first_scale=_times(1 / 4), growth=_times(1 / 16))),
        "no optimism": _with(mixture=_with(optimism=_times(0))),
        "leaves' learning rates x4": _with(
            leaves=_with(stack=_with(first_scale=_times(1 / 4), growth=_times(1 / 16)))
        ),
    },
}
"""For each policy, from its state at the start, one with a mistake."""

BROKEN: Mapping[type[Policy], Any] = {
    kind: broken(kind, mistakes) for kind, mistakes in MUTATIONS.items()
}


def mutants() -> Iterator[tuple[str, str | None, Policy]]:
    """Return each race, the guard and each leader unbroken, and then with each mistake."""
    for kind, mistakes in MUTATIONS.items():
        parameters: dict[str, Any] = {"delta": DELTA} if issubclass(kind, RacePolicy) else {}
        if kind is Guarded:  # the checks do not depend on its base, and this one compiles fast
            parameters["base"] = "ucb1"
        yield kind.tag(), None, kind(**parameters)
        for mutation in mistakes:
            yield kind.tag(), mutation, BROKEN[kind](mutation=mutation, **parameters)
    yield from late_mutants()


def catch(policy: Policy, preset: Preset = QUICK, seed: int = 0) -> list[Check]:
    """Return the claims about the running state that a policy violates."""
    (subject,) = make_subjects([policy], ())
    checks = try_claims(list(_claims(subject, preset, seed)), progress=False, seed=seed, quick=True)
    return [check for check in checks if check.verdict == "fails"]


def catch_in_engine(mistake: str, preset: Preset = QUICK, seed: int = 0) -> list[Check]:
    """Return the claims that are violated if the engine makes a mistake."""
    with mistaken_engine(mistake):
        claims = list(protocol_claims(Exp3.tag(), Exp3(), preset, seed))
        checks = try_claims(claims, progress=False, seed=seed, quick=True)
    return [check for check in checks if check.verdict == "fails"]


def _claims(subject: AnySubject, preset: Preset, seed: int) -> Iterator[Claim]:
    if isinstance(subject, LeaderSubject):
        yield from leader_mechanics_claims(subject, preset, seed)
        return
    if isinstance(subject, ContextSubject):
        yield from context_mechanics_claims(subject, preset, seed)
        return
    families = (spending_claims, mechanics_claims, martingale_claims, guard_mechanics_claims)
    for family in families:
        yield from family(subject, preset, seed)


def print_table(preset: Preset = QUICK, seed: int = 0) -> bool:
    """Print which claims catch each mutant; True if each is caught and no sound policy is."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["policy", "mistake", "refuted by the quick form"])
    sound = True
    tried = [(name, mutation, partial(catch, policy)) for name, mutation, policy in mutants()]
    tried += [("engine", each, partial(catch_in_engine, each)) for each in ENGINE_MISTAKES]
    for name, mutation, find in tried:
        failed = find(preset, seed)
        sound &= bool(failed) == (mutation is not None)
        claims = "; ".join(dict.fromkeys(f"{each.claim} ({each.theorem})" for each in failed))
        table.writerow([name, mutation or "none", claims or "nothing"])
        sys.stdout.flush()
    return sound


if __name__ == "__main__":
    sys.exit(0 if print_table() else 1)
