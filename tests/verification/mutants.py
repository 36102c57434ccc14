"""Races, guards and leaders with one mistake each, to show which check of ``verify`` detects it.

A mutant has the guarantee of the class from which it derives; only its running state differs.
``make mutants`` checks all of them and prints ``docs/mutants.csv``. It exits with 1 if a mutant is
not detected or an unbroken policy does not pass.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Floats,
    Ticket,
    assign,
    choose,
    distribution,
    forwards,
    learn,
    make_ticket,
)
from armrace.policies.base import ArmView, Policy
from armrace.policies.exp3 import Exp3
from armrace.policies.multi_layer_race import MultiLayerRace
from armrace.policies.races.race import Race
from armrace.policies.sharp_race import SharpRace
from armrace.verification.checks import Check, Claim
from armrace.verification.forms import QUICK, Form
from armrace.verification.guarantees import DELTA, Subject
from armrace.verification.guards import guard_mechanics_claims
from armrace.verification.leader_guarantees import LeaderSubject
from armrace.verification.leader_mechanics import leader_mechanics_claims
from armrace.verification.martingales import martingale_claims
from armrace.verification.mechanics import mechanics_claims
from armrace.verification.protocol import protocol_claims
from armrace.verification.spending import spending_claims
from armrace.verification.verify import make_subjects, try_claims
from verification.guard_mutants import guard_mutants
from verification.late import ENGINE_MISTAKES, late_mutants, mistaken_engine
from verification.leader_mutants import leader_mutants
from verification.race_mutations import lead_by_50, scale_rule, with_shares

__all__ = ["MUTATIONS", "BrokenMultiLayerRace", "BrokenSharpRace", "catch", "print_table"]

Mutation = Literal[
    "log terms 0",
    "log terms 1/8",
    "log terms x4",
    "allowances 0",
    "allowances 1/4",
    "allowances 1/2",
    "doubled widths",
    "a lead of 50",
    "a layer fed everything",
    "a layer drawn too often",
]


def _draw_too_often(race: Race) -> Race:
    """Give the second layer 50% more rounds, at the expense of the first."""
    share = race.share.copy()
    if share.size > 1:
        share[0] -= share[1] / 2
        share[1] *= 1.5
    return with_shares(race, share)._replace(halving=np.array([False]))


MUTATIONS: dict[Mutation, Callable[[Race], Any]] = {
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
"""From the state of a race at its start, one with a mistake."""


@forwards(distribution, choose, assign)
class LeakyRace(NamedTuple):
    """A race that feeds every reward to every layer, whichever was drawn."""

    race: Race
    share: Floats


@implement(learn, LeakyRace)
def leaky_learn(state: LeakyRace, ticket: Ticket, reward: float) -> None:
    for layer in range(state.share.size):
        learn(state.race, make_ticket(ticket.arm, layer, ticket.probability), reward)


class BrokenMultiLayerRace(MultiLayerRace, frozen=True, tag="broken-multi-layer-race"):
    """A multi-layer race with a mistake in its running state."""

    mutation: Annotated[Mutation, "the mistake"] = "log terms 0"

    def start(self, arms: int, horizon: int) -> Any:
        return MUTATIONS[self.mutation](super().start(arms, horizon))

    def inspect(self, state: Any) -> Any:
        return _inspect(super().inspect, state)


class BrokenSharpRace(SharpRace, frozen=True, tag="broken-sharp-race"):
    """A sharp race with a mistake in its running state."""

    mutation: Annotated[Mutation, "the mistake"] = "log terms 0"

    def start(self, arms: int, horizon: int) -> Any:
        return MUTATIONS[self.mutation](super().start(arms, horizon))

    def inspect(self, state: Any) -> Any:
        return _inspect(super().inspect, state)


def _inspect(inspect: Callable[[Race], Any], state: Any) -> list[ArmView]:
    return list(inspect(state.race if isinstance(state, LeakyRace) else state))


def mutants() -> Iterator[tuple[str, str | None, Policy]]:
    """Return each race, the guard and each leader unbroken, and then with each mistake."""
    yield MultiLayerRace.tag(), None, MultiLayerRace(delta=DELTA)
    for mutation in MUTATIONS:
        yield MultiLayerRace.tag(), mutation, BrokenMultiLayerRace(delta=DELTA, mutation=mutation)
    yield SharpRace.tag(), None, SharpRace(delta=DELTA)
    for mutation in MUTATIONS:
        yield SharpRace.tag(), mutation, BrokenSharpRace(delta=DELTA, mutation=mutation)
    yield from guard_mutants()
    yield from leader_mutants()
    yield from late_mutants()


def catch(policy: Policy, form: Form = QUICK, seed: int = 0) -> list[Check]:
    """Return the claims about the running state that a policy violates.

    Args:
        policy: the policy, perhaps with a mistake.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    (subject,) = make_subjects([policy], ())
    checks = try_claims(list(_claims(subject, form, seed)), progress=False, seed=seed, quick=True)
    return [check for check in checks if check.verdict == "fails"]


def catch_in_engine(mistake: str, form: Form = QUICK, seed: int = 0) -> list[Check]:
    """Return the claims that are violated if the engine makes a mistake.

    Args:
        mistake: one of :data:`verification.late.ENGINE_MISTAKES`.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    with mistaken_engine(mistake):
        claims = list(protocol_claims(Exp3.tag(), Exp3(), form, seed))
        checks = try_claims(claims, progress=False, seed=seed, quick=True)
    return [check for check in checks if check.verdict == "fails"]


def _claims(subject: Subject | LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    if isinstance(subject, LeaderSubject):
        yield from leader_mechanics_claims(subject, form, seed)
        return
    families = (spending_claims, mechanics_claims, martingale_claims, guard_mechanics_claims)
    for family in families:
        yield from family(subject, form, seed)


def print_table(form: Form = QUICK, seed: int = 0) -> bool:
    """Print which claims catch each mutant; True if each is caught and no sound policy is.

    Args:
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["policy", "mistake", "refuted by the quick form"])
    sound = True
    tried = [(name, mutation, partial(catch, policy)) for name, mutation, policy in mutants()]
    tried += [("engine", each, partial(catch_in_engine, each)) for each in ENGINE_MISTAKES]
    for name, mutation, find in tried:
        failed = find(form, seed)
        sound &= bool(failed) == (mutation is not None)
        claims = "; ".join(dict.fromkeys(f"{each.claim} ({each.theorem})" for each in failed))
        table.writerow([name, mutation or "none", claims or "nothing"])
        sys.stdout.flush()
    return sound


if __name__ == "__main__":
    sys.exit(0 if print_table() else 1)
