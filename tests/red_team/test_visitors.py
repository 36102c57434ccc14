"""The search where visitors differ: what it varies, what it finds, and the command."""

import numpy as np
import pytest

from armrace.adversaries import BlindTwoPhaseByVisitor, TwoPhaseByVisitor
from armrace.adversaries.by_visitor import WORST_KNOWN
from armrace.environments.visitors import CONTEXTUAL
from armrace.policies import POLICIES
from armrace.red_team.search import builtin_attacks, families_for, initial_candidates, search
from armrace.red_team.space import sample
from armrace.red_team.target import Target
from armrace.red_team.verdict import describe
from armrace.simulation import simulate


def target_of(
    policy: str, environment: str = "segments", horizon: int = 3_000, budget: float = 100.0
) -> Target:
    return Target(
        policy=POLICIES.make(policy), environment=CONTEXTUAL[environment], budget=budget,
        horizon=horizon,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "family"),
    [("expert-barrier", TwoPhaseByVisitor), ("leaf-thompson", BlindTwoPhaseByVisitor)],
)
def test_all_candidates_strike_the_best_arm_of_each_visitor(policy: str, family: type) -> None:
    target = target_of(policy)
    assert families_for(target) == [family]
    found = initial_candidates(target, families_for(target), 5, np.random.default_rng(0))
    assert {type(attack) for attack in found} == {family}
    assert set(builtin_attacks(target)) <= set(found)
    assert len(builtin_attacks(target)) == len(WORST_KNOWN)
    assert {"best", "not-best", "close", "spread"} <= {attack.where for attack in found}
    for attack in found:
        target.experiment(attack, 1, 0)


def test_the_search_varies_where_and_the_decoy_of_each_visitor() -> None:
    generator = np.random.default_rng(1)
    drawn = [sample(TwoPhaseByVisitor, generator) for _ in range(400)]
    assert {attack.where for attack in drawn} == {
        "everywhere", "best", "not-best", "close", "spread", "coordinate",
    }  # fmt: skip
    arms = {attack.decoy_arm for attack in drawn if attack.decoy == "arm"}
    assert len(arms) > 8
    # What does not matter has its default: the same attack is not tried under two descriptions.
    assert {attack.decoy_arm for attack in drawn if attack.decoy != "arm"} == {0}
    assert {attack.where_arm for attack in drawn if attack.where == "close"} == {0}


def test_a_search_ruins_what_is_naive_in_segments(effort) -> None:
    """Thompson sampling in leaves loses more than by playing at random, under its worst found."""
    target = target_of("leaf-thompson", horizon=20_000, budget=600.0)
    found = search(target, effort, "own", 3)
    quiet = simulate("leaf-thompson", target.environment, horizon=20_000, replications=5, seed=1)
    means = target.environment.kinds().means
    random = 20_000 * (means.max(axis=1) - means.mean(axis=1)).mean()
    assert quiet.figure("pseudo_regret").mean < 250
    assert found.held_out.mean > random
    assert found.held_out.mean <= target.all_lost()
    assert "Which arm is the best depends on the visitor." in found.description


def test_attacks_on_visitors_in_words() -> None:
    attack = TwoPhaseByVisitor(first="swap", decoy="arm", decoy_arm=2, where="best", where_arm=1)
    assert describe(attack) == (
        "It swaps the rewards of the best arm and arm 2. Which arm is the best depends on the "
        "visitor. It strikes only visitors for whom arm 1 is the best."
    )
