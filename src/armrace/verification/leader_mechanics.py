"""Checks of how a regularised leader runs, and of the steps of its proof on sample paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.statistics import Interval
from armrace.statistics.bounded_means import betting_interval
from armrace.theory.barriers import BarrierProof
from armrace.verification.checks import Claim, Judgement, describe_means
from armrace.verification.forms import Form, windows
from armrace.verification.leader_guarantees import LeaderSubject
from armrace.verification.leader_paths import MEANS, Path, replay, walk
from armrace.verification.leader_proofs import (
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
    signed_errors_of_estimates,
    squares_of_optimism,
    stability_of_scales,
)
from armrace.verification.runs import Runs

Floats = npt.NDArray[np.float64]

_WINDOW = 64
"""The rounds of a window in which a second implementation solves for the probabilities."""
_SHORT, _PART = 128, 4
"""The length of the paths for means, and how many martingale runs of others one of them replaces:
each has more rounds, and takes longer to start."""
_PRECISE = 1e-8
"""The largest relative difference of two computations of a probability."""
_ROUNDING = 1e-9


def leader_mechanics_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims about the running state and the sample paths of a leader."""
    if not _is_readable(subject):
        return
    paths = _Paths(subject, form, seed)
    yield from _definition_claims(subject, paths)
    yield from _draw_claims(subject, paths)
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

    def __init__(self, subject: LeaderSubject, form: Form, seed: int) -> None:
        self.subject, self.form, self.seed = subject, form, seed
        self.long = cache(lambda: self._walk(form.replayed_runs, form.path_rounds))
        self.short = cache(lambda: self._walk(form.martingale_runs // _PART, _SHORT))

    def _walk(self, runs: int, rounds: int) -> list[Path]:
        policy, read = self.subject.policy, self.subject.guarantee.read
        return [walk(policy, read, rounds, self.seed * 1_000_003 + run) for run in range(runs)]

    @property
    def long_setting(self) -> str:
        """The long paths in words."""
        return _setting(self.form.replayed_runs, self.form.path_rounds)

    @property
    def short_setting(self) -> str:
        """The short paths in words."""
        return _setting(self.form.martingale_runs // _PART, _SHORT)


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
        rounds, number = len(path.weights), paths.form.windows
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
        for setting, played in (
            (paths.short_setting, paths.short),
            (paths.long_setting, paths.long),
        ):
            judge = _without_drift(played, samples)
            yield Claim(claim, subject.label, setting, measure, (), judge, "Leader lemma")


def _without_drift(
    paths: Callable[[], list[Path]], samples: Sequence[Callable[[Path], Floats]]
) -> Callable[[Sequence[Runs], float], Judgement]:
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
    guarantee, horizon = subject.guarantee, paths.form.path_rounds
    proof = None if guarantee.barrier is None else guarantee.barrier(subject.policy, horizon)
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
        yield _inequality(
            "the regret on estimated losses is at most the sums of the theorem on every path",
            subject,
            paths,
            lambda path: regret_by_sums(path, proof),
            "Barrier theorem",
        )
    if proof is not None and not proof.rooted:
        yield _inequality(
            "the squared errors of the predictions are at most those from any fixed number",
            subject,
            paths,
            errors_of_running_means,
            "Lemma V1",
        )
    if proof is not None and proof.optimism > 0:
        for claim, sides in (
            (
                "the bias of the optimism is at most its bound",
                lambda path: bias_of_optimism(path, proof),
            ),
            (
                "the squared steps of the optimism sum to at most their bound",
                lambda path: squares_of_optimism(path, proof),
            ),
            (
                "the bias of the best arm's optimism is paid by its optimism at the end",
                lambda path: bias_of_best(path, proof),
            ),
        ):
            yield _inequality(claim, subject, paths, sides, "Barrier lemma 3")


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
