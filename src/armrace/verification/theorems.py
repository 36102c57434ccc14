"""The lemmas and theorems about races: intervals, deletions, regret, and its growth.

Lemmas are about the layers that tolerate the corruption that was spent, and hold jointly with
probability ``1 - delta``. A run in which any such layer violates a lemma counts as a failure.

Races leap over rounds that cannot matter, so that their regret can also be plotted against ``ln T``
up to 10^12 rounds and against ``C`` up to a million, beyond what simulation round by round reaches.

The lower bound of Theorem 4 forces a certain regret with a certain probability; both depend on how
rarely the learner plays the arm that looks bad. Races that have deleted the arm hardly play it, and
the bound is substantial. UCB1 keeps playing it: the probability in the bound is then too small to
be observed, and its regret on the corrupted rewards does not grow with the switch. The same
argument does force regret on the clean means before the switch, and an adversary who sees UCB1's
decisions forces the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import LowerBoundSwitch
from armrace.formatting import count, figure
from armrace.policies import Policy, Ucb1
from armrace.simulation.experiment import Experiment
from armrace.statistics import mean_interval, slope_of_growth
from armrace.theory import (
    ForcedRegret,
    clean_switching_regret,
    gaps_of,
    hidden_rounds_regret,
    observed_corruption,
    switching_regret,
)
from armrace.verification.claims import (
    ATTACKS,
    Claim,
    Configuration,
    Judgement,
    Preset,
    cells,
    describe,
    describe_means,
    experiment_on,
    experiment_under,
    mean_at_least,
    rarely,
    slope_above,
    slope_at_most,
)
from armrace.verification.guarantees import DELTA, Subject
from armrace.verification.runs import Books, Runs

FAR = (0.95, 0.05)
CLOSE = (0.55, 0.5, 0.45)
CERTAIN = (1.0, 0.0)
"""Arms whose rewards are known beforehand, so that books show exactly what was forged."""

_SUBSAMPLED = 64.0
_SUBSAMPLED_HORIZON = 4096
_MEASURE = "probability of failure, at most delta"
_ROUNDING = 1e-9

Bools = npt.NDArray[np.bool_]
Failed = Callable[[Configuration, Runs, Books, Bools], Bools]
"""From a cell, its runs, their books and the tolerant layers, which runs fail."""


def lemma_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """All lemmas for one race."""
    far = list(cells(subject, FAR, ATTACKS, preset.corruption, preset.horizon, preset.runs, seed))
    close = list(cells(subject, CLOSE, ATTACKS, *preset.close, preset.runs, seed))
    names = subject.guarantee
    for cell in close:
        yield _claim(
            "every interval of a tolerant layer holds its arm's mean", cell, _missed, names.survival
        )
    for cell in [*close, *far]:
        yield _claim("no tolerant layer deletes the best arm", cell, _best_deleted, names.survival)
    for cell in far:
        yield _claim(
            "a tolerant layer plays a bad arm at most N(a) times", cell, _overplayed, names.deletion
        )
    if subject.guarantee.subsampled:
        attacks = [attack for attack in ATTACKS if attack != "none"]
        for cell in cells(
            subject, CERTAIN, attacks, _SUBSAMPLED, _SUBSAMPLED_HORIZON, preset.sampling_runs, seed
        ):
            if not subject.guarantee.has_allowances:
                claim = "a slow layer with a share of 1/C at most meets at most ln(1/delta) + 3"
                yield _claim(claim, cell, _overfed, names.thinning)
            else:
                claim = "a tolerant layer and all slower meet its allowance"
                yield _claim(claim, cell, _overspent, names.thinning)


def _claim(text: str, cell: Configuration, failed: Failed, theorem: str) -> Claim:
    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        return rarely(_failures(cell, runs[0], failed), cell.subject.delta, level)

    return cell.claim(text, "", _MEASURE, judge, theorem)


def _failures(cell: Configuration, runs: Runs, failed: Failed) -> Bools:
    books = runs.layers
    arms, horizon = books.active.shape[2], cell.experiment.horizon
    tolerant = cell.subject.tolerant(cell.policy, arms, horizon, runs.corruption)
    return failed(cell, runs, books, tolerant)


def _means(cell: Configuration) -> npt.NDArray[np.float64]:
    return cell.experiment.environment.mean_rewards(1)


def _missed(cell: Configuration, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which an interval missed its mean: at the end, or at any time if recorded."""
    means = _means(cell)
    outside = (means < books.lower - _ROUNDING) | (means > books.upper + _ROUNDING)
    failed = (outside & tolerant[:, :, None]).any(axis=(1, 2))
    if runs.missed.size:
        failed |= (runs.missed & tolerant).any(axis=1)
    return np.asarray(failed)


def _best_deleted(cell: Configuration, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a tolerant layer lost the best arm.

    Slower layers delete from all faster ones, but they are tolerant too, so they may not either.
    """
    best = int(np.argmax(_means(cell)))
    return np.asarray((~books.active[:, :, best] & tolerant).any(axis=1))


def _overplayed(cell: Configuration, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    means, horizon = _means(cell), cell.experiment.horizon
    over = np.zeros(books.pulls.shape, dtype=np.bool_)
    for arm, gap in enumerate(means.max() - means):
        if gap > 0:
            limits = cell.subject.guarantee.plays(cell.policy, gap, means.size, horizon)
            over[:, :, arm] = books.pulls[:, :, arm] > np.array(limits)
    return np.asarray((over & tolerant[:, :, None]).any(axis=(1, 2)))


def _met(cell: Configuration, runs: Runs, books: Books) -> npt.NDArray[np.float64]:
    forged = np.abs(books.sums - books.pulls * _means(cell)).sum(axis=2)
    return np.asarray(np.maximum(forged, runs.layer_corruption))


def _overspent(cell: Configuration, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a tolerant layer met more corruption than its allowance.

    A layer that also uses the rewards of slower ones meets the sum of what all of them meet.
    """
    arms, horizon = _means(cell).size, cell.experiment.horizon
    limits = cell.subject.guarantee.rule(cell.policy, arms, horizon).allowance
    together = np.cumsum(_met(cell, runs, books)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(((together > limits + _ROUNDING) & tolerant).any(axis=1))


def _overfed(cell: Configuration, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a layer met more than the sub-sampling lemma allows.

    The corruption is read from the ledger and from the layers' counts, which differ if a layer
    learns from rewards of other layers.

    The paper's lemma is about layers that get a share of at most ``1/C`` of the rounds; each has
    its part of delta.
    """
    met = _met(cell, runs, books)
    arms, horizon = books.active.shape[2], cell.experiment.horizon
    share = cell.subject.guarantee.rule(cell.policy, arms, horizon).share
    slow = tolerant & (share < 1) & (share * runs.corruption[:, None] <= 1 + _ROUNDING)
    count = max(1, int(slow.sum(axis=1).max()))
    delta = cell.subject.delta
    return np.asarray(((met > observed_corruption(delta / count) + _ROUNDING) & slow).any(axis=1))


_FAR_GAPS = gaps_of(FAR)
_GROWTH_ATTACKS = ("swap-best", "zero-best-when-likely")
_HORIZONS = (10_000, 40_000, 160_000, 640_000)
_OCTAVES = (1 / 8, 1 / 4, 1 / 2, 1)
_SMALL = 1 / 8
"""The bound's slope is taken where the horizon does not cut the bound short."""
_ROUNDS_A_UNIT = 1_250
"""Rounds for each unit of corruption: enough for a fooled race to recover."""


def regret_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims of the theorems for one race.

    A race with a parameter that bounds the corruption has no guarantee beyond that bound, and
    nothing is claimed there.
    """
    for cell in cells(subject, FAR, ATTACKS, preset.corruption, preset.horizon, preset.runs, seed):
        if not subject.bound(_FAR_GAPS, preset.horizon, cell.experiment.budget).is_void:
            yield below_bound(cell)
    largest = preset.growth_horizon / _ROUNDS_A_UNIT
    covered = not subject.bound(_FAR_GAPS, preset.growth_horizon, largest).is_void
    if subject.guarantee.robust and covered:
        for attack in _GROWTH_ATTACKS:
            yield _linear(subject, attack, preset, seed)
    yield _logarithmic(subject, preset, seed)


def below_bound(cell: Configuration) -> Claim:
    """Claim that the regret is below its bound for the corruption spent in each run."""
    failure, horizon = cell.subject.regret_failure, cell.experiment.horizon

    def bound(spent: float) -> float:
        return cell.subject.guarantee.regret(cell.policy, _FAR_GAPS, horizon, spent).regret

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        bounds = {spent: bound(float(spent)) for spent in np.unique(runs[0].corruption)}
        over = [r > bounds[c] for r, c in zip(runs[0].regret, runs[0].corruption, strict=True)]
        return rarely(np.array(over), failure, level)

    most = bound(float(cell.experiment.budget))
    claim, more = "the regret is below the theorem's bound", f"; the bound is {figure(most)}"
    more += f" of {figure(horizon * _FAR_GAPS[0])}"
    measure, theorem = failure_measure(cell.subject), cell.subject.guarantee.theorem
    return cell.claim(claim, more, measure, judge, theorem)


def failure_measure(subject: Subject) -> str:
    """Describe the limit, which is 3 delta/2 for sharper intervals of the multi-layer race."""
    limit = "delta" if subject.guarantee.regret_failure == 1 else "3 delta/2"
    return f"probability of failure, at most {limit}"


def _linear(subject: Subject, attack: str, preset: Preset, seed: int) -> Claim:
    """Claim that regret grows no faster in C than its bound, over three doublings of C."""
    largest = preset.growth_horizon / _ROUNDS_A_UNIT
    points = [largest * octave for octave in _OCTAVES]
    horizon, runs = preset.growth_horizon, preset.growth_runs
    experiments = [
        experiment_under(subject, FAR, attack, point, horizon, runs, seed) for point in points
    ]
    bounds = [
        subject.guarantee.regret(subject.facing(point), _FAR_GAPS, horizon, point).pseudo_regret
        / _SMALL
        for point in (_SMALL * points[0], _SMALL * points[-1])
    ]
    return _growth_claim(
        subject,
        "the regret grows linearly in C, no faster than its bound",
        f"{describe_means(FAR)}; {attack} with C = {', '.join(map(count, points))}; "
        f"T = {count(horizon)}",
        "C",
        points,
        bounds,
        experiments,
    )


def _logarithmic(subject: Subject, preset: Preset, seed: int) -> Claim:
    """Claim that regret grows no faster in T than its bound, over six doublings of T."""
    told = 8.0
    experiments = [
        experiment_under(subject, FAR, "none", told, horizon, preset.growth_runs, seed)
        for horizon in _HORIZONS
    ]
    policy = subject.facing(told)
    bounds = [subject.guarantee.regret(policy, _FAR_GAPS, h, 0.0).pseudo_regret for h in _HORIZONS]
    setting = describe(experiments[0]).replace(
        f"T = {count(_HORIZONS[0])}", f"T = {', '.join(map(count, _HORIZONS))}"
    )
    return _growth_claim(
        subject,
        "without corruption the regret grows like log T, no faster than its bound",
        setting,
        "ln T",
        [math.log(horizon) for horizon in _HORIZONS],
        bounds,
        experiments,
    )


def _growth_claim(
    subject: Subject,
    claim: str,
    setting: str,
    unit: str,
    points: Sequence[float],
    bounds: Sequence[float],
    experiments: Sequence[Experiment],
) -> Claim:
    """Claim a slope of at most that of the bound from its first to its last point.

    A fitted power would exceed 1 for a race that is fooled only from some C on.
    """
    limit = (bounds[-1] - bounds[0]) / (points[-1] - points[0])
    return Claim(
        claim,
        subject.label,
        setting,
        f"slope of the mean pseudo-regret per unit of {unit}, at most the bound's",
        tuple(experiments),
        lambda runs, level: slope_at_most(points, _regrets(runs), limit, level),
        subject.guarantee.theorem,
    )


def _regrets(runs: Sequence[Runs]) -> npt.NDArray[np.float64]:
    """Rows are replications, columns are points."""
    return np.array([each.pseudo_regret for each in runs]).T


RACES_THAT_LEAP: tuple[str | Mapping[str, Any], ...] = (
    "active-arm-elimination",
    "multi-layer-race",
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "kl-mixture", "pool": True},
    "sharp-race",
)
"""The races whose growth is shown unless others are asked for."""

MEANS = (0.7, 0.4)
HORIZONS = tuple(10**power for power in range(6, 13))
CORRUPTIONS = tuple(10.0**power for power in range(2, 7))
LONGEST = HORIZONS[-1]
ATTACK = "swap-best"
"""It spends its budget at once, so that leaping begins early."""

_GAPS = gaps_of(MEANS)


class GrowthSeries(NamedTuple):
    """The experiments of a race at the points of one axis."""

    subject: Subject
    axis: str
    points: tuple[float, ...]
    experiments: tuple[Experiment, ...]

    def bounds(self) -> list[float]:
        """Return the theorem's bound at each point."""
        return [
            self.subject.guarantee.regret(e.policy, _GAPS, e.horizon, e.budget).pseudo_regret
            for e in self.experiments
        ]


class Curve(msgspec.Struct, frozen=True):
    """Mean pseudo-regret of a race along an axis, and what the theorem allows."""

    policy: str
    axis: str
    """``T`` without corruption, or ``C`` at the longest horizon."""
    points: tuple[float, ...]
    means: tuple[float, ...]
    bounds: tuple[float, ...]
    exponent: tuple[float, float, float]
    """Fitted to a power of ``ln T`` or of ``C``: the value, and the ends of its interval."""
    exponent_of_bound: float
    intervals: tuple[tuple[float, float], ...]
    """The ends of the 95% interval of each mean."""
    runs: int
    """How many each mean is of."""


def asymptotic_series(subject: Subject, runs: int, seed: int) -> Iterator[GrowthSeries]:
    """Make the series of a race along ``T``, and along ``C`` as far as its guarantee reaches.

    Each point has its own seed, so that the runs of different points are independent.
    """
    quiet = [
        experiment_under(subject, MEANS, "none", 0.0, horizon, runs, seed + point)
        for point, horizon in enumerate(HORIZONS)
    ]
    yield GrowthSeries(subject, "T", tuple(map(float, HORIZONS)), tuple(quiet))
    covered = tuple(c for c in CORRUPTIONS if not subject.bound(_GAPS, LONGEST, c).is_void)
    if subject.guarantee.robust and len(covered) > 1:
        strong = [
            experiment_under(subject, MEANS, ATTACK, corruption, LONGEST, runs, seed + point)
            for point, corruption in enumerate(covered)
        ]
        yield GrowthSeries(subject, "C", covered, tuple(strong))


def asymptotic_claims(series: GrowthSeries) -> Iterator[Claim]:
    """Claim that the regret stays below its bound everywhere, and grows no faster.

    Along ``T`` it grows like the power of ``ln T`` that the theorem has: one for each kind of
    logarithm.
    """
    subject, points, bounds = series.subject, series.points, series.bounds()
    listed = f"{count(points[0])} to {count(points[-1])}"
    if series.axis == "T":
        is_layered = series.experiments[0].policy.layer_count(len(MEANS), LONGEST) > 1
        unit, power = ("ln T squared", 2) if is_layered else ("ln T", 1)
        claim = f"up to a trillion rounds the regret grows like {unit}, no faster than its bound"
        setting = f"{describe_means(MEANS)}; no attack; T = {listed}"
        points = tuple(math.log(point) ** power for point in points)
    else:
        unit = "C"
        claim = "up to a million the regret grows linearly in C, no faster than its bound"
        setting = f"{describe_means(MEANS)}; {ATTACK} with C = {listed}; T = {count(LONGEST)}"
    yield Claim(
        "up to a trillion rounds the regret is below the theorem's bound",
        subject.label,
        setting,
        failure_measure(subject),
        series.experiments,
        lambda runs, level: rarely(
            (_regrets(runs) > np.array(bounds)).ravel(), subject.regret_failure, level
        ),
        subject.guarantee.theorem,
    )
    yield _growth_claim(subject, claim, setting, unit, points, bounds, series.experiments)


def draw_up(series: GrowthSeries, played: Mapping[Experiment, Runs]) -> Curve:
    """Make the curve of a series that was played."""
    regrets = _regrets([played[experiment] for experiment in series.experiments])
    regrets = np.maximum(regrets, 1.0)  # logarithms are taken of them
    bounds = series.bounds()
    points = np.log(series.points)
    scale = np.log(points) if series.axis == "T" else points
    fit = slope_of_growth(scale, np.log(regrets))
    of_bound = slope_of_growth(scale, np.log(np.array([bounds])))
    return Curve(
        policy=series.subject.label,
        axis=series.axis,
        points=series.points,
        means=tuple(regrets.mean(axis=0).tolist()),
        bounds=tuple(bounds),
        exponent=(fit.value, fit.low, fit.high),
        exponent_of_bound=of_bound.value,
        intervals=tuple(mean_interval(column) for column in regrets.T),
        runs=len(regrets),
    )


_GAP = 0.4
_MEANS = (0.5 + _GAP, 0.5)
_SEARCH_RUNS = 20
_FEARED = 100.0
_HIDDEN_ROUNDS = 501
_UCB1_BUDGETS = (20.0, 40.0, 60.0, 80.0)
_UCB1_HORIZON = 100_000


def race_lower_bounds(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about the regret that the lower bounds force on a race."""
    policy = subject.facing(_FEARED)
    switches = [
        make_switch(policy, rounds, preset.growth_runs, seed) for rounds in preset.switch_rounds
    ]
    for rounds, experiment in zip(preset.switch_rounds, switches, strict=True):
        promise = _promise(experiment, rounds)
        if promise.probability > 0:
            yield _promised(subject.label, experiment, rounds, promise)
    yield _proportional(
        subject.label, "lower-bound-switch", preset.switch_rounds, switches, "T = 3C", "regret"
    )
    yield _hidden(subject.label, policy, preset, seed)


def ucb1_lower_bounds(preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about the regret that the lower bounds force on UCB1."""
    policy = Ucb1()
    switches = [
        make_switch(policy, rounds, preset.growth_runs, seed) for rounds in preset.switch_rounds
    ]
    for rounds, experiment in zip(preset.switch_rounds, switches, strict=True):
        yield _clean(policy, experiment, rounds)
    yield _proportional(
        policy.tag(),
        "lower-bound-switch",
        preset.switch_rounds,
        switches,
        "T = 3C",
        "pseudo_regret",
    )
    fooling = "zero-best-when-likely"
    fooled = [
        experiment_on(policy, _MEANS, fooling, budget, _UCB1_HORIZON, preset.growth_runs, seed)
        for budget in _UCB1_BUDGETS
    ]
    length = f"T = {count(_UCB1_HORIZON)}"
    yield _proportional(policy.tag(), fooling, _UCB1_BUDGETS, fooled, length, "regret")
    yield _hidden(policy.tag(), policy, preset, seed)


def make_switch(policy: Policy, rounds: int, runs: int, seed: int) -> Experiment:
    """Make the adversary of the lower bound, such that it stops after a third of the rounds.

    ``epsilon`` is chosen so that the first interval begins there, and the budget excludes others.
    """
    horizon = 3 * rounds + 3
    epsilon = math.log(rounds) / math.log(horizon)
    attack = LowerBoundSwitch(epsilon=epsilon, epsilon_prime=(1 + epsilon) / 2, runs=_SEARCH_RUNS)
    return experiment_on(policy, _MEANS, attack, rounds, horizon, runs, seed)


def _promise(experiment: Experiment, rounds: int) -> ForcedRegret:
    """Claim Theorem 4 with the plays that the adversary found by simulating the learner."""
    attack = experiment.adversary
    assert isinstance(attack, LowerBoundSwitch)
    (interval,) = attack.intervals(experiment.setting())
    return switching_regret(_GAP, rounds, experiment.horizon, interval.pulls)


def _promised(label: str, experiment: Experiment, rounds: int, promise: ForcedRegret) -> Claim:
    setting = (
        f"{_instance('lower-bound-switch')} after C = {count(rounds)} of T = 3C rounds; promised "
        f"is a regret of {figure(promise.regret)} with probability {promise.probability:.3f}"
    )
    return Claim(
        "the lower-bound adversary forces the regret that Theorem 4 promises",
        label,
        setting,
        "probability of less regret, at most 1 minus the promise",
        (experiment,),
        lambda runs, level: rarely(runs[0].regret < promise.regret, 1 - promise.probability, level),
        "Theorem 4",
    )


def _clean(policy: Policy, experiment: Experiment, rounds: int) -> Claim:
    """Claim regret before the switch, from UCB1's bound of 8 ln T/gap^2 + 1 + pi^2/3 bad plays."""
    plays = 8 * math.log(experiment.horizon) / _GAP**2 + 1 + math.pi**2 / 3
    promise = clean_switching_regret(_GAP, rounds, plays)
    setting = (
        f"{_instance('lower-bound-switch')} after C = {count(rounds)} of T = 3C rounds; promised "
        f"is gap (C - 8 ln T/gap^2 - 4.3) = {figure(promise)}"
    )
    return Claim(
        "the lower-bound adversary forces pseudo-regret of gap C less what is learned",
        policy.tag(),
        setting,
        "mean pseudo-regret, at least the promise",
        (experiment,),
        lambda runs, level: mean_at_least(runs[0].pseudo_regret, promise, level),
        "Theorem 4",
    )


def _proportional(
    label: str,
    attack: str,
    points: Sequence[float],
    experiments: Sequence[Experiment],
    length: str,
    measure: str,
) -> Claim:
    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        sample = np.array([getattr(each, measure) for each in runs]).T
        return slope_above(points, sample, 0.0, level)

    listed = ", ".join(count(point) for point in points)
    kind = measure.replace("_", "-")
    return Claim(
        "the lower-bound adversary forces regret that grows with C",
        label,
        f"{_instance(attack)}; C = {listed}; {length}; {kind}",
        f"slope of the mean {kind} per unit of C, above 0",
        tuple(experiments),
        judge,
        "Theorem 4",
    )


def _hidden(label: str, policy: Policy, preset: Preset, seed: int) -> Claim:
    """Claim that the two instances between which the coin chooses together cost exactly C."""
    rounds = _HIDDEN_ROUNDS
    experiments = tuple(
        experiment_on(policy, means, "clean-objective", rounds, rounds, preset.runs, seed)
        for means in ([1.0, 0.0], [0.0, 1.0])
    )
    expected = hidden_rounds_regret(rounds)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        first, second = (each.clean_regret for each in runs)
        return rarely((first + second) / 2 != expected, 0.0, level)

    return Claim(
        "hidden rounds force a clean regret of exactly C/2, whatever the learner does",
        label,
        f"means 1, 0 or 0, 1 by a coin; clean-objective with C = T = {count(rounds)}",
        "probability that the two cases do not average C/2, at most 0",
        experiments,
        judge,
        "Section 5 of the paper",
    )


def _instance(attack: str) -> str:
    return f"{describe_means(_MEANS)}; {attack}"
