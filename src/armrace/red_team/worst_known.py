"""The worst known attack on a policy: the costliest of a few that are tried in the very setting.

That is far less work than a search. Attacks of the library are tried, which searches have found in
similar settings, and some that do well against many policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import msgspec

from armrace.adversaries import ADVERSARIES, Adversary
from armrace.red_team.library import winners_for
from armrace.red_team.notebook import Notebook
from armrace.red_team.ratings import Ratings, Stage
from armrace.red_team.target import Target

__all__ = ["attacks_to_try", "worst_known"]

_WINNERS = 8
_EVERYWHERE = ("spoil-then-swap", "double-impact", "free-ride", "strip")
_SHORT, _LONG = 100_000, 1_000_000
"""Trials have at most this many rounds, with the same share of the rounds as a budget."""
_FINALISTS = 2
_FIRST_TRIALS, _MOST_TRIALS, _ROUNDS_OF_FINALS = 4, 16, 2_000_000
"""Every attack is tried a few times, and the finalists more often the shorter the runs are."""


def attacks_to_try(target: Target, given: Sequence[Adversary] = ()) -> list[Adversary]:
    """Return ``given`` attacks, the nearest winners of searches, and four for every setting."""
    usual = [ADVERSARIES.make(name) for name in _EVERYWHERE]
    return list(dict.fromkeys([*given, *winners_for(target, mixed=True)[:_WINNERS], *usual]))


def worst_known(
    target: Target,
    seed: int,
    given: Sequence[Adversary] = (),
    executor: Executor | None = None,
    workers: int | None = None,
) -> Adversary:
    """Try some attacks, and return the one that costs the policy most on average.

    What it costs must be found out on other seeds, such as those of a simulation: here the largest
    of several means was taken.

    Args:
        target: what is attacked.
        seed: the seed of the trials.
        given: attacks that are tried in any case.
        executor: what runs the trials; None for threads.
        workers: the number of threads.
    """
    tried = attacks_to_try(target, given)
    best = _ranked(_shortened(target, _SHORT), tried, _FIRST_TRIALS, seed, executor, workers)
    # What a small budget cannot do in few rounds, a large one may do in many.
    finalists = list(dict.fromkeys([*given, *best[:_FINALISTS]]))
    longer = _shortened(target, _LONG)
    trials = min(_MOST_TRIALS, _ROUNDS_OF_FINALS // longer.horizon)
    return _ranked(longer, finalists, trials, seed, executor, workers)[0]


def _ranked(
    target: Target,
    attacks: Sequence[Adversary],
    replications: int,
    seed: int,
    executor: Executor | None,
    workers: int | None,
) -> list[Adversary]:
    """Return attacks by what they cost in some replications, the costliest first."""
    ratings = Ratings(target, Stage.SELECTING, seed, Notebook(target, seed), executor, workers)
    ratings.rate(attacks, replications)
    return sorted(attacks, key=ratings.value, reverse=True)


def _shortened(target: Target, rounds: int) -> Target:
    """Return the target with at most ``rounds`` rounds and the same budget per round."""
    if target.horizon <= rounds:
        return target
    # On clicks every change costs 1: less would buy nothing, and rank all attacks alike.
    budget = max(1.0, target.budget * rounds / target.horizon)
    return msgspec.structs.replace(target, horizon=rounds, budget=budget)
