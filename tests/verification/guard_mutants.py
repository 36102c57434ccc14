"""Guards with one mistake each, to show which check of ``verify`` detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_ARM,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    forwards,
    learn,
    wrap_ticket,
)
from armrace.kernels.streams import Stream
from armrace.policies.base import Policy
from armrace.policies.guarded import Guarded, GuardState
from armrace.policies.races.race import Race
from armrace.verification.guarantees import DELTA
from verification.race_mutations import lead_by_50, scale_rule, with_shares

__all__ = ["GUARD_MUTATIONS", "BrokenGuard", "GuardMutation", "guard_mutants"]

GuardMutation = Literal[
    "a label drawn too often",
    "a layer fed everything",
    "the base plays deleted arms",
    "allowances 1/2",
    "a lead of 50",
]
_BASE = "ucb1"
"""The base of all mutants: the checks do not depend on it, and it compiles fast."""


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


GUARD_MUTATIONS: dict[GuardMutation, Callable[[GuardState], Any]] = {
    "a label drawn too often": _in_race(_label_too_often),
    "a layer fed everything": _in_race(_feed_everything),
    "the base plays deleted arms": lambda state: UnboundGuard(state, state.race),
    "allowances 1/2": _in_race(scale_rule(1, 1 / 2)),
    "a lead of 50": _in_race(lead_by_50),
}
"""From the state of a guard at its start, one with a mistake."""


class BrokenGuard(Guarded, frozen=True, tag="broken-guard"):
    """A guard with a mistake in its running state."""

    mutation: Annotated[GuardMutation, "the mistake"] = "a label drawn too often"

    def start(self, arms: int, horizon: int) -> Any:
        return GUARD_MUTATIONS[self.mutation](super().start(arms, horizon))


def guard_mutants() -> Iterator[tuple[str, GuardMutation | None, Policy]]:
    """Return the guard unbroken, and then with each mistake."""
    yield Guarded.tag(), None, Guarded(base=_BASE, delta=DELTA)
    for mutation in GUARD_MUTATIONS:
        yield Guarded.tag(), mutation, BrokenGuard(base=_BASE, delta=DELTA, mutation=mutation)
