"""Checks of the martingales in the proofs, on rewards and layers of the running race.

Failures are so rare that counting them shows little: a race whose layers meet 50% more corruption
than they should still stays within its allowance in nearly every run. The exponential martingales
of the proofs have a mean of exactly 1 from any round on, and a few thousand short windows at random
places reveal a deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.statistics.bounded_means import betting_interval
from armrace.verification.checks import Claim, Judgement, describe_means
from armrace.verification.forms import Form
from armrace.verification.guarantees import Subject
from armrace.verification.rules import Rule
from armrace.verification.runs import Met, Runs, examine_window
from armrace.verification.spending import log_beta

Floats = npt.NDArray[np.float64]

_CORRUPTED_ROUNDS = 64
_RATE = 0.5
"""The exponent: small, so that the martingale has a small variance and a few per cent show."""
_REWARDED_ROUNDS = 32
_MEAN = 0.5
_TOP = 20.0
"""Martingales are capped here, which can only lower their means."""
_MEASURE = f"mean of the martingale, capped at {_TOP:g}, at most 1"


def martingale_claims(subject: Subject, form: Form, seed: int) -> Iterator[Claim]:
    """Claim that the martingales of the corruption met and of the clean rewards have mean 1."""
    if subject.guarantee.subsampled:
        yield _corruption_claim(subject, form, seed)
    yield _reward_claim(subject, form, seed)


def _corruption_claim(subject: Subject, form: Form, seed: int) -> Claim:
    """Claim mean 1 where every round is corrupted by 1, so a layer meets its number of rounds."""
    budget = float(_CORRUPTED_ROUNDS)
    experiment = _experiment(subject, (1.0, 0.0), "swap-best", budget, form, seed)
    rule = _rule(subject, experiment)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        met = _windows(experiment, _CORRUPTED_ROUNDS)
        forged = np.abs(met.sums - met.pulls * np.array([1.0, 0.0])).sum(axis=2)
        most = np.maximum(forged, met.corruption)
        return _worst(corruption_martingale(rule, most, _CORRUPTED_ROUNDS, _RATE), level)

    return Claim(
        "the corruption that a layer meets grows no faster than its share allows",
        subject.label,
        f"means 1, 0; both swapped in C = {_CORRUPTED_ROUNDS} rounds, {_place(form)}; every "
        f"layer's exp(Z/2) / (1 + q (sqrt(e) - 1))^C",
        _MEASURE,
        (),
        judge,
        subject.guarantee.thinning,
    )


def corruption_martingale(rule: Rule, met: Floats, corrupted: int, rate: float) -> Floats:
    """``exp(rate Z) / (1 + q (e^rate - 1))^C`` of each layer; a row for each run.

    ``met`` is the corruption that each layer met by itself in ``corrupted`` rounds with a
    corruption of 1. The mean is exactly 1 if each layer gets its share of the rounds and nothing
    else.
    """
    together = np.cumsum(met[:, ::-1], axis=1)[:, ::-1] if rule.pooled else met
    growth = np.log1p(rule.used_share * math.expm1(rate))
    return np.asarray(np.exp(rate * together - corrupted * growth))


def _reward_claim(subject: Subject, form: Form, seed: int) -> Claim:
    experiment = _experiment(subject, (_MEAN, _MEAN), "none", 0.0, form, seed)
    rule = _rule(subject, experiment)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        met = _windows(experiment, _REWARDED_ROUNDS)
        return _worst(reward_martingale(rule, met, _MEAN).mean(axis=2), level)

    name = {"kl-jeffreys": "Jeffreys' mixture", "kl-mixture": "the uniform mixture"}
    return Claim(
        "clean rewards of a layer are independent draws in the order of play",
        subject.label,
        f"{describe_means([_MEAN, _MEAN])}; no attack; {_REWARDED_ROUNDS} rounds, {_place(form)}; "
        f"{name.get(rule.kind, 'an exponential')} of every layer's rewards in them",
        _MEASURE,
        (),
        judge,
        "Fact 1",
    )


def reward_martingale(rule: Rule, met: Met, mean: float) -> Floats:
    """The martingale behind the intervals of each layer and arm, on rewards of 0 and 1.

    For mixtures, the mixture itself. Otherwise ``exp(rate (S - n mean))`` divided by its exact
    mean for Bernoulli rewards, of which Hoeffding's ``exp(rate^2 n/8)`` is an upper bound.
    """
    pulls, sums = met.pulls, met.sums
    if rule.pooled:
        pulls, sums = (np.cumsum(x[:, ::-1], axis=1)[:, ::-1] for x in (pulls, sums))
    if rule.kind in ("kl-jeffreys", "kl-mixture"):
        prior = 0.5 if rule.kind == "kl-jeffreys" else 1.0
        normal = 2 * math.lgamma(prior) - math.lgamma(2 * prior)
        mixed = log_beta(sums + prior, pulls - sums + prior) - normal
        truth = sums * math.log(mean) + (pulls - sums) * math.log1p(-mean)
        return np.asarray(np.exp(mixed - truth))
    return np.asarray(np.exp(sums * _RATE - pulls * math.log1p(mean * math.expm1(_RATE))))


def _worst(values: Floats, level: float) -> Judgement:
    """Judge the layer whose mean is most clearly too large, at a level for all layers jointly."""
    capped = np.minimum(values, _TOP)
    layers = capped.shape[1]
    intervals = [
        betting_interval(capped[:, layer], _TOP, level / layers) for layer in range(layers)
    ]
    layer = int(np.argmax([interval.low for interval in intervals]))
    over = int((capped[:, layer] > 1).sum())
    return Judgement(len(values), over, intervals[layer], 1.0, intervals[layer].low <= 1)


def _windows(experiment: Experiment, rounds: int) -> Met:
    """Play a window of each run, at places that are spread over all sizes up to the horizon."""
    places = np.random.default_rng(experiment.seed).random(experiment.replications)
    before = ((experiment.horizon - rounds + 1) ** places - 1).astype(int).tolist()
    met = [examine_window(experiment, run, each, rounds) for run, each in enumerate(before)]
    return Met(*(np.array(column) for column in zip(*met, strict=True)))


def _place(form: Form) -> str:
    return f"after a random number of others up to T = {count(form.path_rounds)}"


def _experiment(
    subject: Subject,
    means: Sequence[float],
    attack: str,
    budget: float,
    form: Form,
    seed: int,
) -> Experiment:
    return make_experiment(
        policy=subject.facing(8.0),
        environment=list(means),
        adversary=attack,
        budget=budget,
        horizon=form.path_rounds,
        replications=form.martingale_runs,
        seed=seed,
    )


def _rule(subject: Subject, experiment: Experiment) -> Rule:
    policy: Any = experiment.policy
    return subject.guarantee.rule(policy, 2, experiment.horizon)
