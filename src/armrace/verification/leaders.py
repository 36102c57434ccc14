"""Checks of regularised leaders: how they run, the steps of their proofs, and their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from armrace import theory
from armrace.adversaries.two_phase import TwoPhase
from armrace.environments import Bernoulli
from armrace.formatting import count, figure
from armrace.red_team.library import winners_for
from armrace.red_team.target import Target
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.statistics import Interval, mean_interval
from armrace.statistics.bounded_means import betting_interval
from armrace.verification.cells import ATTACKS, describe
from armrace.verification.checks import Claim, Judgement
from armrace.verification.forms import Form
from armrace.verification.leader_guarantees import LeaderSubject
from armrace.verification.leader_mechanics import leader_mechanics_claims
from armrace.verification.lemmas import FAR
from armrace.verification.runs import Runs

_GAPS = theory.gaps_of(FAR)
_ROUNDS_A_UNIT = 100
"""Rounds for each unit of corruption under the attacks."""


def leader_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make all claims about a leader."""
    yield from leader_mechanics_claims(subject, form, seed)
    yield from leader_regret_claims(subject, form, seed)


def leader_regret_claims(subject: LeaderSubject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims of the theorem, where its bound is below all that can be lost."""
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
    bound = subject.guarantee.pseudo_regret(subject.policy, FAR, horizon, budget)
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
        f"{describe(experiment)}; the bound is {figure(bound)} of {count(horizon)}",
        "mean regret against the arm with the largest one, at most the bound",
        (experiment,),
        judge,
        subject.guarantee.theorem,
    )
