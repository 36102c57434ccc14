"""The contract of an adversary, as checks that anyone can run on an attack of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armrace.adversaries import Adversary
from armrace.checking.contract import compare_with_reference, expect, require_round_trip
from armrace.checking.reference import run_reference
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.replication import run_replication

__all__ = ["ADVERSARY_CHECKS", "check_adversary"]

_HORIZON = 600


def check_adversary(adversary: Adversary) -> None:
    """Run every check of the contract."""
    for check in ADVERSARY_CHECKS:
        check(adversary)


def _experiment(adversary: Adversary, budget: float) -> Experiment:
    return make_experiment(
        policy="exp3",
        environment=(0.9, 0.5, 0.1),
        adversary=adversary,
        budget=budget,
        horizon=_HORIZON,
        replications=1,
        seed=9,
    )


def specification_survives_json(adversary: Adversary) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(adversary)


def compiled_agrees(adversary: Adversary) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(_experiment(adversary, budget=20.5))


def budget_is_kept(adversary: Adversary) -> None:
    """It never spends more than it has, and nothing where it has nothing."""
    for budget in (0.0, 0.5, 3.0, 1e9):
        outcome = run_replication(_experiment(adversary, budget), 0)
        spent = float(outcome.corruption[-1])
        expect(spent <= budget, adversary, f"spends {spent} of {budget}")


def proposals_are_rewards(adversary: Adversary) -> None:
    """What it makes of the rewards stays within [0, 1], so that nothing it does is refused."""
    run = run_reference(_experiment(adversary, budget=1e9))
    paid = np.array(run.paid)
    expect(bool(np.all((paid >= 0) & (paid <= 1))), adversary, "pays rewards outside [0, 1]")


def equal_seeds_equal_attacks(adversary: Adversary) -> None:
    """The same seed gives the same attack."""
    one, other = (run_replication(_experiment(adversary, 20.5), 0) for _ in range(2))
    same = np.array_equal(one.arm_corruption, other.arm_corruption)
    expect(same, adversary, "attacks differently with the same seed")


ADVERSARY_CHECKS: tuple[Callable[[Adversary], None], ...] = (
    specification_survives_json,
    compiled_agrees,
    budget_is_kept,
    proposals_are_rewards,
    equal_seeds_equal_attacks,
)
