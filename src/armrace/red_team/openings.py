"""The attacks that a search tries first: built-in ones, hand-made ones and winners of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from armrace.adversaries import ADVERSARIES, Adversary, LowerBoundSwitch, NoAttack
from armrace.adversaries.two_phase import ACTIONS, BlindTwoPhase, TwoPhase
from armrace.errors import ArmraceError
from armrace.red_team.library import winners_for
from armrace.red_team.space import sample
from armrace.red_team.target import Target
from armrace.simulation.arena_attacks import ATTACKS, make_arena_attack

__all__ = ["builtin_attacks", "families_for", "opening_attacks"]

_WINDOWS = ((0.5, 1.0), (0.9, 1.0), (0.0, 0.5))
_SIMULATIONS_OF_A_START = 20
"""How often ``lower-bound-switch`` simulates the learner before each search uses it."""
_SHARE_OF_CHANCE = 0.25
"""Of the first rung, the share that is kept for attacks drawn at random."""


def families_for(target: Target) -> list[type[Adversary]]:
    """Return the classes that are searched by default.

    Where the learner's distribution is costly, an attacker who does without it sees fresher facts
    than one who looks at a distribution that is computed now and then.
    """
    return [TwoPhase] if target.policy.exact_tickets else [TwoPhase, BlindTwoPhase]


def builtin_attacks(target: Target) -> list[Adversary]:
    """Return the attacks of the catalogue and of the arena that can start here.

    Those of the catalogue have their default parameters, and some of the arena's depend on the
    budget.
    """
    found: list[Adversary] = []
    for name in [*ADVERSARIES, *ATTACKS]:
        try:
            attack = make_arena_attack(name, target.budget)
            if isinstance(attack, LowerBoundSwitch):
                attack = LowerBoundSwitch(runs=_SIMULATIONS_OF_A_START, interval="regret")
            target.experiment(attack, 1, 0)
        except ArmraceError:  # a parameter without default, or a setting that it cannot attack
            continue
        # Plain members of the searched family are no rivals: the search would be compared with
        # itself.
        if not isinstance(attack, (NoAttack, TwoPhase)):
            found.append(attack)
    return list(dict.fromkeys(found))


def opening_attacks(
    target: Target,
    families: Sequence[type[Adversary]],
    count: int,
    generator: np.random.Generator,
    given: Sequence[Adversary] = (),
) -> list[Adversary]:
    """Return at least ``count`` attacks to begin with, a quarter of ``count`` drawn at random.

    Args:
        target: what is attacked.
        families: the classes that are searched.
        count: how many attacks at least; random ones of ``families`` fill the list.
        generator: the source of randomness.
        given: attacks that are tried in any case.
    """
    attacks = [*given, *builtin_attacks(target), *winners_for(target)]
    for family in families:
        if issubclass(family, TwoPhase):
            attacks += _hand_made(family, _gap(target))
        else:
            attacks.append(family())
    distinct = list(dict.fromkeys(attacks))
    # However many attacks are known, some are random: the worst may resemble none of them.
    count = max(count, len(distinct) + round(_SHARE_OF_CHANCE * count))
    while len(distinct) < count:
        family = families[len(distinct) % len(families)]
        distinct.append(sample(family, generator))
    return distinct


def _gap(target: Target) -> float:
    """Return the difference of the two largest means."""
    setting = target.setting()
    return float(setting.means[setting.best] - setting.means[setting.runner_up])


def _hand_made(family: type[TwoPhase], gap: float) -> Iterator[Adversary]:
    for action in ACTIONS:
        yield family(first=action)
    # Only in rounds in which the best arm would pay: elsewhere its change buys nothing.
    for low in (0.0, 0.1, 0.2, 0.35, 0.5):
        yield family(first="free-ride", first_pays=0.5, first_low=low)
    # And only where, besides, no other arm would pay: each unit then moves every difference by 2.
    for low in (0.0, 0.1, 0.15, 0.2):
        yield family(first="double-impact", decoy="all", first_low=low)
    yield family(first="free-ride", first_pays=0.5, first_low=0.1, first_strength=0.5)
    for low, high in _WINDOWS:
        yield family(first="double-impact", first_low=low, first_high=high)
        yield family(first="free-ride", first_low=low, first_high=high)
    for visible in (0.1, 0.3, 0.5):
        yield family(first="double-impact", first_visible=visible)
        yield family(first="free-ride", first_visible=visible)
    # Strike until the best arm looks as much worse as it is better, or a part of that: against
    # learners that return, more is wasted.
    for share in (2.0, 1.0, 0.5, 0.0):
        margin = -round(min(1.0, share * gap), 3)
        yield family(first="double-impact", first_margin=margin)
        yield family(first="free-ride", first_margin=margin)
    yield family(first="double-impact", first_margin=-round(gap, 3), first_visible=0.3)
    for split in (0.3, 0.6):
        yield family(first="spoil", second="swap", split=split)
        yield family(first="spoil", second="double-impact", split=split)
    yield family(first="spoil-and-praise", second="double-impact", split=0.5)
    yield family(first="double-impact", start_at=0.01)
    yield family(first="double-impact", start_at=0.1)
