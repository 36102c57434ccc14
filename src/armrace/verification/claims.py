"""Claims, the outcomes of checking them, and the sizes of the experiments.

``verify`` checks many claims. Each confidence interval is computed at the same small level, the
error probability of the whole divided by the number of claims (Bonferroni), so that the probability
that *any* true claim is called refuted is at most that error probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.policies import Policy
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.statistics import Interval, clopper_pearson, mean_interval, slope_of_growth
from armrace.verification.guarantees import Subject
from armrace.verification.runs import Runs

Floats = npt.NDArray[np.float64]


def describe_means(means: Iterable[float]) -> str:
    """Return the means of the arms as part of a setting.

    >>> describe_means([0.5, 0.25])
    'means 0.5, 0.25'
    """
    return f"means {', '.join(map(count, means))}"


class Judgement(NamedTuple):
    """The outcome of the runs for one claim."""

    runs: int
    failures: int
    interval: Interval
    """A confidence interval of the quantity that is measured; a point where it is known exactly."""
    limit: float
    """The limit with which the interval is compared."""
    holds: bool


Judge = Callable[[Sequence[Runs], float], Judgement]
"""From the runs of each experiment and the level of the interval, whether a claim holds."""


@dataclass(frozen=True)
class Claim:
    """A statement, the experiments that may refute it, and the function that judges them."""

    claim: str
    policy: str
    setting: str
    measure: str
    """The quantity that the interval estimates, and how it must relate to the limit."""
    experiments: tuple[Experiment, ...]
    """What must be played to judge it; nothing where the judge plays by itself."""
    judge: Judge
    theorem: str
    """The theorem or lemma that it checks."""


class Check(msgspec.Struct, frozen=True):
    """A row of the table: a claim that was checked."""

    claim: str
    policy: str
    setting: str
    measure: str
    runs: int
    failures: int
    interval: tuple[float, float]
    limit: float
    verdict: Literal["holds", "fails"]
    theorem: str
    seed: int
    version: str
    """The version of the library that checked it."""
    form: Literal["quick", "full"]


def rarely(failed: npt.NDArray[np.bool_], limit: float, level: float) -> Judgement:
    """Judge whether something fails with probability at most ``limit`` (exact binomial test)."""
    failures = int(failed.sum())
    interval = clopper_pearson(failures, failed.size, level)
    return Judgement(failed.size, failures, interval, limit, interval.low <= limit)


def never(failed: npt.NDArray[np.bool_], level: float) -> Judgement:
    """Judge whether something never fails, for any random draws."""
    return rarely(failed, 0.0, level)


def mean_at_least(sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether a mean is at least ``limit``; runs below it are counted as failures."""
    interval = Interval(*mean_interval(sample, level))
    failures = int((sample < limit).sum())
    return Judgement(sample.size, failures, interval, limit, interval.high >= limit)


def slope_at_most(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether a mean grows by at most ``limit`` per unit; steeper runs count as failures."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope > limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low <= limit)


def slope_above(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether the whole interval of a slope lies above ``limit`` per unit."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope <= limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low > limit)


def _count(points: Sequence[float], sample: Floats, wrong: Callable[[float], bool]) -> int:
    return sum(wrong(slope_of_growth(points, row[None, :]).value) for row in sample)


class Preset(NamedTuple):
    """Sizes of the experiments of each family."""

    runs: int
    """Runs of the lemmas and of the bounds on regret."""
    horizon: int
    corruption: float
    """The corruption spent with large gaps, where the bounds on regret are not vacuous."""
    close: tuple[float, int]
    """The corruption spent with small gaps, where the best arm could be deleted, and the rounds."""
    sampling_runs: int
    """Runs of the sub-sampling lemma and of shares and turns, which are short."""
    growth_runs: int
    growth_horizon: int
    switch_rounds: tuple[int, ...]
    """The number of rounds after which the adversary of the lower bound stops."""
    asymptotic_runs: int
    computed_runs: int
    """Runs whose intervals are read off at their end."""
    martingale_runs: int
    """Windows of the martingales, which are very short."""
    replayed_runs: int
    """Runs that are played a second time by a second implementation."""
    path_rounds: int
    """The horizon of these runs, and of all that looks at single rounds."""
    windows: int
    """Windows, at random places up to that horizon, in which costly steps are looked at."""
    searched_attacks: int
    """Attacks of the red team's library under which leaders are checked."""

    def of_guards(self) -> Preset:
        """The form in which guards are checked: fewer and shorter runs, as each round costs more.

        The horizon must be long enough for the guard's fastest layers to delete an arm.
        """
        return self._replace(
            runs=self.runs // 2,
            horizon=2 * self.horizon // 5,
            close=(self.close[0], self.close[1] // 2),
            sampling_runs=self.sampling_runs // 2,
        )

    def of_leaders(self) -> Preset:
        """The form in which leaders are checked: not longer than needed, as they cannot leap.

        At these lengths their bounds are far below what all rounds can cost.
        """
        return self._replace(
            runs=min(self.runs, 80),
            horizon=min(self.horizon, 200_000),
            martingale_runs=min(self.martingale_runs, 2_000),
        )


QUICK = Preset(
    runs=40,
    horizon=100_000,
    corruption=8.0,
    close=(500.0, 20_000),
    sampling_runs=200,
    growth_runs=16,
    growth_horizon=1_000_000,
    switch_rounds=(20_000, 40_000, 80_000),
    asymptotic_runs=4,
    computed_runs=20,
    martingale_runs=600,
    replayed_runs=1,
    path_rounds=32_768,
    windows=4,
    searched_attacks=2,
)
FULL = Preset(
    runs=150,
    horizon=1_000_000,
    corruption=64.0,
    close=(2_000.0, 100_000),
    sampling_runs=2_000,
    growth_runs=40,
    growth_horizon=2_000_000,
    switch_rounds=(20_000, 40_000, 80_000, 160_000, 320_000),
    asymptotic_runs=20,
    computed_runs=100,
    martingale_runs=4_000,
    replayed_runs=4,
    path_rounds=131_072,
    windows=16,
    searched_attacks=4,
)


def windows(rounds: int, number: int, length: int, seed: int) -> list[range]:
    """Return windows at random places, one in each of ``number`` equal parts, and one at the end.

    >>> windows(1_000, 2, 10, seed=0)
    [range(315, 325), range(628, 638), range(990, 1000)]
    """
    length = min(length, rounds // (number + 1))
    places = (np.arange(number) + np.random.default_rng(seed).random(number)) / number
    starts = [*(places * (rounds - length)).astype(int).tolist(), rounds - length]
    return [range(start, start + length) for start in starts]


ATTACKS: tuple[str | Mapping[str, Any], ...] = (
    "none",
    "zero-best",
    "zero-best-when-likely",
    "swap-best",
    {"name": "aae-opening", "boost": True},
    "adaptive-constant",
)
"""The attacks under which lemmas are checked; three of them read the learner's distribution."""


class Configuration(NamedTuple):
    """One race under one attack."""

    subject: Subject
    policy: Policy
    experiment: Experiment
    setting: str

    def claim(self, claim: str, more: str, measure: str, judge: Judge, theorem: str) -> Claim:
        """Make a claim about its runs; ``more`` is added to its setting."""
        setting = f"{self.setting}; delta = {self.subject.delta:g}{more}"
        label, experiments = self.subject.label, (self.experiment,)
        return Claim(claim, label, setting, measure, experiments, judge, theorem)


def cells(
    subject: Subject,
    means: Sequence[float],
    attacks: Sequence[str | Mapping[str, Any]],
    corruption: float,
    horizon: int,
    runs: int,
    seed: int,
) -> Iterator[Configuration]:
    """Return a cell for each attack against which the race has a guarantee."""
    for attack in attacks:
        if attack == "none" or subject.guarantee.robust:
            experiment = experiment_under(subject, means, attack, corruption, horizon, runs, seed)
            yield Configuration(subject, experiment.policy, experiment, describe(experiment))


def experiment_under(
    subject: Subject,
    means: Sequence[float],
    attack: str | Mapping[str, Any],
    corruption: float,
    horizon: int,
    runs: int,
    seed: int,
) -> Experiment:
    """Make an experiment of a race, which is told the corruption if it takes a bound on it."""
    budget = 0.0 if attack == "none" else corruption
    return experiment_on(subject.facing(corruption), means, attack, budget, horizon, runs, seed)


def experiment_on(
    policy: Policy,
    means: Sequence[float],
    attack: Any,
    budget: float,
    horizon: int,
    runs: int,
    seed: int,
) -> Experiment:
    """Make an experiment on Bernoulli arms."""
    return make_experiment(
        policy=policy,
        environment=list(means),
        adversary=attack,
        budget=budget,
        horizon=horizon,
        replications=runs,
        seed=seed,
    )


def describe(experiment: Experiment) -> str:
    """Arms, attack and length in a line."""
    told = getattr(experiment.policy, "corruption", None)
    parts = [
        describe_means(experiment.environment.mean_rewards(1)),
        "no attack"
        if experiment.budget == 0
        else f"{experiment.adversary.tag()} with C = {count(experiment.budget)}",
        f"T = {count(experiment.horizon)}",
    ]
    return "; ".join([*parts, f"told C = {count(told)}"] if told is not None else parts)
