"""The lower bounds, checked on UCB1 and on every race.

Theorem 4 forces a certain regret with a certain probability; both depend on how rarely the learner
plays the arm that looks bad. Races that have deleted the arm hardly play it, and the bound is
substantial. UCB1 keeps playing it: the probability in the bound is then too small to be observed,
and its regret on the corrupted rewards does not grow with the switch. The same argument does force
regret on the clean means before the switch, and an adversary who sees UCB1's decisions forces the
rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from armrace.adversaries import LowerBoundSwitch
from armrace.formatting import count, figure
from armrace.policies import Policy, Ucb1
from armrace.simulation.experiment import Experiment
from armrace.theory import (
    ForcedRegret,
    clean_switching_regret,
    hidden_rounds_regret,
    switching_regret,
)
from armrace.verification.claims import (
    Claim,
    Judgement,
    Preset,
    describe_means,
    experiment_on,
    mean_at_least,
    rarely,
    slope_above,
)
from armrace.verification.guarantees import Subject
from armrace.verification.runs import Runs

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
