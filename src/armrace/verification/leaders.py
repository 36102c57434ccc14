"""Checks of regularised leaders: how they run, the steps of their proofs, and their bounds.

A leader is checked against the definition and the theorem of its class, so that a user's policy
that derives from one of these is held to the same promises; the first class that matches counts.
A new leader needs a line in ``LEADERS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.adversaries.two_phase import TwoPhase
from armrace.environments import Bernoulli
from armrace.policies import Exp3, LbInf, OptimisticLogBarrier, Policy, TsallisInf
from armrace.red_team.library import winners_for
from armrace.red_team.target import Target
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.statistics import Interval, mean_interval
from armrace.verification.betting import betting_interval
from armrace.verification.cells import ATTACKS, describe
from armrace.verification.checks import Claim, Judgement
from armrace.verification.forms import Form
from armrace.verification.guarantees import label_of
from armrace.verification.leader_paths import MEANS, Path, Reader, Reading, replay, walk
from armrace.verification.leader_proofs import (
    Sides,
    barrier_steps,
    bias_of_optimism,
    distance_from_solution,
    draws_by_change,
    draws_by_weight,
    errors_of_estimates,
    excess_variation,
    regret_on_path,
    signed_errors_of_estimates,
    squares_of_optimism,
    stability_of_scales,
)
from armrace.verification.lemmas import FAR
from armrace.verification.prescribed_leaders import (
    PrescribedExp3,
    PrescribedLbInf,
    PrescribedLeader,
    PrescribedOptimisticLogBarrier,
    PrescribedTsallisInf,
)
from armrace.verification.regularisers import BARRIER, ENTROPY, TSALLIS, Regulariser
from armrace.verification.runs import Runs

__all__ = [
    "CHECKED_LEADERS",
    "CHECKED_LEADERS_AT_LENGTH",
    "LEADERS",
    "LeaderGuarantee",
    "LeaderSubject",
    "find_leader",
    "leader_claims",
    "leader_mechanics_claims",
    "leader_regret_claims",
]

Floats = npt.NDArray[np.float64]

_ROUNDS = 1_000
"""The length of the paths on which every step of a proof is checked."""
_SHORT, _PART = 128, 4
"""The length of the paths for means, and how many martingale runs of others one of them replaces:
each has more rounds, and takes longer to start."""
_PRECISE = 1e-8
"""The largest relative difference of two computations of a probability."""
_ROUNDING = 1e-9
_GAPS = theory.gaps_of(FAR)
_ROUNDS_A_UNIT = 100
"""Rounds for each unit of corruption under the attacks."""
_ITO_RATE = 0.25
"""The prediction rate for which Ito bounds the regret for any rewards."""


class BarrierProof(NamedTuple):
    """What barrier lemmas 1 to 3 need to know about a leader, for a horizon."""

    first_scale: float
    growth: float
    """The number ``B`` by which squared scales grow with the variation."""
    optimism: float

    @property
    def covers(self) -> bool:
        """Whether the lemmas have been proved for these parameters."""
        return self.first_scale > 1 + self.optimism / 2 and 0 < self.growth <= self.first_scale**2


class LeaderGuarantee(NamedTuple):
    """What is prescribed for a leader and promised by its theorem."""

    prescribed: Callable[[Any, int, int], PrescribedLeader]
    """From policy, arms and horizon, a second implementation."""
    regulariser: Regulariser
    read: Reader
    pseudo_regret: Callable[[Any, Sequence[float], int, float], float | None]
    """From policy, gaps, horizon and corruption, a bound on its expectation; None for none."""
    regret: Callable[[Any, int, int], float | None]
    """From policy, arms and horizon, a bound on the expected regret for any rewards."""
    theorem: str
    barrier: Callable[[Any, int], BarrierProof] | None = None
    """From policy and horizon, the constants of the barrier's proof, if it applies."""


class LeaderSubject(NamedTuple):
    """A leader to be checked, what is promised for it, and its label."""

    label: str
    policy: Policy
    guarantee: LeaderGuarantee


# --- what each leader promises --------------------------------------------------------------


def _read_optimistic(state: Any) -> Reading:
    return Reading(
        estimated=state.estimates.losses,
        predictions=state.estimates.predictions,
        optimism=state.optimism * np.sqrt(state.variances),
        scales=state.first_scale + np.sqrt(state.growth * np.asarray(state.variations)),
        spreads=np.maximum(state.spreads.own, state.spreads.pooled),
    )


def _read_lb_inf(state: Any) -> Reading:
    estimates, nothing = state.estimates, np.zeros(state.scales.size)
    return Reading(estimates.losses, estimates.predictions, nothing, state.scales, nothing)


def _read_tsallis_inf(state: Any) -> Reading:
    losses = state.estimates.losses
    rate = state.rate_scale / math.sqrt(state.counts.rounds[0] + 1)
    return _unpredicted(losses, rate)


def _read_exp3(state: Any) -> Reading:
    return _unpredicted(state.losses, state.learning_rate[0])


def _unpredicted(losses: Floats, rate: float) -> Reading:
    """Return the problem of a leader that predicts nothing and has one learning rate."""
    nothing = np.zeros(losses.size)
    return Reading(losses, nothing, nothing, np.full(losses.size, 1 / rate), nothing)


def _published(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> float | None:
    """Return what the policy's own ``guarantee`` says about the expectation."""
    found = policy.guarantee(gaps, horizon, spent)
    return None if found is None or found.failure > 0 else float(found.pseudo_regret)


def _optimistic_regret(policy: Any, arms: int, horizon: int) -> float | None:
    if not _optimistic_proof(policy, horizon).covers:
        return None
    return theory.barrier_any_rewards_regret(
        arms, horizon, policy.first_scale, policy.scale_growth, policy.optimism
    )


def _optimistic_proof(policy: Any, horizon: int) -> BarrierProof:
    growth = policy.scale_growth / math.log(horizon)
    return BarrierProof(policy.first_scale, growth, policy.optimism)


def _exp3_pseudo_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> float:
    """Bound it by the regret for any rewards, plus what corruption hides."""
    regret = theory.exp3_any_rewards_regret(len(gaps) + 1, horizon, policy.learning_rate)
    return min(regret + 2 * spent, max(gaps) * horizon)


LEADERS: Mapping[type[Policy], LeaderGuarantee] = {
    OptimisticLogBarrier: LeaderGuarantee(
        prescribed=PrescribedOptimisticLogBarrier,
        regulariser=BARRIER,
        read=_read_optimistic,
        pseudo_regret=_published,
        regret=_optimistic_regret,
        theorem="Barrier theorem",
        barrier=_optimistic_proof,
    ),
    LbInf: LeaderGuarantee(
        prescribed=PrescribedLbInf,
        regulariser=BARRIER,
        read=_read_lb_inf,
        pseudo_regret=_published,
        regret=lambda policy, arms, horizon: (
            theory.lb_inf_any_rewards_regret(arms, horizon)
            if policy.prediction_rate == _ITO_RATE
            else None
        ),
        theorem="Ito (2021)",
        barrier=lambda policy, horizon: BarrierProof(2.0, 1 / math.log(horizon), 0.0),
    ),
    TsallisInf: LeaderGuarantee(
        prescribed=PrescribedTsallisInf,
        regulariser=TSALLIS,
        read=_read_tsallis_inf,
        pseudo_regret=_published,
        regret=lambda policy, arms, horizon: theory.tsallis_inf_any_rewards_regret(
            arms, horizon, policy.estimator == "rv"
        ),
        theorem="Zimmert and Seldin (2021)",
    ),
    Exp3: LeaderGuarantee(
        prescribed=PrescribedExp3,
        regulariser=ENTROPY,
        read=_read_exp3,
        pseudo_regret=_exp3_pseudo_regret,
        regret=lambda policy, arms, horizon: theory.exp3_any_rewards_regret(
            arms, horizon, policy.learning_rate
        ),
        theorem="Bubeck and Cesa-Bianchi (2012), Theorem 3.1",
    ),
}


CHECKED_LEADERS: tuple[str | Mapping[str, Any], ...] = (
    "optimistic-log-barrier",
    "lb-inf",
    "tsallis-inf",
    "exp3",
)
"""The leaders that are checked unless others are asked for, the recommended policy first."""

CHECKED_LEADERS_AT_LENGTH: tuple[str | Mapping[str, Any], ...] = (
    *CHECKED_LEADERS,
    {"name": "optimistic-log-barrier", "optimism": 0.0},
    {"name": "optimistic-log-barrier", "optimism": 1.0},
    {"name": "lb-inf", "prediction_rate": 0.0},
    {"name": "tsallis-inf", "estimator": "iw"},
)
"""With them in the full form, every estimator that has a theorem."""


def find_leader(policy: Policy) -> LeaderSubject | None:
    """Return a leader as a subject; None for a policy that derives from no leader of the table.

    Args:
        policy: the policy.
    """
    for kind, guarantee in LEADERS.items():
        if isinstance(policy, kind):
            return LeaderSubject(label_of(policy), policy, guarantee)
    return None


def leader_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make all claims about a leader.

    Args:
        subject: what is checked, with its guarantee.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    yield from leader_mechanics_claims(subject, form, seed)
    yield from leader_regret_claims(subject, form, seed)


# --- how a leader runs ----------------------------------------------------------------------


def leader_mechanics_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims about the running state and the sample paths of a leader.

    Args:
        subject: what is checked, with its guarantee.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    if not _is_readable(subject):
        return
    paths = _Paths(subject, form, seed)
    yield from _definition_claims(subject, paths)
    yield from _draw_claims(subject, paths)
    yield from _proof_claims(subject, paths)


def _is_readable(subject: LeaderSubject) -> bool:
    """Whether the running state is of the kind that the class of the leader keeps."""
    state = subject.policy.start(len(MEANS), _ROUNDS)
    try:
        subject.guarantee.read(getattr(state, "leader", state))
    except AttributeError:
        return False
    return True


class _Paths:
    """The paths of a leader, each played when the first claim needs it."""

    def __init__(self, subject: LeaderSubject, form: Form, seed: int) -> None:
        self.subject, self.form, self.seed = subject, form, seed
        self.long = cache(lambda: self._walk(form.replayed_runs, _ROUNDS))
        self.short = cache(lambda: self._walk(form.martingale_runs // _PART, _SHORT))

    def _walk(self, runs: int, rounds: int) -> list[Path]:
        policy, read = self.subject.policy, self.subject.guarantee.read
        return [walk(policy, read, rounds, self.seed * 1_000_003 + run) for run in range(runs)]

    @property
    def long_setting(self) -> str:
        """The long paths in words."""
        return _setting(self.form.replayed_runs, _ROUNDS)

    @property
    def short_setting(self) -> str:
        """The short paths in words."""
        return _setting(self.form.martingale_runs // _PART, _SHORT)


def _setting(runs: int, rounds: int) -> str:
    means = ", ".join(f"{mean:g}" for mean in MEANS)
    return f"means {means}; two arms swapped while the best is likely; T = {rounds:,}; {runs} runs"


def _definition_claims(subject: LeaderSubject, paths: _Paths) -> Iterator[Claim]:
    """Claim that probabilities are those of the definition."""
    names, policy = subject.guarantee, subject.policy
    difference = f"largest relative difference, at most {_PRECISE:g}"

    def sums(path: Path) -> Floats:
        return np.asarray(np.abs(path.weights.sum(axis=1) - 1))

    def prescribed(path: Path) -> Floats:
        second = names.prescribed(policy, len(MEANS), _ROUNDS)
        return np.abs(path.weights / replay(path, second) - 1)

    def stated(path: Path) -> Floats:
        return np.abs(path.stated / path.weights[path.played] - 1)

    for claim, measure, distances in (
        (
            "the published probabilities sum to 1",
            f"largest distance of a sum from 1, at most {_PRECISE:g}",
            sums,
        ),
        (
            "the published probabilities solve the regularised problem of the running state",
            difference,
            lambda path: distance_from_solution(path, names.regulariser),
        ),
        (
            "a second implementation publishes the same probabilities for the same plays",
            difference,
            prescribed,
        ),
        ("a decision states the published probability of its arm", difference, stated),
    ):
        yield Claim(
            claim,
            subject.label,
            paths.long_setting,
            measure,
            (),
            _exactly(paths, distances),
            "Leader lemma",
        )


def _exactly(
    paths: _Paths, distances: Callable[[Path], Floats]
) -> Callable[[Sequence[Runs], float], Judgement]:
    """Judge numbers that are 0 except for rounding, in every round of every path."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        with np.errstate(all="ignore"):  # what is not a number counts as wrong
            each = [np.nan_to_num(distances(path), nan=np.inf) for path in paths.long()]
        wrong = int(sum((found > _PRECISE).sum() for found in each))
        most = float(max(found.max() for found in each))
        return Judgement(
            sum(map(len, each)), wrong, Interval(most, most), _PRECISE, most <= _PRECISE
        )

    return judge


def _draw_claims(subject: LeaderSubject, paths: _Paths) -> Iterator[Claim]:
    """Claim that arms are drawn from the published law and estimates are unbiased."""
    for claim, measure, samples in (
        (
            "the arm is drawn with the published probabilities",
            "mean of the probability of the arm drawn, less its mean by the published law, "
            "equal to 0",
            (draws_by_weight,),
        ),
        (
            "the arm is drawn with the probabilities of its own round",
            "mean of how much less likely the arm drawn has just become, less its mean by the "
            "published law, equal to 0",
            (draws_by_change,),
        ),
        (
            "the estimated losses are unbiased, given the past and the losses of the round",
            "mean of the weighted errors of the estimates, equal to 0",
            (errors_of_estimates, signed_errors_of_estimates),
        ),
    ):
        judge = _without_drift(paths, samples)
        setting = paths.short_setting
        yield Claim(claim, subject.label, setting, measure, (), judge, "Leader lemma")


def _without_drift(
    paths: _Paths, samples: Sequence[Callable[[Path], Floats]]
) -> Callable[[Sequence[Runs], float], Judgement]:
    """Judge numbers whose mean given the past is 0, jointly; the worst interval is shown."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        intervals = []
        for sample in samples:
            found = np.concatenate([sample(path) for path in paths.short()])
            intervals.append(_mean_of_differences(found, -1.0, 1.0, level / len(samples)))
        worst = max(intervals, key=lambda interval: max(interval.low, -interval.high))
        holds = worst.low <= 0.0 <= worst.high
        rounds = sum(len(path.weights) for path in paths.short())
        return Judgement(rounds, int(not holds), worst, 0.0, holds)

    return judge


def _mean_of_differences(sample: Floats, least: float, most: float, level: float) -> Interval:
    """Return a betting interval of the mean of numbers in [``least``, ``most``].

    It is valid where each number has the same mean given those before it.
    """
    found = betting_interval(sample - least, most - least, level)
    return Interval(found.low + least, found.high + least)


# --- the steps of the proofs ----------------------------------------------------------------


def _proof_claims(subject: LeaderSubject, paths: _Paths) -> Iterator[Claim]:
    """Claim the inequalities of the proofs."""
    guarantee = subject.guarantee
    proof = None if guarantee.barrier is None else guarantee.barrier(subject.policy, _ROUNDS)
    centred = guarantee.barrier is not None
    if proof is not None and not proof.covers:
        return
    yield _inequality(
        "the regret on estimated losses is at most penalty plus stability on every path",
        subject,
        paths,
        lambda path: regret_on_path(path, guarantee.regulariser, centred),
        "Leader lemma",
    )
    if proof is not None:
        yield _steps_claim(subject, paths, proof)
        yield _inequality(
            "the stability is at most the root of the variation",
            subject,
            paths,
            lambda path: stability_of_scales(path, proof.growth),
            "Barrier lemma 2",
        )
        yield _variation_claim(subject, paths)
    if proof is not None and proof.optimism > 0:
        yield _inequality(
            "the bias of the optimism is at most its bound",
            subject,
            paths,
            lambda path: bias_of_optimism(path, proof.optimism),
            "Barrier lemma 3",
        )
        yield _inequality(
            "the squared steps of the optimism sum to at most their bound",
            subject,
            paths,
            lambda path: squares_of_optimism(path, proof.optimism),
            "Barrier lemma 3",
        )


def _inequality(
    claim: str,
    subject: LeaderSubject,
    paths: _Paths,
    sides: Callable[[Path], Sides],
    theorem: str,
) -> Claim:
    """Claim that an inequality holds on every path."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        with np.errstate(all="ignore"):  # what is not a number counts as an excess
            excesses = np.array([sides(path).excess for path in paths.long()])
        most, over = float(excesses.max()), int((excesses > _ROUNDING).sum())
        return Judgement(excesses.size, over, Interval(most, most), 0.0, over == 0)

    return Claim(
        claim,
        subject.label,
        paths.long_setting,
        "largest excess of the left side over the right, divided by their sum, at most 0",
        (),
        judge,
        theorem,
    )


def _steps_claim(subject: LeaderSubject, paths: _Paths, proof: BarrierProof) -> Claim:
    """Claim that no step is longer than the proof allows, neither of losses nor of optimism."""
    limit = (1 + proof.optimism / 2) / proof.first_scale

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        steps = [barrier_steps(path) for path in paths.long()]
        over = [
            -step.least > limit + _ROUNDING
            or step.least_optimism < -_ROUNDING
            or step.largest_optimism > proof.optimism / 2 + _ROUNDING
            for step in steps
        ]
        most = max(-step.least for step in steps)
        return Judgement(len(steps), sum(over), Interval(most, most), limit, not any(over))

    return Claim(
        "no step of the losses or of the optimism is longer than the proof allows",
        subject.label,
        paths.long_setting,
        "largest step down, -y, at most (1 + k/2)/g",
        (),
        judge,
        "Barrier lemma 1",
    )


def _variation_claim(subject: LeaderSubject, paths: _Paths) -> Claim:
    """Claim that the variation of a round has at most the mean that the theorem uses."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        found = np.concatenate([excess_variation(path) for path in paths.short()])
        interval = _mean_of_differences(np.clip(found, -1.0, 2.0), -1.0, 2.0, level)
        holds = interval.low <= 0.0
        return Judgement(found.size, int(not holds), interval, 0.0, holds)

    return Claim(
        "the expected variation of an arm is at most p (1 - p)",
        subject.label,
        paths.short_setting,
        "mean of the variation of all arms, less p (1 - p), at most 0",
        (),
        judge,
        subject.guarantee.theorem,
    )


# --- what the theorems say ------------------------------------------------------------------


def leader_regret_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims of the theorem, where its bound is below all that can be lost.

    Args:
        subject: what is checked, with its guarantee.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    budget = form.horizon / _ROUNDS_A_UNIT
    yield from _pseudo_regret_claim(subject, "none", 0.0, form, seed)
    for attack in (*ATTACKS[1:], *_searched(subject, budget, form)):
        yield from _pseudo_regret_claim(subject, attack, budget, form, seed)
    for attack in ("zero-best-when-likely", "double-impact"):
        yield from _any_rewards_claim(subject, attack, form, seed)


def _searched(subject: LeaderSubject, budget: float, form: Form) -> list[Any]:
    """Return attacks of the red team's family that searches have found in similar settings."""
    environment = Bernoulli(means=FAR)
    target = Target(
        policy=subject.policy, environment=environment, budget=budget, horizon=form.horizon
    )
    found = [winner for winner in winners_for(target) if isinstance(winner, TwoPhase)]
    return found[: form.searched_attacks]


def _pseudo_regret_claim(
    subject: LeaderSubject, attack: Any, budget: float, form: Form, seed: int
) -> Iterator[Claim]:
    horizon = form.horizon
    bound = subject.guarantee.pseudo_regret(subject.policy, _GAPS, horizon, budget)
    everything = max(_GAPS) * horizon
    if bound is None or bound >= everything:
        return
    experiment = make_experiment(
        policy=subject.policy,
        environment=list(FAR),
        adversary=attack,
        budget=budget,
        horizon=horizon,
        replications=form.runs,
        seed=seed,
    )

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        sample = runs[0].pseudo_regret
        interval = betting_interval(sample, everything, level)
        over = int((sample > bound).sum())
        return Judgement(sample.size, over, interval, bound, interval.low <= bound)

    yield Claim(
        "the expected pseudo-regret is at most its bound",
        subject.label,
        f"{_described(experiment)}; the bound is {bound:,.0f} of {everything:,.0f}",
        "mean pseudo-regret, at most the bound",
        (experiment,),
        judge,
        subject.guarantee.theorem,
    )


def _described(experiment: Experiment) -> str:
    """Describe an experiment, and the actions of an attack that a search has found."""
    attack, setting = experiment.adversary, describe(experiment)
    if not isinstance(attack, TwoPhase):
        return setting
    actions = attack.first if attack.split == 1 else f"{attack.first}, then {attack.second}"
    return setting.replace(attack.tag(), f"{attack.tag()} ({actions})", 1)


def _any_rewards_claim(
    subject: LeaderSubject, attack: str, form: Form, seed: int
) -> Iterator[Claim]:
    """Claim the bound for any rewards, under an attack that may change all of them."""
    horizon, arms = form.horizon, len(FAR)
    bound = subject.guarantee.regret(subject.policy, arms, horizon)
    if bound is None or bound >= horizon:
        return
    experiment = make_experiment(
        policy=subject.policy,
        environment=list(FAR),
        adversary=attack,
        budget=float(horizon),
        horizon=horizon,
        replications=form.runs,
        seed=seed,
    )

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        samples = runs[0].regret_to_arms.T
        # A regret may be as low as -T, so that an interval for every law would say nothing.
        intervals = [Interval(*mean_interval(sample, level / arms)) for sample in samples]
        worst = int(np.argmax([interval.low for interval in intervals]))
        over = int((samples[worst] > bound).sum())
        return Judgement(
            samples.shape[1], over, intervals[worst], bound, intervals[worst].low <= bound
        )

    yield Claim(
        "for any rewards the expected regret against a fixed arm is at most its bound",
        subject.label,
        f"{describe(experiment)}; the bound is {bound:,.0f} of {horizon:,.0f}",
        "mean regret against the arm with the largest one, at most the bound",
        (experiment,),
        judge,
        subject.guarantee.theorem,
    )
