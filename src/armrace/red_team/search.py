"""The search for the worst attack: successive halving, then a small evolution strategy or CMA-ES.

Every rating plays new replications, so that an attack that was lucky once does not stay ahead. The
sequence of random numbers depends on the seed alone, and the result only on that and the ratings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from armrace.adversaries import Adversary
from armrace.errors import InvalidParameter, UnknownName
from armrace.formatting import figure
from armrace.red_team.efforts import Effort
from armrace.red_team.openings import opening_attacks
from armrace.red_team.ratings import Ratings
from armrace.red_team.space import at_places, cross, mutate, places_of, sample

__all__ = ["SEARCHERS", "Report", "Scores", "check_searcher", "search"]

SEARCHERS = ("evolution", "cmaes")
"""What varies the best attacks of the opening."""

T = TypeVar("T")
Report = Callable[[float, str], None]
"""Called with the finished share of a search and words on the best attack so far."""

_DOUBT = 2.0
"""Ratings are shrunk to the median of all, as if this many replications had given it."""

_CHANCE_OF_CROSSING, _CHANCE_OF_NEWCOMER = 0.35, 0.15
_LARGEST_STEP, _SMALLEST_STEP = 0.3, 0.08
_FIRST_SPREAD = 0.15
"""The standard deviation of CMA-ES at its start, as a share of a parameter's range."""


class Scores:
    """Ratings shrunk towards their median, so that few lucky replications do not decide."""

    def __init__(self, ratings: Ratings) -> None:
        self._ratings = ratings
        values = ratings.target.cautious_value
        self._values = {a: values(ratings.sample(a)) for a in ratings.attacks()}
        self._median = float(np.median(list(self._values.values())))

    def __call__(self, attack: Adversary) -> float:
        trust = self._ratings.count(attack) / (self._ratings.count(attack) + _DOUBT)
        return trust * self._values[attack] + (1.0 - trust) * self._median

    def best(self, count: int, among: Sequence[Adversary] | None = None) -> list[Adversary]:
        """Return the attacks with the highest scores; the earlier ones among equals."""
        ranked = sorted(among or list(self._values), key=self, reverse=True)
        return ranked[:count]


class _Progress(NamedTuple):
    """Turns what a single rating reports into the share of the whole search."""

    ratings: Ratings
    total: int
    report: Report

    def rate(self, attacks: Sequence[Adversary], replications: int) -> None:
        """Rate attacks, and report."""
        done, planned = self.ratings.played, replications * len(attacks)
        words = self._words()

        def progress(share: float) -> None:
            self.report((done + share * planned) / self.total, words)

        self.ratings.rate(attacks, replications, progress)

    def _words(self) -> str:
        if not self.ratings.attacks():
            return "searching"
        best = Scores(self.ratings).best(1)[0]
        return f"worst so far {figure(self.ratings.value(best))} by {best.tag()}"


def search(
    ratings: Ratings,
    effort: Effort,
    families: Sequence[type[Adversary]],
    seed: int,
    given: Sequence[Adversary] = (),
    report: Report = lambda share, words: None,
    searcher: str = "evolution",
) -> None:
    """Search for attacks with a high rating; they are left in ``ratings``.

    Args:
        ratings: plays the replications.
        effort: how many replications, and for what.
        families: the classes of attacks whose parameters are varied.
        seed: the seed of the search.
        given: attacks that are tried in any case.
        report: called with the finished share and the best attack so far.
        searcher: one of ``SEARCHERS``.
    """
    # 0 is the number of no stage, so that ratings draw other numbers.
    generator = np.random.default_rng([seed, 0])
    places, added = effort.rungs[0]
    attacks = opening_attacks(ratings.target, families, places, generator, given)
    # The opening may be longer than planned: known attacks never crowd out random ones.
    planned = effort.searching + added * (len(attacks) - places)
    progress = _Progress(ratings, planned, report)
    for kept, added in effort.rungs:
        if ratings.attacks():
            attacks = Scores(ratings).best(kept, attacks)
        progress.rate(attacks, added)
    if searcher == "cmaes":
        _adapt(progress, effort, families, seed)
        return
    for generation in range(effort.generations):
        parents = Scores(ratings).best(effort.parents)
        late = generation / max(1, effort.generations - 1)
        # Wide steps find the region, small ones its best point.
        step = _LARGEST_STEP * (_SMALLEST_STEP / _LARGEST_STEP) ** late
        children = [_child(parents, families, generator, step) for _ in range(effort.children)]
        progress.rate([*parents, *children], effort.replications)


def check_searcher(name: str) -> None:
    """Refuse a searcher that does not exist or is not installed."""
    if name not in SEARCHERS:
        raise UnknownName.among("searcher", name, SEARCHERS)
    if name == "cmaes" and importlib.util.find_spec("cmaes") is None:
        raise InvalidParameter(
            "searcher cmaes needs the extra search: pip install 'armrace[search]'."
        )


def _adapt(
    progress: _Progress, effort: Effort, families: Sequence[type[Adversary]], seed: int
) -> None:
    """Vary the best attack of the opening by CMA-ES, with as many replications as an evolution."""
    from cmaes import CMA

    ratings = progress.ratings
    able = [a for a in ratings.attacks() if type(a) in families and len(places_of(a)) > 1]
    if not able:
        raise InvalidParameter("searcher cmaes needs a family with at least two parameters.")
    start = Scores(ratings).best(1, able)[0]
    mean = places_of(start)
    strategy = CMA(
        mean=mean,
        sigma=_FIRST_SPREAD,
        bounds=np.tile([0.0, 1.0], (mean.size, 1)),
        population_size=effort.parents + effort.children,
        seed=seed,
    )
    for _ in range(effort.generations):
        asked = [strategy.ask() for _ in range(strategy.population_size)]
        attacks = [at_places(start, places) for places in asked]
        progress.rate(attacks, effort.replications)
        # It minimises, and compares what was played in this generation alone.
        latest = [ratings.sample(attack)[-effort.replications :] for attack in attacks]
        values = [-ratings.target.cautious_value(sample) for sample in latest]
        strategy.tell(list(zip(asked, values, strict=True)))


def _child(
    parents: Sequence[Adversary],
    families: Sequence[type[Adversary]],
    generator: np.random.Generator,
    step: float,
) -> Adversary:
    """Return a newcomer, or a variation of one parent or of two of the same class."""
    luck = generator.random()
    if luck < _CHANCE_OF_NEWCOMER:
        return sample(_one_of(families, generator), generator)
    parent = _one_of(parents, generator)
    # Parameters of different classes do not correspond, so only attacks of one class are crossed.
    others = [other for other in parents if type(other) is type(parent) and other != parent]
    if others and luck < _CHANCE_OF_NEWCOMER + _CHANCE_OF_CROSSING:
        parent = cross(parent, _one_of(others, generator), generator)
    return mutate(parent, generator, step)


def _one_of(items: Sequence[T], generator: np.random.Generator) -> T:
    return items[int(generator.integers(len(items)))]
