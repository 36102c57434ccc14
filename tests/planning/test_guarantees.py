"""Up to which corruption the theorems say something."""

from typing import Any

import pytest

from armrace.planning import make_question, plan
from armrace.planning.guarantees import guaranteed_corruption, rounds_until_guarantee
from armrace.policies import FastSlowRace, Guarded, MultiLayerRace, SharpRace
from armrace.theory import agnostic_regret, fast_slow_regret, guarded_regret, sharp_layers

ASKED: dict[str, Any] = {"means": [0.9, 0.4, 0.4], "traffic": 1e6, "days": 1, "delta": 0.1}


def test_the_race_is_covered_up_to_where_its_bound_reaches_the_next_arm() -> None:
    question = make_question(**ASKED)
    reach = guaranteed_corruption(question, MultiLayerRace(delta=0.1))
    assert reach is not None
    bounds = [agnostic_regret([0.5, 0.5], 10**6, 0.1, c).pseudo_regret for c in (reach, reach + 1)]
    assert bounds[0] < 0.5 * 10**6 <= bounds[1]


def test_arms_that_are_good_enough_raise_the_bar() -> None:
    near = {**ASKED, "means": [0.9, 0.4, 0.88]}
    strict, lenient = (make_question(**near, gap=gap) for gap in (0, 0.1))
    assert guaranteed_corruption(strict, MultiLayerRace()) is None
    assert guaranteed_corruption(lenient, MultiLayerRace()) is not None


@pytest.mark.parametrize("told", [5.0, 50_000.0])
def test_the_fast_slow_race_is_covered_up_to_what_it_was_told_or_not_at_all(told: float) -> None:
    race = FastSlowRace(corruption=told, delta=0.1)
    says = fast_slow_regret([0.5, 0.5], 10**6, 0.1, told).pseudo_regret < 0.5 * 10**6
    assert says == (told == 5)
    assert guaranteed_corruption(make_question(**ASKED), race) == (told if says else None)


def test_the_sharp_race_is_covered_up_to_what_its_slowest_layer_tolerates() -> None:
    question = make_question(**ASKED)
    told, untold = SharpRace(most_corruption=30), SharpRace()
    assert sharp_layers(3, 10**6, told.delta, told.first, 30)[-1].tolerated == 32
    assert guaranteed_corruption(question, told) == 32
    beyond = guaranteed_corruption(question, untold)
    assert beyond is not None
    assert beyond > 100


def test_a_guard_is_covered_around_any_base() -> None:
    question = make_question(**ASKED)
    reach = guaranteed_corruption(question, Guarded(delta=0.1))
    assert reach is not None
    bounds = [guarded_regret([0.5, 0.5], 10**6, 0.1, c).pseudo_regret for c in (reach, reach + 1)]
    assert bounds[0] < 0.5 * 10**6 <= bounds[1]
    assert guaranteed_corruption(question, Guarded(base="thompson", delta=0.1)) == reach
    assert guaranteed_corruption(question, Guarded(share=12, delta=0.1)) is None


def test_others_are_not_covered() -> None:
    question = make_question(**ASKED, policies=["ucb1", {"name": "multi-layer-race", "layers": 3}])
    assert [guaranteed_corruption(question, each) for each in question.policies] == [None, None]


ALONE: dict[str, Any] = {
    "means": [0.95, 0.05], "days": 1, "delta": 0.1, "forged": 0, "policies": ["multi-layer-race"],
    "replications": 1, "progress": False,
}  # fmt: skip


def test_a_race_that_says_nothing_yet_tells_when_it_will() -> None:
    found = plan(**ALONE, traffic=200, attacks=["swap-best"])
    rounds = rounds_until_guarantee(found.question, 0.1)
    assert rounds is not None
    for horizon, says in ((int(rounds), True), (int(rounds) - 1, False)):
        bound = agnostic_regret([0.9], horizon, 0.1, 0).pseudo_regret
        assert (bound < 0.9 * horizon) == says
    assert f"before about {rounds / 200:,.0f} days." in found.recommendation


def test_a_race_that_is_covered_is_said_to_be() -> None:
    found = plan(**ALONE, traffic=30_000, attacks=["swap-best"])
    reach = guaranteed_corruption(found.question, found.question.policies[0])
    assert found.table["guaranteed"].to_list() == [reach]
    assert f"multi-layer-race up to C = {reach:.3g}." in found.recommendation
    assumed = "Proven for any attack that fixes its answer for every arm before the arm is drawn"
    assert assumed in found.recommendation
