"""Winners of earlier searches, and the worst attack known for a policy."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from armrace.adversaries import ADVERSARIES, Adversary, Setting
from armrace.red_team.target import Journal, Ratings, Stage, Target

if TYPE_CHECKING:
    from armrace.red_team.target import Target


KINDS = ("two-arms", "several-arms", "low-rates", "many-arms", "graded")
"""Kinds of environments, for which attacks differ."""

_MOST_ALIKE = {
    "two-arms": ("several-arms", "graded", "low-rates", "many-arms"),
    "several-arms": ("many-arms", "graded", "two-arms", "low-rates"),
    "low-rates": ("several-arms", "two-arms", "many-arms", "graded"),
    "many-arms": ("several-arms", "graded", "low-rates", "two-arms"),
    "graded": ("several-arms", "two-arms", "many-arms", "low-rates"),
}
"""For each kind the others, the most similar first."""

FORMAT = 2
"""The format of the file of winners."""

_MANY, _LOW = 50, 0.15
_MOST_WINNERS = 24


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """An attack that won a search, where it did, and its figures on held-out seeds."""

    policy: str
    kind: str
    environment: str
    """Its name in the arena."""
    budget: float
    horizon: int
    attack: dict[str, Any]
    """As plain data; parameters that are left out have their defaults."""
    mean: float
    stderr: float
    replications: int
    """How many gave the mean."""

    def make(self) -> Adversary:
        """The attack."""
        return ADVERSARIES.make(self.attack)


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """All winners, and how they were found."""

    format: int
    figures: int
    """``armrace.FIGURES`` of the searches: with other figures the means do not hold."""
    version: str
    effort: str
    seed: int
    winners: tuple[Winner, ...]


@cache
def load_library() -> Library:
    """Return the library that comes with the package."""
    text = files("armrace.red_team").joinpath("winners.json").read_bytes()
    return msgspec.json.decode(text, type=Library)


def kind_of(setting: Setting) -> str:
    """Return the kind of environment, one of ``KINDS``.

    >>> clicks = np.array([[0.0, 1.0]] * 2)
    >>> [kind_of(Setting(np.array(m), 9, 1.0, support=clicks)) for m in ([0.6, 0.4], [0.05, 0.03])]
    ['two-arms', 'low-rates']
    """
    if setting.support is None or not np.isin(setting.support, (0.0, 1.0)).all():
        return "graded"
    if setting.means.max() < _LOW:
        return "low-rates"
    if setting.arms >= _MANY:
        return "many-arms"
    return "two-arms" if setting.arms == 2 else "several-arms"


def winners_for(target: Target, *, mixed: bool = False) -> list[Adversary]:
    """Return the winners that are most like ``target``: of the same policy, then of others.

    Those of the same policy come by the similarity of the environment, then of the budget; or, if
    ``mixed``, by both together, so that the first few are not all from the same environment.
    """
    policy, kinds = target.policy.tag(), _kinds_for(target)
    # Budgets are compared as shares of the horizon, and by their ratio.
    share = np.log(target.budget / target.horizon)

    def distance(winner: Winner) -> tuple[bool, float, float]:
        gap = abs(float(np.log(winner.budget / winner.horizon) - share))
        kind = kinds.index(winner.kind)
        return winner.policy != policy, kind / 2 + gap if mixed else kind, gap

    nearest = sorted(load_library().winners, key=distance)
    return list(dict.fromkeys(winner.make() for winner in nearest))[:_MOST_WINNERS]


def was_searched(policy: str) -> bool:
    """Whether the library has attacks that were found for a policy of this name."""
    return any(winner.policy == policy for winner in load_library().winners)


def _kinds_for(target: Target) -> tuple[str, ...]:
    """Return all kinds, the most similar to the target's first."""
    kind = kind_of(target.setting())
    return kind, *_MOST_ALIKE[kind]


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
    ratings = Ratings(target, Stage.SELECTING, seed, Journal(target, seed), executor, workers)
    ratings.rate(attacks, replications)
    return sorted(attacks, key=ratings.value, reverse=True)


def _shortened(target: Target, rounds: int) -> Target:
    """Return the target with at most ``rounds`` rounds and the same budget per round."""
    if target.horizon <= rounds:
        return target
    # On clicks every change costs 1: less would buy nothing, and rank all attacks alike.
    budget = max(1.0, target.budget * rounds / target.horizon)
    return msgspec.structs.replace(target, horizon=rounds, budget=budget)
