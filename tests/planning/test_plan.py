"""A plan's search, its table and its recommendation."""

import re
from typing import Any

import polars as pl
import pytest

from armrace.planning import Plan, plan
from armrace.planning import planner as module
from armrace.planning.plans import VACUOUS

ASKED: dict[str, Any] = {
    "means": [0.9, 0.5, 0.5],
    "traffic": 1000,
    "days": 4,
    "forged": 0.01,
    "policies": ["ucb1", "tsallis-inf", "active-arm-elimination", "thompson"],
    "attacks": ["swap-best", "zero-best-when-likely"],
    "replications": 10,
    "seed": 3,
}


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(**ASKED, progress=False, workers=1)


def row(found: Plan, policy: str) -> dict[str, Any]:
    return found.table.row(by_predicate=pl.col("policy") == policy, named=True)


def test_survival_follows_from_the_figures(found: Plan) -> None:
    for policy in ASKED["policies"]:
        own = found.cells.filter(pl.col("policy") == policy)
        lost = [r["budget"] for r in own.iter_rows(named=True) if r["right"] < 0.95 * r["runs"]]
        found_row = row(found, policy)
        assert found_row["lost_at"] == min(lost, default=None)
        passed = own.filter(pl.col("budget") < min(lost, default=float("inf")))["budget"]
        assert found_row["survives"] == passed.max()


def test_a_lost_policy_meets_no_larger_budget_but_the_suspected(found: Plan) -> None:
    for entry in found.table.iter_rows(named=True):
        own = found.cells.filter(pl.col("policy") == entry["policy"])["budget"]
        beyond = {b for b in own if entry["lost_at"] is not None and b > entry["lost_at"]}
        assert beyond <= {40.0}
    assert row(found, "tsallis-inf")["lost_at"] is not None


def test_costs_and_decisions_are_those_of_the_worst_attack(found: Plan) -> None:
    at = found.cells.filter((pl.col("policy") == "tsallis-inf") & (pl.col("budget") == 40))
    assert at["attack"].to_list() == ["swap-best", "zero-best-when-likely"]
    entry = row(found, "tsallis-inf")
    assert entry["suspected_right"] == min(at["right"])
    assert entry["suspected_cost"] == max(at["regret"])
    assert entry["suspected_cost_a_day"] == pytest.approx(max(at["regret"]) / 4)
    assert entry["suspected_worst_a_day"] == pytest.approx(max(at["regret_max"]) / 4)
    assert entry["suspected_decision_days"] == pytest.approx(max(at["decision_p95"]) / 1000)
    quiet = found.cells.filter((pl.col("policy") == "tsallis-inf") & (pl.col("budget") == 0))
    assert entry["cost"] == quiet["regret"].item()


def test_ucb1_is_lost_to_an_attack_that_tsallis_inf_survives(found: Plan) -> None:
    """Chance of failing: the seed is fixed; both hold in all runs of other seeds tried."""
    assert row(found, "ucb1")["survives"] < 40 <= row(found, "tsallis-inf")["survives"]
    assert row(found, "ucb1")["lost_to"] == "zero-best-when-likely"


def test_recommendation_names_a_survivor_with_its_evidence(found: Plan) -> None:
    words = found.recommendation
    best = found.table["policy"][0]
    assert best in {"tsallis-inf", "thompson"}
    assert words.startswith(f"Take {best}: with C = 40 (1% of all rounds forged), all 10 runs")
    assert "This rests on 10 simulated runs of 4,000 decisions" in words
    assert "Attacks see the probabilities of thompson slightly outdated" in words
    assert not re.search(r"None|nan|inf\b", words.replace("tsallis-inf", ""))


SMALL: dict[str, Any] = {
    **ASKED, "policies": ["ucb1", "active-arm-elimination"], "replications": 4, "progress": False,
}  # fmt: skip


BARRIER = {"name": "optimistic-log-barrier", "optimism": 0.1}
SAID: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"forged": 0.5},
        [
            "No policy here survives C = 2,000 (50% of",
            "active-arm-elimination comes furthest, up to C = 50 (1.25% of all rounds)",
        ],
    ),
    ({"forged": 0}, ["Take ucb1: all 4 runs ended right (with 95% confidence a probability of at"]),
    ({"means": [0.51, 0.5, 0.5], "days": 0.2}, ["No policy here can be recommended"]),
    (
        {"policies": ["thompson"], "attacks": ["oracle"], "replications": 1},
        ["Take thompson", "1 simulated run of 4,000 decisions"],
    ),
    (
        {"policies": ["thompson"], "attacks": ["swap-best"]},
        ["Take thompson", "Nothing is proven for thompson under this corruption"],
    ),
    (
        {"policies": ["ucb1"], "rounds": 1000},
        ["", "simulated runs of 1,000 decisions, 1 day of the 4 days asked for"],
    ),
    ({"policies": [BARRIER]}, ["Take optimistic-log-barrier (optimism 0.1): with C = 40"]),
]


@pytest.mark.parametrize(("changes", "words"), SAID, ids=lambda part: str(part)[:60])
def test_what_is_recommended(changes: dict[str, Any], words: list[str]) -> None:
    found = plan(**{**SMALL, **changes})
    assert found.recommendation.startswith(words[0])
    for each in words[1:]:
        assert each in found.recommendation
    if changes.get("forged") == 0:
        assert found.table["suspected_cost"].to_list() == found.table["cost"].to_list()
    if changes.get("days") == 0.2:  # too short to settle, even without an attack
        assert set(found.cells["budget"]) == {0.0}
        assert found.table["survives"].null_count() == 2
    if changes.get("attacks") == ["oracle"]:  # which looks at a distribution that is costly
        assert "oracle" in found.cells["attack"].to_list()


def test_an_interruption_leaves_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        results = original(*arguments)
        results[0].interrupted = True
        return results

    original = module.run_experiments
    monkeypatch.setattr(module, "run_experiments", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan(**{**SMALL, "policies": ["ucb1"]})


def test_among_equals_the_policy_with_a_theorem_is_recommended() -> None:
    policies = ["thompson", "optimistic-log-barrier"]
    asked = {**ASKED, "policies": policies, "attacks": ["swap-best"], "progress": False}
    found = plan(**asked)
    assert found.table["policy"].to_list() == policies
    assert found.recommendation.startswith("Take optimistic-log-barrier: with C = 40")
    assert "thompson was cheaper here within chance, but no bound is proven" in found.recommendation
    learner = found.question.learners()["optimistic-log-barrier"]
    bound = learner.guarantee_at(found.question.means, 4000, 40.0).pseudo_regret
    assert f"it loses at most {bound:,.0f} on average, of 1,600 that can" in found.recommendation
    assert found.table["proven"].to_list() == ["no bound", f"{bound:,.0f}"]


def test_a_bound_above_all_that_can_be_lost_is_no_reason_for_a_policy() -> None:
    """Among equals the cheapest is taken if no theorem says anything, and the plan says so."""
    policies = ["thompson", "optimistic-log-barrier"]
    asked = {**ASKED, "policies": policies, "attacks": ["swap-best"], "progress": False}
    found = plan(**{**asked, "days": 0.2, "forged": 0.05})
    assert found.table["proven"].to_list() == ["no bound", VACUOUS]
    words = found.recommendation
    assert words.startswith("Take thompson:")
    assert "Nothing is proven for thompson under this corruption: search" in words
    alone = plan(**{**asked, "days": 0.2, "forged": 0.05, "policies": policies[1:]})
    assert f"What is proven for optimistic-log-barrier at this C is {VACUOUS}" in (
        alone.recommendation
    )
