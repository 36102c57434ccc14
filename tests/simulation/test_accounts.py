"""Who sees the arm: both accounts of corruption, and what is charged in each model."""

from __future__ import annotations

import numpy as np
import pytest

import armrace
from armrace.checking.contract import compare_with_reference
from armrace.errors import ArmraceError
from armrace.simulation.experiment import make_experiment

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
    # Every change costs 1, of which half a unit is left at the end; the attack is not asked again.
    attack = {"name": "oracle", "target": 0, "margin": 0.5}
    result = armrace.simulate("exp3", **{**KW, "adversary": attack, "budget": 3.1})
    assert result.final["refused"].to_list() != []
    assert np.all(result.sample("corruption") <= 3.1)


def test_an_account_has_a_name():
    with pytest.raises(ArmraceError, match="account must be one of largest, seen; got 'both'"):
        armrace.simulate("exp3", account="both", **KW)
