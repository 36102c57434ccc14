"""Attacks on visitors who differ: whom they strike, and what they are where all are alike."""

import numpy as np
import pytest

from armrace.adversaries import TwoPhase, TwoPhaseByVisitor
from armrace.environments import Visitors
from armrace.simulation import simulate
from armrace.simulation.experiment import make_experiment
from armrace.simulation.reference import run_reference

SHOP = Visitors(
    vectors=np.array([[0.6, 0.8], [0.6, -0.8], [1.0, 0.0]]),
    means=np.array([[0.9, 0.1, 0.3], [0.2, 0.8, 0.3], [0.4, 0.5, 0.6]]),
    leaves=np.array([0, 1, 1]),
)


@pytest.mark.parametrize(
    ("where", "struck"),
    [
        ({"where": "everywhere"}, {0, 1, 2}),
        ({"where": "best", "where_arm": 1}, {1}),
        ({"where": "not-best", "where_arm": 1}, {0, 2}),
        ({"where": "close", "where_value": 0.15}, {2}),
        ({"where": "spread", "where_value": 0.5}, {0, 1}),
        ({"where": "coordinate", "where_arm": 1}, {0}),
    ],
)
def test_an_attack_strikes_whom_it_is_about(where: dict, struck: set[int]) -> None:
    experiment = make_experiment(
        policy="ucb1", environment=SHOP, adversary=TwoPhaseByVisitor(first="spoil", **where),
        budget=1_000, horizon=400,
    )  # fmt: skip
    run = run_reference(experiment)
    changed = (np.array(run.clean) != np.array(run.paid)).any(axis=1)
    assert set(np.array(run.visitors)[changed].tolist()) == struck


def test_where_visitors_are_alike_it_is_the_family_itself() -> None:
    given = {"first": "double-impact", "second": "zero", "split": 0.5, "first_low": 0.3}
    runs = [
        simulate("ucb1", [0.7, 0.5, 0.3], kind(**given), budget=20, horizon=400, replications=3)
        for kind in (TwoPhase, TwoPhaseByVisitor)
    ]
    assert runs[0].final["regret"].to_list() == runs[1].final["regret"].to_list()
    assert runs[0].final["corruption"].min() > 0
