"""Who sees the arm: both accounts of corruption, and what is charged in each model."""

import numpy as np
import pytest

import armrace
from armrace.simulation.experiment import make_experiment
from armrace.testing.contract import compare_with_reference

KW = {
    "environment": [0.4, 0.6, 0.5],
    "adversary": "free-ride",
    "budget": 20.5,
    "horizon": 500,
    "replications": 3,
    "seed": 4,
}


@pytest.mark.parametrize("account", ["largest", "seen"])
@pytest.mark.parametrize("attack", ["free-ride", "zero-best-when-likely", "oracle"])
def test_the_engine_agrees_with_the_reference(account, attack):
    settings = {**KW, "adversary": attack}
    compare_with_reference(make_experiment(policy="exp3", account=account, **settings))


def test_a_change_that_is_refused_when_the_arm_is_drawn_is_not_booked():
    # Most changes do not fit into the rest of the budget, and the attack is asked to the end.
    uniform = {"name": "uniform", "lows": (0.2, 0.1, 0.0), "highs": (1.0, 0.9, 0.8)}
    settings = {**KW, "environment": uniform, "adversary": "zero-best", "budget": 3.1}
    compare_with_reference(make_experiment(policy="exp3", account="seen", **settings))
    result = armrace.simulate("exp3", account="seen", **settings)
    assert np.all(result.final["refused"].to_numpy() > 50)


def test_in_the_paper_s_model_what_is_seen_is_at_most_what_is_charged():
    result = armrace.simulate("exp3", **KW)
    charged, seen = result.sample("corruption"), result.sample("seen_corruption")
    assert np.all(charged == 20.0)
    assert np.all(seen <= charged)
    assert seen.mean() < 15


def test_who_sees_the_arm_pays_for_that_arm_alone():
    result = armrace.simulate("exp3", account="seen", **KW)
    charged, seen = result.sample("corruption"), result.sample("seen_corruption")
    assert np.all(seen == 20.0)
    assert np.all(charged > 20.5)
    assert result.spec["account"] == "seen"


def test_refused_changes_are_counted():
    # Rewards that are not named may change by anything, so that the attack is asked to the end.
    uniform = {"name": "uniform", "lows": (0.2, 0.1, 0.0), "highs": (1.0, 0.9, 0.8)}
    attacked = {**KW, "environment": uniform, "adversary": "zero-best"}
    scarce = armrace.simulate("exp3", **{**attacked, "budget": 3.1})
    assert np.all(scarce.sample("corruption") <= 3.1)
    assert np.all(scarce.final["refused"].to_numpy() > 400)
    ample = armrace.simulate("exp3", **{**attacked, "budget": 1e6})
    assert ample.final["refused"].to_list() == [0, 0, 0]
