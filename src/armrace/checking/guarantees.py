"""Guarantees against the attacks of the library: none may cost more than is proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from armrace.checking.contract import expect
from armrace.environments import Bernoulli
from armrace.policies import Policy
from armrace.red_team.library import winners_for
from armrace.red_team.search import builtin_attacks
from armrace.red_team.target import Target
from armrace.simulation.simulate import run_experiments
from armrace.statistics import clopper_pearson, mean_interval
from armrace.theory import gaps_of

_MEANS = (0.1, 0.9)
_BUDGETS = (3.0, 30.0, 300.0)
_HORIZON = 100_000
_RUNS = 20
_SEED = 20
_LEVEL = 1e-6
"""The probability that a policy which keeps its guarantee is refused, for each attack."""


class GuaranteeCheck(NamedTuple):
    """What was compared at one budget."""

    budget: float
    bound: float | None
    """What the guarantee says; None if it says nothing."""
    worst: float
    """The largest mean pseudo-regret of any attack."""
    attack: str

    @property
    def is_vacuous(self) -> bool:
        """Whether no attack could have refuted the guarantee."""
        gap = max(_MEANS) - min(_MEANS)
        return self.bound is None or self.bound >= gap * _HORIZON


def check_guarantee(
    policy: Policy, budgets: Sequence[float] = _BUDGETS, replications: int = _RUNS
) -> list[GuaranteeCheck]:
    """Play all built-in attacks and the winners of searches, and compare with the guarantee.

    Two arms of means 0.9 and 0.1, 100,000 rounds. A bound that holds with high probability is
    refuted if more runs exceed it than its failure probability explains; a bound on the
    expectation, if the mean exceeds it by more than its error explains; in both cases an attack
    refuses a policy that keeps its guarantee with a probability of about one in a million.

    Args:
        policy: the policy, whose ``guarantee`` is checked.
        budgets: the corruptions that are tried.
        replications: runs of each attack.

    Returns:
        What was compared, one entry for each budget.

    Raises:
        ContractBroken: an attack costs more than the guarantee allows.
    """
    return [_check(policy, budget, replications) for budget in budgets]


def _check(policy: Policy, budget: float, replications: int) -> GuaranteeCheck:
    """Play all attacks at one budget, and refuse the guarantee if one of them refutes it."""
    target = Target(
        policy=policy, environment=Bernoulli(means=_MEANS), budget=budget, horizon=_HORIZON
    )
    attacks = list(dict.fromkeys([*builtin_attacks(target), *winners_for(target)]))
    experiments = [target.experiment(attack, replications, _SEED) for attack in attacks]
    results = run_experiments(experiments, progress=False)
    samples = [result.sample("pseudo_regret") for result in results]
    worst = int(np.argmax([sample.mean() for sample in samples]))
    found = policy.guarantee(gaps_of(_MEANS), _HORIZON, budget)
    for attack, sample in zip(attacks, samples, strict=True):
        if found is None:
            break
        if found.failure > 0:
            exceeding = int((sample > found.pseudo_regret).sum())
            refuted = clopper_pearson(exceeding, sample.size, _LEVEL).low > found.failure
        else:
            refuted = mean_interval(sample, 2 * _LEVEL)[0] > found.pseudo_regret
        breach = (
            f"loses {sample.mean():,.0f} on average to {attack.tag()} with a budget of "
            f"{budget:g}, where its guarantee says {found.pseudo_regret:,.0f}"
        )
        expect(not refuted, policy, breach)
    bound = None if found is None else found.pseudo_regret
    return GuaranteeCheck(budget, bound, float(samples[worst].mean()), attacks[worst].tag())
