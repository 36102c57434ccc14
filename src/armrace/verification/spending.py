"""How much of ``delta`` a race spends, and the martingales behind the events of its proof.

A theorem divides ``delta`` among events. A race that runs with smaller log terms or allowances than
prescribed spends more, but its regret hardly changes, so that regret does not reveal it. Therefore
the failure probability of each event is derived from the running state and compared with its part.

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
from armrace.simulation.experiment import Experiment
from armrace.statistics import Interval
from armrace.statistics.bounded_means import betting_interval
from armrace.theory import allowance_failure
from armrace.verification.claims import Claim, Judgement, Preset, describe_means, experiment_on
from armrace.verification.guarantees import AT_ALL_TIMES, PrescribedRace, Subject, used_share
from armrace.verification.runs import Books, Met, Runs, examine_window

Floats = npt.NDArray[np.float64]

ARMS, HORIZON, TOLD = 3, 4096, 8.0
_MEANS = (0.8, 0.5, 0.2)
_ROUNDING = 1 + 1e-6
_MEASURE = "failure probability spent, at most its part of delta"


def spending_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about what the intervals and allowances of a race spend of ``delta``."""
    policy, names = subject.facing(TOLD), subject.guarantee
    rule = subject.guarantee.rule(policy, ARMS, HORIZON)
    state = running_race(policy.start(ARMS, HORIZON))
    if state is None:
        return
    setting = f"K = {ARMS}; T = {count(HORIZON)}; delta = {_delta(policy):g}"
    setting += f"; told C = {TOLD:g}" if subject.told else ""
    yield _exact(
        "log terms spend no more than the intervals' part of delta",
        subject,
        setting,
        intervals_spend(rule.kind, state.rule.log_lower, state.rule.log_upper, ARMS, HORIZON),
        rule.intervals_part,
        names.survival,
    )
    used = used_share(np.asarray(state.share), bool(state.pooled[0]))
    yield _exact(
        "allowances spend no more than their part of delta",
        subject,
        setting,
        allowances_spend(state.rule.allowance, used, rule.tolerated),
        rule.allowances_part,
        names.thinning if names.subsampled else names.survival,
    )
    if rule.kind != "bernstein":  # Bernstein's tail bound has no exact inverse
        yield _computed(subject, policy, rule, preset, seed)


def running_race(state: Any) -> Any:
    """The race in a policy's state, or None where it keeps another kind of state."""
    race = getattr(state, "race", state)
    return race if hasattr(race, "rule") else None


def intervals_spend(
    kind: str, log_lower: Floats, log_upper: Floats, arms: int, horizon: int
) -> float:
    """The probability that some interval misses, by the log terms of all layers.

    Intervals that hold at all times are two-sided at the level of the lower ends. Only where
    upper ends have a smaller log term do they need an event of their own, for the best arm.

    >>> terms = np.array([math.log(100.0)])
    >>> f"{intervals_spend('kl-jeffreys', terms, terms, arms=3, horizon=10):.2f}"
    '0.03'
    >>> f"{intervals_spend('hoeffding', terms, terms, arms=3, horizon=10):.2f}"
    '0.60'
    """
    if kind in AT_ALL_TIMES:
        return _two_sided(np.exp(-log_lower), np.exp(-log_upper), arms)
    factor = {"paper": 2.0, "hoeffding": 1.0, "bernstein": 1.0, "kl": 1.0}[kind]
    ends = np.exp(-factor * log_lower) + np.exp(-factor * log_upper)
    shared = 2 if kind == "bernstein" else 1  # Hoeffding's event and that of Maurer and Pontil
    return float(shared * arms * horizon * ends.sum())


def _two_sided(lower: Floats, upper: Floats, arms: int) -> float:
    return float((arms * lower + np.where(upper > lower, upper, 0.0)).sum())


def allowances_spend(allowance: Floats, used: Floats, tolerated: Floats) -> float:
    """The probability that some layer meets more than its allowance while it is tolerant.

    No layer meets more corruption than there is, so one whose allowance is what it tolerates, or
    more, spends nothing.

    >>> allowances_spend(np.array([4.0]), np.array([1.0]), np.array([4.0]))
    0.0
    >>> f"{allowances_spend(np.array([5.744522]), np.array([0.5]), np.array([2.0])):.4f}"
    '0.0000'
    >>> f"{allowances_spend(np.array([5.744522]), np.array([0.125]), np.array([8.0])):.4f}"
    '0.0050'
    """
    spent = 0.0
    for room, share, corruption in zip(allowance, used, tolerated, strict=True):
        if room < corruption:
            spent += allowance_failure(float(share * corruption), float(room))
    return spent


def _exact(
    claim: str, subject: Subject, setting: str, spent: float, part: float, theorem: str
) -> Claim:
    """A claim about a number that is known exactly."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        holds = spent <= part * _ROUNDING
        return Judgement(1, int(not holds), Interval(spent, spent), part, holds)

    return Claim(claim, subject.label, setting, _MEASURE, (), judge, theorem)


def _computed(
    subject: Subject, policy: Any, rule: PrescribedRace, preset: Preset, seed: int
) -> Claim:
    experiment = experiment_on(policy, _MEANS, "none", 0.0, HORIZON, preset.computed_runs, seed)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        books = runs[0].layers
        each = np.array(
            [
                computed_intervals_spend(rule, Books(*(field[run] for field in books)), HORIZON)
                for run in range(preset.computed_runs)
            ]
        )
        over = each > rule.intervals_part * _ROUNDING
        most = Interval(float(each.max()), float(each.max()))
        return Judgement(len(each), int(over.sum()), most, rule.intervals_part, not over.any())

    return Claim(
        "intervals as computed spend no more than their part of delta",
        subject.label,
        f"{describe_means(_MEANS)}; no attack; T = {count(HORIZON)}; delta = {_delta(policy):g}",
        _MEASURE,
        (experiment,),
        judge,
        theorem=subject.guarantee.survival,
    )


def computed_intervals_spend(rule: PrescribedRace, books: Books, horizon: int) -> float:
    """Return what the intervals of one run spend, from their ends and the rewards behind them.

    The rewards' sum is moved by the *prescribed* allowance first. How improbable it then is that
    the mean lies beyond an end is the reciprocal of the exact martingale of the proof at that
    end. An end outside (0, 1) cannot fail.
    """
    pulls, sums = books.pulls, books.sums
    if rule.pooled:
        pulls, sums = (np.cumsum(x[::-1], axis=0)[::-1] for x in (pulls, sums))
    room = rule.allowance[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = _failure(rule.kind, pulls, sums - room, books.lower)
        upper = _failure(rule.kind, pulls, pulls - sums - room, 1 - books.upper)
    lower, upper = lower.max(axis=1), upper.max(axis=1)
    if rule.kind in AT_ALL_TIMES:
        return _two_sided(lower, upper, books.pulls.shape[1])
    return float(horizon * books.pulls.shape[1] * (lower + upper).sum())


def _failure(kind: str, pulls: Floats, total: Floats, end: Floats) -> Floats:
    """The probability that a lower end exceeds the mean, given what it was computed from."""
    possible = (pulls > 0) & (end > 0) & (end < 1)
    if kind in ("paper", "hoeffding"):
        found = np.exp(-2 * pulls * np.maximum(total / pulls - end, 0.0) ** 2)
    else:
        total = np.clip(total, 0.0, pulls)
        truth = _times_log(total, end) + _times_log(pulls - total, 1 - end)
        if kind == "kl-jeffreys":
            best = log_beta(total + 0.5, pulls - total + 0.5) - math.log(math.pi)
        elif kind == "kl-mixture":
            best = log_beta(total + 1, pulls - total + 1)
        else:
            mean = total / pulls
            best = _times_log(total, mean) + _times_log(pulls - total, 1 - mean)
        found = np.exp(truth - best)
    return np.asarray(np.where(possible, np.minimum(found, 1.0), 0.0))


def _times_log(factor: Floats, number: Floats) -> Floats:
    """``factor ln(number)``, and 0 where the factor is 0."""
    return np.asarray(np.where(factor == 0, 0.0, factor * np.log(number)))


def log_beta(a: Floats, b: Floats) -> Floats:
    """The logarithm of Euler's beta function.

    >>> f"{np.exp(log_beta(np.array([2.0]), np.array([3.0])))[0]:.6f}"  # 1/12
    '0.083333'
    """
    log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def _delta(policy: Any) -> float:
    return float(policy.delta)


_CORRUPTED_ROUNDS = 64
_RATE = 0.5
"""The exponent: small, so that the martingale has a small variance and a few per cent show."""
_REWARDED_ROUNDS = 32
_MEAN = 0.5
_TOP = 20.0
"""Martingales are capped here, which can only lower their means."""
_MARTINGALE_MEASURE = f"mean of the martingale, capped at {_TOP:g}, at most 1"


def martingale_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Claim that the martingales of the corruption met and of the clean rewards have mean 1."""
    if subject.guarantee.subsampled:
        yield _corruption_claim(subject, preset, seed)
    yield _reward_claim(subject, preset, seed)


def _corruption_claim(subject: Subject, preset: Preset, seed: int) -> Claim:
    """Claim mean 1 where every round is corrupted by 1, so a layer meets its number of rounds."""
    budget = float(_CORRUPTED_ROUNDS)
    experiment = _experiment(subject, (1.0, 0.0), "swap-best", budget, preset, seed)
    rule = _rule(subject, experiment)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        met = _windows(experiment, _CORRUPTED_ROUNDS)
        forged = np.abs(met.sums - met.pulls * np.array([1.0, 0.0])).sum(axis=2)
        most = np.maximum(forged, met.corruption)
        return _worst(corruption_martingale(rule, most, _CORRUPTED_ROUNDS, _RATE), level)

    return Claim(
        "the corruption that a layer meets grows no faster than its share allows",
        subject.label,
        f"means 1, 0; both swapped in C = {_CORRUPTED_ROUNDS} rounds, {_place(preset)}; every "
        f"layer's exp(Z/2) / (1 + q (sqrt(e) - 1))^C",
        _MARTINGALE_MEASURE,
        (),
        judge,
        subject.guarantee.thinning,
    )


def corruption_martingale(rule: PrescribedRace, met: Floats, corrupted: int, rate: float) -> Floats:
    """``exp(rate Z) / (1 + q (e^rate - 1))^C`` of each layer; a row for each run.

    ``met`` is the corruption that each layer met by itself in ``corrupted`` rounds with a
    corruption of 1. The mean is exactly 1 if each layer gets its share of the rounds and nothing
    else.
    """
    together = np.cumsum(met[:, ::-1], axis=1)[:, ::-1] if rule.pooled else met
    growth = np.log1p(rule.used_share * math.expm1(rate))
    return np.asarray(np.exp(rate * together - corrupted * growth))


def _reward_claim(subject: Subject, preset: Preset, seed: int) -> Claim:
    experiment = _experiment(subject, (_MEAN, _MEAN), "none", 0.0, preset, seed)
    rule = _rule(subject, experiment)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        met = _windows(experiment, _REWARDED_ROUNDS)
        return _worst(reward_martingale(rule, met, _MEAN).mean(axis=2), level)

    name = {"kl-jeffreys": "Jeffreys' mixture", "kl-mixture": "the uniform mixture"}
    return Claim(
        "clean rewards of a layer are independent draws in the order of play",
        subject.label,
        f"{describe_means([_MEAN, _MEAN])}; no attack; {_REWARDED_ROUNDS} rounds, "
        f"{_place(preset)}; {name.get(rule.kind, 'an exponential')} of every layer's rewards in "
        f"them",
        _MARTINGALE_MEASURE,
        (),
        judge,
        "Fact 1",
    )


def reward_martingale(rule: PrescribedRace, met: Met, mean: float) -> Floats:
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


def _place(preset: Preset) -> str:
    return f"after a random number of others up to T = {count(preset.path_rounds)}"


def _experiment(
    subject: Subject,
    means: Sequence[float],
    attack: str,
    budget: float,
    preset: Preset,
    seed: int,
) -> Experiment:
    rounds, runs = preset.path_rounds, preset.martingale_runs
    return experiment_on(subject.facing(8.0), means, attack, budget, rounds, runs, seed)


def _rule(subject: Subject, experiment: Experiment) -> PrescribedRace:
    policy: Any = experiment.policy
    return subject.guarantee.rule(policy, 2, experiment.horizon)
