"""The theorems: regret below its bound, and its growth with the corruption and the horizon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from armrace.formatting import count, figure
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.theory import gaps_of
from armrace.verification.cells import ATTACKS, Cell, cells, describe
from armrace.verification.checks import Claim, Judgement, describe_means, rarely, slope_at_most
from armrace.verification.forms import Form
from armrace.verification.guarantees import Subject
from armrace.verification.lemmas import FAR
from armrace.verification.runs import Runs

_GAPS = gaps_of(FAR)
_GROWTH_ATTACKS = ("swap-best", "zero-best-when-likely")
_HORIZONS = (10_000, 40_000, 160_000, 640_000)
_OCTAVES = (1 / 8, 1 / 4, 1 / 2, 1)
_SMALL = 1 / 8
"""The bound's slope is taken where the horizon does not cut the bound short."""
_ROUNDS_A_UNIT = 1_250
"""Rounds for each unit of corruption: enough for a fooled race to recover."""


def regret_claims(subject: Subject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims of the theorems for one race.

    A race with a parameter that bounds the corruption has no guarantee beyond that bound, and
    nothing is claimed there.
    """
    for cell in cells(subject, FAR, ATTACKS, form.corruption, form.horizon, form.runs, seed):
        if not subject.bound(_GAPS, form.horizon, cell.experiment.budget).is_void:
            yield below_bound(cell)
    largest = form.growth_horizon / _ROUNDS_A_UNIT
    covered = not subject.bound(_GAPS, form.growth_horizon, largest).is_void
    if subject.guarantee.robust and covered:
        for attack in _GROWTH_ATTACKS:
            yield _linear(subject, attack, form, seed)
    yield _logarithmic(subject, form, seed)


def below_bound(cell: Cell) -> Claim:
    """Claim that the regret is below its bound for the corruption spent in each run."""
    failure, horizon = cell.subject.regret_failure, cell.experiment.horizon

    def bound(spent: float) -> float:
        return cell.subject.guarantee.regret(cell.policy, _GAPS, horizon, spent).regret

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        bounds = {spent: bound(float(spent)) for spent in np.unique(runs[0].corruption)}
        over = [r > bounds[c] for r, c in zip(runs[0].regret, runs[0].corruption, strict=True)]
        return rarely(np.array(over), failure, level)

    most = bound(float(cell.experiment.budget))
    setting = (
        f"{cell.setting}; delta = {cell.subject.delta:g}; "
        f"the bound is {figure(most)} of {figure(horizon * _GAPS[0])}"
    )
    return Claim(
        "the regret is below the theorem's bound",
        cell.subject.label,
        setting,
        failure_measure(cell.subject),
        (cell.experiment,),
        judge,
        cell.subject.guarantee.theorem,
    )


def failure_measure(subject: Subject) -> str:
    """Describe the limit, which is 3 delta/2 for sharper intervals of the multi-layer race."""
    limit = "delta" if subject.guarantee.regret_failure == 1 else "3 delta/2"
    return f"probability of failure, at most {limit}"


def _linear(subject: Subject, attack: str, form: Form, seed: int) -> Claim:
    """Claim that regret grows no faster in C than its bound, over three doublings of C."""
    largest = form.growth_horizon / _ROUNDS_A_UNIT
    points = [largest * octave for octave in _OCTAVES]
    experiments = [
        _experiment(subject, attack, point, form.growth_horizon, form.growth_runs, seed)
        for point in points
    ]
    bounds = [
        subject.guarantee.regret(
            subject.facing(point), _GAPS, form.growth_horizon, point
        ).pseudo_regret
        for point in (_SMALL * points[0], _SMALL * points[-1])
    ]
    limit = (bounds[1] - bounds[0]) / (_SMALL * (points[-1] - points[0]))

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        sample = np.array([each.pseudo_regret for each in runs]).T
        return slope_at_most(points, sample, limit, level)

    listed = ", ".join(count(point) for point in points)
    return Claim(
        "the regret grows linearly in C, no faster than its bound",
        subject.label,
        f"{describe_means(FAR)}; {attack} with C = {listed}; T = {count(form.growth_horizon)}",
        "slope of the mean pseudo-regret per unit of C, at most the bound's",
        tuple(experiments),
        judge,
        subject.guarantee.theorem,
    )


def _logarithmic(subject: Subject, form: Form, seed: int) -> Claim:
    """Claim that regret grows no faster in T than its bound, over six doublings of T."""
    told = 8.0
    experiments = [
        _experiment(subject, "none", told, horizon, form.growth_runs, seed) for horizon in _HORIZONS
    ]
    policy = subject.facing(told)
    bounds = [subject.guarantee.regret(policy, _GAPS, h, 0.0).pseudo_regret for h in _HORIZONS]
    points = [math.log(horizon) for horizon in _HORIZONS]
    limit = (bounds[-1] - bounds[0]) / (points[-1] - points[0])

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        sample = np.array([each.pseudo_regret for each in runs]).T
        return slope_at_most(points, sample, limit, level)

    setting = describe(experiments[0]).replace(
        f"T = {count(_HORIZONS[0])}", f"T = {', '.join(map(count, _HORIZONS))}"
    )
    return Claim(
        "without corruption the regret grows like log T, no faster than its bound",
        subject.label,
        setting,
        "slope of the mean pseudo-regret per unit of ln T, at most the bound's",
        tuple(experiments),
        judge,
        subject.guarantee.theorem,
    )


def _experiment(
    subject: Subject, attack: str, corruption: float, horizon: int, runs: int, seed: int
) -> Experiment:
    return make_experiment(
        policy=subject.facing(corruption),
        environment=list(FAR),
        adversary=attack,
        budget=0.0 if attack == "none" else corruption,
        horizon=horizon,
        replications=runs,
        seed=seed,
    )
