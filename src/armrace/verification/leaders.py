"""Checks of regularised leaders: how they run, the steps of their proofs, and their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from armrace.verification.claims import (
    ATTACKS,
    Claim,
    Judgement,
    Preset,
    describe,
    describe_means,
    experiment_on,
    windows,
)
from armrace.verification.leader_guarantees import LeaderSubject, published_bound
from armrace.verification.leader_proofs import (
    ADVERSARY,
    MEANS,
    Path,
    PathClaims,
    bias_of_optimism,
    distance_from_solution,
    errors_of_estimates,
    errors_of_running_means,
    excess_variation,
    regret_by_sums,
    replay,
    signed_errors_of_estimates,
    squares_of_optimism,
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


def leader_mechanics_claims(subject: LeaderSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about the running state and the sample paths of a leader."""
    if not _is_readable(subject):
        return
    policy, guarantee = subject.policy, subject.guarantee

    def paths_of(runs: int, rounds: int) -> PathClaims:
        setting = f"{describe_means(MEANS)}; {ADVERSARY}; T = {count(rounds)}; {runs} runs"
        numbers = range(seed * 1_000_003, seed * 1_000_003 + runs)
        play = cache(lambda: [walk(policy, guarantee.read, rounds, number) for number in numbers])
        return PathClaims(subject.label, setting, "Leader lemma", play)

    def prescribed(path: Path) -> Floats:
        rounds = len(path.weights)
        second = guarantee.prescribed(policy, len(MEANS), rounds)
        chosen = set().union(range(_WINDOW), *windows(rounds, preset.windows, _WINDOW, seed))
        return np.abs(path.weights[sorted(chosen)] / replay(path, second, chosen) - 1)

    long = paths_of(preset.replayed_runs, preset.path_rounds)
    short = paths_of(preset.martingale_runs // _PART, _SHORT)
    for words, distances in (
        ("the published probabilities sum to 1",
         lambda path: np.abs(path.weights.sum(axis=1) - 1)),
        ("the published probabilities solve the regularised problem of the running state",
         lambda path: distance_from_solution(path, guarantee.regulariser)),
        ("a second implementation publishes the same probabilities for the same plays", prescribed),
        ("a decision states the published probability of its arm",
         lambda path: np.abs(path.stated / path.weights[path.played] - 1)),
    ):  # fmt: skip
        yield long.exact(words, distances)
    for paths in (short, long):
        yield from paths.draws()
        yield paths.mean(
            "the estimated losses are unbiased, given the past and the losses of the round",
            errors_of_estimates,
            signed_errors_of_estimates,
        )
    proof = None if guarantee.barrier is None else guarantee.barrier(policy, preset.path_rounds)
    if proof is None:
        yield long.regret_on_paths(guarantee.regulariser, centred=False)
    elif proof.covers:
        yield long.regret_on_paths(guarantee.regulariser, centred=True)
        yield from long.barrier_lemmas(proof, bias_of_optimism, squares_of_optimism)
        yield long.inequality(
            "the regret on estimated losses is at most the sums of the theorem on every path",
            "Barrier theorem",
            lambda path: regret_by_sums(path, proof),
        )
        if not proof.rooted:
            yield long.inequality(
                "the squared errors of the predictions are at most those from any fixed number",
                "Lemma V1",
                errors_of_running_means,
            )
        yield short._replace(theorem=guarantee.theorem).mean(
            "the expected variation of an arm is at most p (1 - p)",
            excess_variation,
            most=2.0,
            exact=False,
        )


def _is_readable(subject: LeaderSubject) -> bool:
    """Whether the running state is of the kind that the class of the leader keeps."""
    state = subject.policy.start(len(MEANS), _SHORT)
    try:
        subject.guarantee.read(getattr(state, "leader", state))
    except AttributeError:
        return False
    return True


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
