"""Many policies on the same rewards."""

import numpy as np
import pytest

import armrace
from armrace.errors import InvalidParameter
from armrace.policies import ActiveArmElimination, EnlargedArmElimination, FastSlowRace, Ucb1
from armrace.simulation.experiment import make_experiment

SETTING = {
    "environment": [0.7, 0.4],
    "adversary": "zero-best",
    "budget": 5.0,
    "horizon": 300,
    "replications": 3,
    "seed": 8,
}
RACES = [ActiveArmElimination(), EnlargedArmElimination(corruption=5), FastSlowRace(corruption=5)]


def test_all_policies_meet_the_same_rewards(parts_after):
    totals = []
    for policy in RACES:
        experiment = make_experiment(policy=policy, **SETTING)
        totals.append(parts_after(experiment, replication=2).ledger.clean_totals)
    assert totals[0].min() > 0
    assert all(np.array_equal(total, totals[0]) for total in totals)


def test_the_table_lists_the_best_policy_first_with_the_figures_of_each_result():
    comparison = armrace.compare(RACES, **SETTING)
    rows = comparison.table("regret").to_dicts()
    assert len(rows) == len(RACES)
    assert rows == sorted(rows, key=lambda row: row["mean"])
    for row in rows:
        result = comparison.results[row["policy"]]
        assert row["mean"] == pytest.approx(result.final["regret"].mean())
        assert row["max"] == result.final["regret"].max()
        assert row["low"] <= row["mean"] <= row["high"]
    curves = comparison.curves()
    assert set(curves["policy"]) == {policy.tag() for policy in RACES}
    assert curves.height == sum(result.curves.height for result in comparison.results.values())


def test_a_policy_that_occurs_twice_is_told_apart():
    twice = [ActiveArmElimination(delta=0.1), ActiveArmElimination(delta=0.2)]
    comparison = armrace.compare(twice, **SETTING)
    assert list(comparison.results) == [
        "active-arm-elimination (delta=0.1)",
        "active-arm-elimination (delta=0.2)",
    ]
    assert len(armrace.compare([RACES[0], RACES[0]], **SETTING).results) == 2


@pytest.mark.parametrize("policies", [[], "ucb1", {"name": "ucb1"}, Ucb1(), 5, None])
def test_what_is_no_list_of_policies_is_refused(policies):
    with pytest.raises(InvalidParameter, match="policies must be a list of policies; got"):
        armrace.compare(policies, **SETTING)


def test_ranks_are_by_mean_and_by_tail():
    results = armrace.compare(RACES, **SETTING).results.values()
    regrets = ([1.0, 1.0, 9.0], [3.0, 3.0, 3.0], [3.0, 3.0, 3.0])
    for result, sample in zip(results, regrets, strict=True):
        result.final = result.final.with_columns(regret=np.array(sample))
    table = armrace.Comparison(list(results)).table("regret")
    by_policy = dict(zip(table["policy"], table.select("rank", "rank_p95").rows(), strict=True))
    steady = by_policy["enlarged-arm-elimination"]
    assert steady == by_policy["fast-slow-race"] == (1, 1)
    assert by_policy["active-arm-elimination"] == (3, 3)
