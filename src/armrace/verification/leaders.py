"""Checks of regularised leaders: how they run, the steps of their proofs, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.adversaries.two_phase import TwoPhase
from armrace.environments import Bernoulli
from armrace.formatting import count, figure
from armrace.red_team.library import winners_for
from armrace.red_team.target import Target
from armrace.simulation.experiment import Experiment
from armrace.statistics import Interval, mean_interval
from armrace.statistics.bounded_means import betting_interval
from armrace.theory.barriers import BarrierProof
from armrace.verification.claims import (
    ATTACKS,
    Claim,
    Judge,
    Judgement,
    Preset,
    describe,
    describe_means,
    experiment_on,
    windows,
)
from armrace.verification.leader_guarantees import LeaderSubject, published_bound
from armrace.verification.leader_proofs import (
    MEANS,
    Path,
    Sides,
    barrier_steps,
    bias_of_best,
    bias_of_optimism,
    distance_from_solution,
    draws_by_change,
    draws_by_weight,
    errors_of_estimates,
    errors_of_running_means,
    excess_variation,
    regret_by_sums,
    regret_on_path,
    replay,
    signed_errors_of_estimates,
    squares_of_optimism,
    stability_of_scales,
    walk,
)
from armrace.verification.runs import Runs
from armrace.verification.theorems import FAR

Floats = npt.NDArray[np.float64]

_WINDOW = 64
"""The rounds of a window in which a second implementation solves for the probabilities."""
_SHORT, _PART = 128, 4
"""The length of the paths for means, and how many martingale runs of others one of them replaces:
each has more rounds, and takes longer to start."""
_PRECISE = 1e-8
"""The largest relative difference of two computations of a probability."""
_ROUNDING = 1e-9


def leader_mechanics_claims(subject: LeaderSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about the running state and the sample paths of a leader."""
    if not _is_readable(subject):
        return
    paths = _Paths(subject, preset, seed)
    yield from _definition_claims(subject, paths)
    yield from _draw_claims(paths)
    yield from _proof_claims(subject, paths)


def _is_readable(subject: LeaderSubject) -> bool:
    """Whether the running state is of the kind that the class of the leader keeps."""
    state = subject.policy.start(len(MEANS), _SHORT)
    try:
        subject.guarantee.read(getattr(state, "leader", state))
    except AttributeError:
        return False
    return True


class _Paths:
    """The paths of a leader, each played when the first claim needs it."""

    def __init__(self, subject: LeaderSubject, preset: Preset, seed: int) -> None:
        self.subject, self.preset, self.seed = subject, preset, seed
        self.long = cache(lambda: self._walk(preset.replayed_runs, preset.path_rounds))
        self.short = cache(lambda: self._walk(preset.martingale_runs // _PART, _SHORT))
        self.long_setting = _setting(preset.replayed_runs, preset.path_rounds)
        self.short_setting = _setting(preset.martingale_runs // _PART, _SHORT)

    def _walk(self, runs: int, rounds: int) -> list[Path]:
        policy, read = self.subject.policy, self.subject.guarantee.read
        return [walk(policy, read, rounds, self.seed * 1_000_003 + run) for run in range(runs)]

    def claim(
        self, claim: str, measure: str, judge: Judge, theorem: str, setting: str = ""
    ) -> Claim:
        """Make a claim about the long paths, or those of another setting."""
        where = setting or self.long_setting
        return Claim(claim, self.subject.label, where, measure, (), judge, theorem)


def _setting(runs: int, rounds: int) -> str:
    attack = "two arms swapped while the best is likely"
    return f"{describe_means(MEANS)}; {attack}; T = {count(rounds)}; {runs} runs"


def _definition_claims(subject: LeaderSubject, paths: _Paths) -> Iterator[Claim]:
    """Claim that probabilities are those of the definition."""
    names, policy = subject.guarantee, subject.policy
    difference = f"largest relative difference, at most {_PRECISE:g}"

    def sums(path: Path) -> Floats:
        return np.asarray(np.abs(path.weights.sum(axis=1) - 1))

    def prescribed(path: Path) -> Floats:
        rounds, number = len(path.weights), paths.preset.windows
        second = names.prescribed(policy, len(MEANS), rounds)
        chosen = set().union(range(_WINDOW), *windows(rounds, number, _WINDOW, paths.seed))
        return np.abs(path.weights[sorted(chosen)] / replay(path, second, chosen) - 1)

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
        yield paths.claim(claim, measure, _exactly(paths, distances), "Leader lemma")


def _exactly(paths: _Paths, distances: Callable[[Path], Floats]) -> Judge:
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


def _draw_claims(paths: _Paths) -> Iterator[Claim]:
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
        for setting, played in (
            (paths.short_setting, paths.short),
            (paths.long_setting, paths.long),
        ):
            judge = _without_drift(played, samples)
            yield paths.claim(claim, measure, judge, "Leader lemma", setting)


def _without_drift(
    paths: Callable[[], list[Path]], samples: Sequence[Callable[[Path], Floats]]
) -> Judge:
    """Judge numbers whose mean given the past is 0, jointly; the worst interval is shown."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        intervals = []
        for sample in samples:
            found = np.concatenate([sample(path) for path in paths()])
            intervals.append(_mean_of_differences(found, -1.0, 1.0, level / len(samples)))
        worst = max(intervals, key=lambda interval: max(interval.low, -interval.high))
        holds = worst.low <= 0.0 <= worst.high
        rounds = sum(len(path.weights) for path in paths())
        return Judgement(rounds, int(not holds), worst, 0.0, holds)

    return judge


def _mean_of_differences(sample: Floats, least: float, most: float, level: float) -> Interval:
    """Return a betting interval of the mean of numbers in [``least``, ``most``].

    It is valid where each number has the same mean given those before it.
    """
    found = betting_interval(sample - least, most - least, level)
    return Interval(found.low + least, found.high + least)


def _proof_claims(subject: LeaderSubject, paths: _Paths) -> Iterator[Claim]:
    """Claim the inequalities of the proofs."""
    guarantee, horizon = subject.guarantee, paths.preset.path_rounds
    proof = None if guarantee.barrier is None else guarantee.barrier(subject.policy, horizon)
    if proof is not None and not proof.covers:
        return
    yield _inequality(
        "the regret on estimated losses is at most penalty plus stability on every path",
        paths,
        lambda path: regret_on_path(path, guarantee.regulariser, centred=proof is not None),
        "Leader lemma",
    )
    if proof is not None:
        yield _steps_claim(paths, proof)
        for claim, sides, theorem in _barrier_inequalities(proof):
            yield _inequality(claim, paths, sides, theorem)
        yield _variation_claim(paths)


def _barrier_inequalities(
    proof: BarrierProof,
) -> Iterator[tuple[str, Callable[[Path], Sides], str]]:
    """Return the inequalities in the proof of the barrier theorem, and where they are stated."""
    yield (
        "the stability is at most the root of the variation",
        lambda path: stability_of_scales(path, proof.growth),
        "Barrier lemma 2",
    )
    yield (
        "the regret on estimated losses is at most the sums of the theorem on every path",
        lambda path: regret_by_sums(path, proof),
        "Barrier theorem",
    )
    if not proof.rooted:
        yield (
            "the squared errors of the predictions are at most those from any fixed number",
            errors_of_running_means,
            "Lemma V1",
        )
    if proof.optimism > 0:
        yield (
            "the bias of the optimism is at most its bound",
            lambda path: bias_of_optimism(path, proof),
            "Barrier lemma 3",
        )
        yield (
            "the squared steps of the optimism sum to at most their bound",
            lambda path: squares_of_optimism(path, proof),
            "Barrier lemma 3",
        )
        yield (
            "the bias of the best arm's optimism is paid by its optimism at the end",
            lambda path: bias_of_best(path, proof),
            "Barrier lemma 3",
        )


def _inequality(claim: str, paths: _Paths, sides: Callable[[Path], Sides], theorem: str) -> Claim:
    """Claim that an inequality holds on every path."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        with np.errstate(all="ignore"):  # what is not a number counts as an excess
            excesses = np.array([sides(path).excess for path in paths.long()])
        most, over = float(excesses.max()), int((excesses > _ROUNDING).sum())
        return Judgement(excesses.size, over, Interval(most, most), 0.0, over == 0)

    measure = "largest excess of the left side over the right, divided by their sum, at most 0"
    return paths.claim(claim, measure, judge, theorem)


def _steps_claim(paths: _Paths, proof: BarrierProof) -> Claim:
    """Claim that no step is longer than the proof allows, neither of losses nor of optimism."""
    limit = proof.longest_step / proof.first_scale

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

    claim = "no step of the losses or of the optimism is longer than the proof allows"
    measure = "largest step down, -y, at most (1 + k/2)/g"
    return paths.claim(claim, measure, judge, "Barrier lemma 1")


def _variation_claim(paths: _Paths) -> Claim:
    """Claim that the variation of a round has at most the mean that the theorem uses."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        found = np.concatenate([excess_variation(path) for path in paths.short()])
        interval = _mean_of_differences(np.clip(found, -1.0, 2.0), -1.0, 2.0, level)
        holds = interval.low <= 0.0
        return Judgement(found.size, int(not holds), interval, 0.0, holds)

    claim = "the expected variation of an arm is at most p (1 - p)"
    measure = "mean of the variation of all arms, less p (1 - p), at most 0"
    theorem = paths.subject.guarantee.theorem
    return paths.claim(claim, measure, judge, theorem, paths.short_setting)


_GAPS = theory.gaps_of(FAR)
_ROUNDS_A_UNIT = 100
"""Rounds for each unit of corruption under the attacks."""


def leader_claims(subject: LeaderSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make all claims about a leader."""
    yield from leader_mechanics_claims(subject, preset, seed)
    yield from leader_regret_claims(subject, preset, seed)


def leader_regret_claims(subject: LeaderSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims of the theorem, where its bound is below all that can be lost."""
    budget = preset.horizon / _ROUNDS_A_UNIT
    yield from _pseudo_regret_claim(subject, "none", 0.0, preset, seed)
    for attack in (*ATTACKS[1:], *_searched(subject, budget, preset)):
        yield from _pseudo_regret_claim(subject, attack, budget, preset, seed)
    for attack in ("zero-best-when-likely", "double-impact"):
        yield from _any_rewards_claim(subject, attack, preset, seed)


def _searched(subject: LeaderSubject, budget: float, preset: Preset) -> list[Any]:
    """Return attacks of the red team's family that searches have found in similar settings."""
    environment = Bernoulli(means=FAR)
    target = Target(
        policy=subject.policy, environment=environment, budget=budget, horizon=preset.horizon
    )
    found = [winner for winner in winners_for(target) if isinstance(winner, TwoPhase)]
    return found[: preset.searched_attacks]


def _pseudo_regret_claim(
    subject: LeaderSubject, attack: Any, budget: float, preset: Preset, seed: int
) -> Iterator[Claim]:
    horizon = preset.horizon
    bound = published_bound(subject.policy, FAR, horizon, budget)
    everything = max(_GAPS) * horizon
    if bound is None or bound >= everything:
        return
    experiment = experiment_on(subject.policy, FAR, attack, budget, horizon, preset.runs, seed)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        sample = runs[0].pseudo_regret
        interval = betting_interval(sample, everything, level)
        over = int((sample > bound).sum())
        return Judgement(sample.size, over, interval, bound, interval.low <= bound)

    yield Claim(
        "the expected pseudo-regret is at most its bound",
        subject.label,
        f"{_described(experiment)}; the bound is {figure(bound)} of {figure(everything)}",
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
    actions = ", then ".join(getattr(attack, name) for name in attack.phases())
    return setting.replace(attack.tag(), f"{attack.tag()} ({actions})", 1)


def _any_rewards_claim(
    subject: LeaderSubject, attack: str, preset: Preset, seed: int
) -> Iterator[Claim]:
    """Claim the bound for any rewards, under an attack that may change all of them."""
    horizon, arms = preset.horizon, len(FAR)
    bound = subject.guarantee.regret(subject.policy, arms, horizon)
    if bound is None or bound >= horizon:
        return
    experiment = experiment_on(
        subject.policy, FAR, attack, float(horizon), horizon, preset.runs, seed
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
        f"{describe(experiment)}; the bound is {figure(bound)} of {count(horizon)}",
        "mean regret against the arm with the largest one, at most the bound",
        (experiment,),
        judge,
        subject.guarantee.theorem,
    )
