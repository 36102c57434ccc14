"""What policies are proven to lose, as plans say it."""

from typing import Any

import pytest

from armrace.planning import plan
from armrace.planning.plans import NO_BOUND, VACUOUS, proven_guarantee, proven_loss
from armrace.policies import FastSlowRace, MultiLayerRace, SharpRace
from armrace.theory import agnostic_regret, fast_slow_regret, sharp_layers

MEANS, ROUNDS = [0.9, 0.4, 0.4], 10**6


def test_the_bound_of_a_race_is_what_its_theorem_says() -> None:
    race = MultiLayerRace(delta=0.1)
    for corruption in (0.0, 1000.0):
        bound = agnostic_regret([0.5, 0.5], ROUNDS, 0.1, corruption).pseudo_regret
        assert proven_loss(race, MEANS, ROUNDS, corruption) == f"{bound:,.0f}"
    assert proven_loss(race, MEANS, ROUNDS, 1e5) == VACUOUS
    assert proven_guarantee(race, MEANS, ROUNDS, 1e5) is None


@pytest.mark.parametrize("told", [5.0, 50_000.0])
def test_the_fast_slow_race_is_covered_up_to_what_it_was_told_or_not_at_all(told: float) -> None:
    race = FastSlowRace(corruption=told, delta=0.1)
    bound = fast_slow_regret([0.5, 0.5], ROUNDS, 0.1, told).pseudo_regret
    said = f"{bound:,.0f}" if told == 5 else VACUOUS
    assert proven_loss(race, MEANS, ROUNDS, told) == said
    assert proven_loss(race, MEANS, ROUNDS, told + 1) == NO_BOUND


def test_the_sharp_race_is_covered_up_to_what_its_slowest_layer_tolerates() -> None:
    told = SharpRace(most_corruption=30)
    assert sharp_layers(3, ROUNDS, told.delta, told.first, 30)[-1].tolerated == 32
    found = [proven_loss(told, MEANS, ROUNDS, corruption) for corruption in (32.0, 33.0)]
    assert found[0][0].isdigit()
    assert found[1] == VACUOUS


def test_a_plan_says_what_is_proven_for_its_choice_and_for_the_others() -> None:
    asked: dict[str, Any] = {
        "means": [0.95, 0.05], "days": 1, "delta": 0.1, "forged": 0, "replications": 1,
        "policies": ["optimistic-log-barrier", "multi-layer-race", "ucb1"], "traffic": 30_000,
        "attacks": ["swap-best"], "progress": False,
    }  # fmt: skip
    found = plan(**asked)
    proven = dict(found.table.select("policy", "proven").iter_rows())
    bound = agnostic_regret([0.9], 30_000, 0.1, 0.0).pseudo_regret
    assert proven["multi-layer-race"] == f"{bound:,.0f}"
    assert proven["ucb1"] == NO_BOUND
    words = found.recommendation
    assert words.startswith("Take optimistic-log-barrier:")
    assert f"it loses at most {proven['optimistic-log-barrier']} on average" in words
    assumed = "under any attack that fixes its answer for every arm before the arm is drawn"
    assert assumed in words
    assert f"others at this C, at most: multi-layer-race {proven['multi-layer-race']}." in words
