"""Regret up to a trillion rounds, beyond what simulation round by round can reach.

Races leap over rounds that cannot matter, so that their regret can be plotted against ``ln T`` up
to 10^12 rounds and against ``C`` up to a million, together with the theorem's bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.statistics import mean_interval, slope_of_growth
from armrace.theory import gaps_of
from armrace.verification.checks import Claim, Judgement, describe_means, rarely, slope_at_most
from armrace.verification.guarantees import DELTA, Subject
from armrace.verification.regrets import failure_measure
from armrace.verification.runs import Runs

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


class Series(NamedTuple):
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


def asymptotic_series(subject: Subject, runs: int, seed: int) -> Iterator[Series]:
    """Make the series of a race along ``T``, and along ``C`` as far as its guarantee reaches.

    Each point has its own seed, so that the runs of different points are independent.
    """
    quiet = [
        _experiment(subject, "none", 0.0, horizon, runs, seed + point)
        for point, horizon in enumerate(HORIZONS)
    ]
    yield Series(subject, "T", tuple(map(float, HORIZONS)), tuple(quiet))
    covered = tuple(c for c in CORRUPTIONS if not subject.bound(_GAPS, LONGEST, c).is_void)
    if subject.guarantee.robust and len(covered) > 1:
        attacked = [
            _experiment(subject, ATTACK, corruption, LONGEST, runs, seed + point)
            for point, corruption in enumerate(covered)
        ]
        yield Series(subject, "C", covered, tuple(attacked))


def asymptotic_claims(series: Series) -> Iterator[Claim]:
    """Claim that the regret stays below its bound everywhere, and grows no faster."""
    yield _below_bound(series)
    yield _power_of_logarithm(series) if series.axis == "T" else _linear_in_corruption(series)


def _experiment(
    subject: Subject, attack: str, corruption: float, horizon: int, runs: int, seed: int
) -> Experiment:
    return make_experiment(
        policy=subject.facing(corruption),
        environment=list(MEANS),
        adversary=attack,
        budget=corruption,
        horizon=horizon,
        replications=runs,
        seed=seed,
    )


def _setting(series: Series) -> str:
    means = describe_means(MEANS)
    listed = f"{count(series.points[0])} to {count(series.points[-1])}"
    if series.axis == "T":
        return f"{means}; no attack; T = {listed}"
    return f"{means}; {ATTACK} with C = {listed}; T = {count(LONGEST)}"


def _below_bound(series: Series) -> Claim:
    bounds = np.array(series.bounds())
    failure = series.subject.regret_failure

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        return rarely(np.asarray(_regrets(runs) > bounds).ravel(), failure, level)

    return Claim(
        "up to a trillion rounds the regret is below the theorem's bound",
        series.subject.label,
        _setting(series),
        failure_measure(series.subject),
        series.experiments,
        judge,
        series.subject.guarantee.theorem,
    )


def _power_of_logarithm(series: Series) -> Claim:
    """In units of the power of ``ln T`` that the theorem has: one for each kind of logarithm."""
    layered = series.experiments[0].policy.layer_count(len(MEANS), LONGEST) > 1
    power = 2 if layered else 1
    units = [math.log(point) ** power for point in series.points]
    bounds = series.bounds()
    limit = (bounds[-1] - bounds[0]) / (units[-1] - units[0])

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        return slope_at_most(units, _regrets(runs), limit, level)

    unit = "ln T squared" if layered else "ln T"
    return Claim(
        f"up to a trillion rounds the regret grows like {unit}, no faster than its bound",
        series.subject.label,
        _setting(series),
        f"slope of the mean pseudo-regret per unit of {unit}, at most the bound's",
        series.experiments,
        judge,
        series.subject.guarantee.theorem,
    )


def _linear_in_corruption(series: Series) -> Claim:
    """Claim linear growth in C by the slope.

    A fitted power would exceed 1 for a race that is fooled only from some C on.
    """
    points, bounds = list(series.points), series.bounds()
    limit = (bounds[-1] - bounds[0]) / (points[-1] - points[0])

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        return slope_at_most(points, _regrets(runs), limit, level)

    return Claim(
        "up to a million the regret grows linearly in C, no faster than its bound",
        series.subject.label,
        _setting(series),
        "slope of the mean pseudo-regret per unit of C, at most the bound's",
        series.experiments,
        judge,
        series.subject.guarantee.theorem,
    )


def _regrets(runs: Sequence[Runs]) -> npt.NDArray[np.float64]:
    """Rows are replications, columns are points; at least 1, for logarithms."""
    return np.asarray(np.maximum(np.array([each.pseudo_regret for each in runs]).T, 1.0))


def draw_up(series: Series, played: Mapping[Experiment, Runs]) -> Curve:
    """Make the curve of a series that was played."""
    regrets = _regrets([played[experiment] for experiment in series.experiments])
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
