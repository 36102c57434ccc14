"""The search for the attack that costs a policy most."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, LowerBoundSwitch, NoAttack
from armrace.adversaries.by_visitor import (
    WORST_KNOWN,
    BlindTwoPhaseByVisitor,
    TwoPhaseByVisitor,
    at_visitors,
)
from armrace.adversaries.two_phase import ACTIONS, BlindTwoPhase, NamedTwoPhase, TwoPhase
from armrace.agents import PythonAgent, seconds_a_round
from armrace.environments import Environment
from armrace.errors import ArmraceError, InvalidParameter
from armrace.formatting import duration, figure
from armrace.kernels.crowds import Crowd
from armrace.policies import Policy
from armrace.randomness import MAXIMAL_SEED
from armrace.red_team.library import winners_for
from armrace.red_team.space import cross, mutate, sample, space_of
from armrace.red_team.target import Journal, Ratings, SearchBudget, Stage, Target, find_budget
from armrace.red_team.verdict import SearchRecord, Verdict, held_out
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.experiment import make_experiment
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.replication import live_attack, make_parts

_WINDOWS = ((0.5, 1.0), (0.9, 1.0), (0.0, 0.5))
_SIMULATIONS_OF_A_START = 20
"""How often ``lower-bound-switch`` simulates the learner before each search uses it."""
_ARMS_STRUCK, _WINNERS_AT_VISITORS = 3, 8
_SHARE_OF_CHANCE = 0.25
"""Of the first rung, the share that is kept for attacks drawn at random."""


def families_for(target: Target) -> list[type[Adversary]]:
    """Return the classes that are searched by default.

    Where the learner's distribution is costly, an attacker who does without it sees fresher facts
    than one who looks at a distribution that is computed now and then. Where visitors differ, it
    would have to be computed for each, and attackers do without it.
    """
    if target.crowd is not None:
        return [_visitors_family(target)]
    return [TwoPhase] if target.policy.exact_tickets else [TwoPhase, BlindTwoPhase]


def _visitors_family(target: Target) -> type[TwoPhaseByVisitor]:
    return TwoPhaseByVisitor if target.policy.exact_tickets else BlindTwoPhaseByVisitor


def builtin_attacks(target: Target) -> list[Adversary]:
    """Return the attacks of the catalogue and of the arena that can start here.

    Those of the catalogue have their default parameters, and some of the arena's depend on the
    budget. Where visitors differ, what is best on average says little, and the attacks are the
    worst known that strike the best arm of each visitor.
    """
    if target.crowd is not None:
        return [at_visitors(attack, _visitors_family(target)) for attack in WORST_KNOWN]
    # The arena reads the whole catalogue when it is loaded, entry points included.
    from armrace.simulation.arena import ATTACKS, make_arena_attack

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


def initial_candidates(
    target: Target,
    families: Sequence[type[Adversary]],
    count: int,
    generator: np.random.Generator,
    given: Sequence[Adversary] = (),
    known: int = MAXIMAL_SEED,
) -> list[Adversary]:
    """Return at least ``count`` attacks to begin with, a quarter of ``count`` drawn at random.

    Of more than ``known`` attacks that need no luck, some are taken at even distances.
    """
    attacks = [*given, *builtin_attacks(target), *_winners(target)]
    for family in families:
        if issubclass(family, TwoPhase):
            attacks += _hand_made(family, _gap(target))
            if target.crowd is not None and issubclass(family, TwoPhaseByVisitor):
                attacks += _at_some_visitors(family, target.crowd)
        else:
            attacks.append(family())
    distinct = list(dict.fromkeys(attacks))
    distinct = distinct[:: max(1, math.ceil(len(distinct) / known))]
    # However many attacks are known, some are random: the worst may resemble none of them.
    count = max(count, len(distinct) + round(_SHARE_OF_CHANCE * count))
    while len(distinct) < count:
        family = families[len(distinct) % len(families)]
        distinct.append(sample(family, generator))
    return distinct


def _winners(target: Target) -> list[Adversary]:
    """Return winners of earlier searches, as attacks on each visitor where visitors differ."""
    winners = winners_for(target)
    if target.crowd is None:
        return winners
    members = [each.member if isinstance(each, NamedTwoPhase) else each for each in winners]
    family = _visitors_family(target)
    found: list[Adversary]
    found = [at_visitors(each, family) for each in members if isinstance(each, TwoPhase)]
    return list(dict.fromkeys(found))[:_WINNERS_AT_VISITORS]


def _gap(target: Target) -> float:
    """Return the difference of the two largest means; the average, where visitors differ."""
    crowd = target.crowd
    means = target.setting().means[None, :] if crowd is None else crowd.means
    return float(np.diff(np.sort(means, axis=1)[:, -2:]).mean())


def _at_some_visitors(family: type[TwoPhaseByVisitor], crowd: Crowd) -> Iterator[Adversary]:
    """Attacks on the visitors for whom one arm is the best, most of all on the most frequent."""
    best = np.bincount(crowd.means.argmax(axis=1), minlength=crowd.means.shape[1])
    for arm in np.argsort(-best)[:_ARMS_STRUCK].tolist():
        for low in (0.0, 0.2):
            yield family(first="free-ride", first_low=low, where="best", where_arm=arm)
        yield family(first="double-impact", where="best", where_arm=arm, decoy="likeliest")
        yield family(first="double-impact", where="not-best", where_arm=arm, decoy="arm",
                     decoy_arm=arm)  # fmt: skip
    for name in ("close", "spread"):
        value = round(float(np.median(np.ptp(crowd.means, axis=1))) / 2, 3)
        yield family(first="double-impact", where=name, where_value=value, decoy="worst")


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


T = TypeVar("T")
Report = Callable[[float, str], None]
"""Called with the finished share of a search and words on the best attack so far."""

_DOUBT = 2.0
"""Ratings are shrunk to the median of all, as if this many replications had given it."""

_CHANCE_OF_CROSSING, _CHANCE_OF_NEWCOMER = 0.35, 0.15
_LARGEST_STEP, _SMALLEST_STEP = 0.3, 0.08


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


def explore(
    ratings: Ratings,
    effort: SearchBudget,
    families: Sequence[type[Adversary]],
    seed: int,
    given: Sequence[Adversary] = (),
    report: Report = lambda share, words: None,
) -> None:
    """Search for attacks with a high rating; they are left in ``ratings``."""
    # 0 is the number of no stage, so that ratings draw other numbers.
    generator = np.random.default_rng([seed, 0])
    places, added = effort.rungs[0]
    attacks = initial_candidates(ratings.target, families, places, generator, given, effort.known)
    # There may be more candidates than planned: known attacks never crowd out random ones.
    planned = effort.searching + added * (len(attacks) - places)
    progress = _Progress(ratings, planned, report)
    for kept, added in effort.rungs:
        if ratings.attacks():
            attacks = Scores(ratings).best(kept, attacks)
        progress.rate(attacks, added)
    for generation in range(effort.generations):
        parents = Scores(ratings).best(effort.parents)
        late = generation / max(1, effort.generations - 1)
        # Wide steps find the region, small ones its best point.
        step = _LARGEST_STEP * (_SMALLEST_STEP / _LARGEST_STEP) ** late
        children = [_child(parents, families, generator, step) for _ in range(effort.children)]
        progress.rate([*parents, *children], effort.replications)


class SearchCost(NamedTuple):
    """What a search of an agent will cost."""

    replications: int
    rounds: int
    """Of each replication; in each the agent is called once."""
    seconds_a_round: float

    def __str__(self) -> str:
        calls = self.replications * self.rounds
        return (
            f"some {self.replications:,} replications of {self.rounds:,} rounds: {calls:,} calls "
            f"of the agent, about {duration(calls * self.seconds_a_round)} at "
            f"{figure(1e6 * self.seconds_a_round)} us each"
        )


def search_cost(target: Target, effort: str = "usual") -> SearchCost:
    """Say what a search would cost, after a second of play without an attack, or one round.

    Args:
        target: an agent under attack; see :class:`armrace.agents.PythonAgent`.
        effort: the effort of the search.
    """
    plan, generator = find_budget(effort), np.random.default_rng(0)
    places, added = plan.rungs[0]
    families = families_for(target)
    begun = initial_candidates(target, families, places, generator, known=plan.known)
    experiment = target.experiment("none", 1, 0)
    compile_experiments([experiment])
    parts = make_parts(experiment, 0)
    if parts.agent is None:
        raise InvalidParameter(
            f"policy must be a python-agent to say what its calls cost; got {target.policy.tag()}."
        )
    seconds = seconds_a_round(parts, live_attack(parts), parts.agent)
    most = plan.total + added * (len(begun) - places) + _BUILTIN_FINALISTS * plan.selecting
    return SearchCost(most, target.horizon, seconds)


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


_BUILTIN_FINALISTS = 2


def redteam(
    policy: Policy | str | Mapping[str, Any],
    environment: Environment | Mapping[str, Any] | npt.ArrayLike,
    budget: float,
    horizon: float = 100_000,
    *,
    effort: str = "usual",
    objective: str = "mean",
    measure: str = "pseudo_regret",
    families: Sequence[type[Adversary] | str] = (),
    attacks: Sequence[Adversary | str | Mapping[str, Any]] = (),
    account: str = "largest",
    seed: int = 0,
    folder: str | Path | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Verdict:
    """Search for the attack that costs a policy most, and confirm it on held-out seeds.

    The same arguments give the same verdict, on any executor and with any number of workers.

    Args:
        policy: the algorithm under attack, in a form that :func:`armrace.simulate` takes.
        environment: the source of rewards, in a form that :func:`armrace.simulate` takes.
        budget: the most corruption that an attack may spend.
        horizon: the number of rounds of each replication.
        effort: ``quick``, ``usual`` or ``full``: some 500, 2,000 or 10,000 replications; or
            ``few``: some 70, for agents whose calls take long or cost money.
        objective: what is made large: ``mean``, or the 95th percentile ``p95``.
        measure: of which measure of the ledger.
        families: classes of attacks whose parameters are searched, such as your own; by default
            the two-phase attacks. Every class whose parameters have limits can be searched.
        attacks: attacks that are tried in any case, next to the built-in ones.
        account: what a round costs the attack; see :func:`armrace.simulate`.
        seed: the seed of all randomness.
        folder: where replications are kept, so that an interrupted search can go on.
        executor: see :func:`armrace.simulate`.
        workers: see :func:`armrace.simulate`.
        progress: whether to show a progress bar; by default on a terminal, and a line a minute
            elsewhere.

    Returns:
        The worst attack found: a lower bound on the worst case.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.
    """
    plain = make_experiment(
        policy=policy, environment=environment, horizon=horizon, seed=seed, account=account
    )
    target = Target(
        policy=plain.policy,
        environment=plain.environment,
        budget=float(budget),
        horizon=plain.horizon,
        measure=measure,
        objective=objective,  # type: ignore[arg-type]  # the target refuses other words
        account=account,
    )
    plan = find_budget(effort)
    searched = [_family(family) for family in families]
    given = [ADVERSARIES.make(attack) for attack in attacks]
    place = None if folder is None else Path(folder)
    if progress is not False and isinstance(target.policy, PythonAgent):
        print(f"armrace: {search_cost(target, effort)}.", file=sys.stderr, flush=True)
    title = f"attacking {target.policy.tag()}"
    with running_executor(executor, workers) as running, progress_bar(title, progress) as report:
        return search(
            target,
            plan,
            effort,
            seed,
            families=searched,
            given=given,
            journal=Journal(target, seed, place),
            executor=running,
            workers=workers,
            report=report,
        )


def search(
    target: Target,
    plan: SearchBudget,
    effort: str,
    seed: int,
    *,
    families: Sequence[type[Adversary]] = (),
    given: Sequence[Adversary] = (),
    journal: Journal | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Report = lambda share, words: None,
    compiling: Progress = None,
) -> Verdict:
    """Search, select and confirm; see :func:`redteam`."""
    started = time.perf_counter()
    journal = journal or Journal(target, seed)
    searching, selecting, confirming = (
        Ratings(target, stage, seed, journal, executor, workers) for stage in Stage
    )
    builtin = builtin_attacks(target)
    experiments = [target.experiment(attack, 1, 0) for attack in builtin]
    compile_experiments(experiments, executor, compiling)

    def report_exploring(share: float, words: str) -> None:
        report(share * plan.searching / plan.total, words)

    searched = families or families_for(target)
    explore(searching, plan, searched, seed, given, report_exploring)
    winner, rival = _select(searching, selecting, plan, builtin)
    # From here on both attacks are frozen: whatever they achieve below are their figures.
    report(1.0 - 2 * plan.confirming / plan.total, f"confirming {winner.tag()}")
    confirming.rate([winner, rival], plan.confirming)
    if confirming.value(rival) > confirming.value(winner):
        winner = rival  # the worst found is never below a figure that stands beside it
    return Verdict(
        target=target,
        attack=winner,
        search=SearchRecord(
            effort=effort,
            seed=seed,
            families=tuple(family.identifier() for family in families),
            attacks=tuple(attack.to_builtins() for attack in given),
            candidates=len(searching.attacks()),
            replications=searching.played + selecting.played + confirming.played,
            searched=searching.value(winner),
            selected=selecting.value(winner),
            seconds=time.perf_counter() - started,
        ),
        held_out=held_out(confirming, winner),
        builtin=rival,
        builtin_held_out=held_out(confirming, rival),
    )


def _select(
    searching: Ratings, selecting: Ratings, plan: SearchBudget, builtin: Sequence[Adversary]
) -> tuple[Adversary, Adversary]:
    """Return the worst attack found and the worst built-in one, after more replications of both."""
    scores = Scores(searching)
    rated = searching.attacks()
    rivals = scores.best(_BUILTIN_FINALISTS, [attack for attack in builtin if attack in rated])
    # Distinct in their order: a set's order depends on hashes, and the verdict must not.
    finalists = list(dict.fromkeys([*scores.best(plan.finalists), *rivals]))
    selecting.rate(finalists, plan.selecting)

    def chosen_by(attack: Adversary) -> float:
        # On new seeds alone: what was seen while searching is what made it a finalist.
        return searching.target.cautious_value(selecting.sample(attack))

    return max(finalists, key=chosen_by), max(rivals, key=chosen_by)


def _family(given: type[Adversary] | str) -> type[Adversary]:
    """Return a class of attacks that can be searched."""
    found = ADVERSARIES.find(given) if isinstance(given, str) else given
    if not isinstance(found, type) or not issubclass(found, Adversary):
        raise InvalidParameter(f"families must be classes of attacks; got {given!r:.100}.")
    if not space_of(found):
        raise InvalidParameter(
            f"families must have parameters with limits or choices; {found.tag()} has none to "
            "search."
        )
    try:
        found()
    except TypeError as error:
        raise InvalidParameter(
            f"families must have a default for every parameter; {found.tag()}: {error}."
        ) from None
    return found
