"""The contract of an adversary, as checks that users can run on their own attacks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from armrace.adversaries import Adversary
from armrace.environments import Bernoulli, Deterministic, Environment, FiniteSupport
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.reference import ReferenceRun, run_reference
from armrace.simulation.replication import run_replication
from armrace.testing.contract import (
    compare_with_reference,
    expect,
    require_round_trip,
    within_bounds,
)

_HORIZON = 600
_SOME, _AMPLE = 20.5, 1e9
"""Budgets: one that ends during the run, and one that is larger than all changes can cost."""
_SMALL = 0.0, 0.5, 3.0
_CLICKS = Bernoulli(means=(0.9, 0.5, 0.1))
_STARS = FiniteSupport(
    values=(0.0, 0.3, 0.6, 1.0),
    probabilities=((0.1, 0.1, 0.1, 0.7), (0.2, 0.3, 0.3, 0.2), (0.7, 0.1, 0.1, 0.1)),
)
_CERTAIN = Deterministic(rewards=(0.75, 0.4, 0.1))


def check_adversary(adversary: Adversary) -> None:
    """Run every check of the contract.

    Args:
        adversary: the attack to check.

    Raises:
        ContractBroken: the attack violates a part of the contract; the message says which.
    """
    for check in ADVERSARY_CHECKS:
        check(adversary)


def _experiment(
    adversary: Adversary, budget: float, environment: Environment = _CLICKS
) -> Experiment:
    """Return a short run of a learner that draws by weights, under the attack."""
    return make_experiment(
        policy="exp3",
        environment=environment,
        adversary=adversary,
        budget=budget,
        horizon=_HORIZON,
        replications=1,
        seed=9,
    )


def _reference(experiment: Experiment) -> ReferenceRun:
    with within_bounds(experiment.adversary):
        return run_reference(experiment)


def specification_survives_json(adversary: Adversary) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(adversary)


def indices_stay_in_bounds(adversary: Adversary) -> None:
    """Arms exist, and arrays are used within their bounds.

    It runs interpreted and before all other checks: compiled code does not notice a wrong index,
    and would overwrite memory.
    """
    for budget in (*_SMALL, _SOME, _AMPLE):
        _reference(_experiment(adversary, budget))


def compiled_agrees(adversary: Adversary) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(_experiment(adversary, _SOME), adversary)


def budget_is_kept(adversary: Adversary) -> None:
    """Check that the attack spends at most its budget, and that an ample one refuses no change."""
    for budget in (*_SMALL, _AMPLE):
        outcome = run_replication(_experiment(adversary, budget), 0)
        spent, refused = float(outcome.corruption[-1]), int(outcome.refused[-1])
        expect(spent <= budget, adversary, f"spends {spent} of {budget}")
    expect(refused == 0, adversary, f"is refused {refused} changes, with {spent} of {budget} spent")


def proposals_are_rewards(adversary: Adversary) -> None:
    """Check that changed rewards stay within [0, 1], so that no change is refused."""
    for environment in (_CLICKS, _STARS, _CERTAIN):
        run = _reference(_experiment(adversary, _AMPLE, environment))
        proposed = np.array(run.proposed)
        strange = proposed[~((proposed >= 0) & (proposed <= 1))]
        expect(strange.size == 0, adversary, f"changes rewards to {strange[:3].tolist()}")


def windows_are_kept(adversary: Adversary) -> None:
    """Check that rewards are changed in the declared windows only; others may be skipped."""
    experiment = _experiment(adversary, _AMPLE)
    run = _reference(experiment)
    outside = np.ones(_HORIZON, dtype=np.bool_)
    for first, last in adversary.windows(adversary.start(experiment.setting()), _HORIZON):
        outside[first:last] = False
    changed = np.any(np.array(run.proposed) != np.array(run.clean), axis=1)
    rounds = np.flatnonzero(changed & outside)[:3].tolist()
    expect(not rounds, adversary, f"changes rewards outside its windows, in the rounds {rounds}")


def smallest_cost_is_honest(adversary: Adversary) -> None:
    """Check that no change costs less than the declared minimum, even if little budget is left."""
    for environment in (_CLICKS, _STARS, _CERTAIN):
        for budget in (3.3, _AMPLE):
            experiment = _experiment(adversary, budget, environment)
            setting = experiment.setting()
            declared = adversary.smallest_cost(adversary.start(setting), setting)
            # The reference calls the attack in every round, whatever smallest cost it declares.
            run = _reference(experiment)
            costs = np.abs(np.array(run.paid) - np.array(run.clean)).max(axis=1)
            least = float(costs[costs > 0].min(initial=math.inf))
            breach = f"declares changes of {declared:g} or more, and makes one of {least:g}"
            expect(least >= declared, adversary, breach)


def equal_seeds_equal_attacks(adversary: Adversary) -> None:
    """Check that the same seed gives the same attack."""
    one, other = (run_replication(_experiment(adversary, _SOME), 0) for _ in range(2))
    same = np.array_equal(one.arm_corruption, other.arm_corruption)
    expect(same, adversary, "attacks differently with the same seed")


ADVERSARY_CHECKS: tuple[Callable[[Adversary], None], ...] = (
    specification_survives_json,
    indices_stay_in_bounds,
    proposals_are_rewards,
    windows_are_kept,
    compiled_agrees,
    budget_is_kept,
    smallest_cost_is_honest,
    equal_seeds_equal_attacks,
)
