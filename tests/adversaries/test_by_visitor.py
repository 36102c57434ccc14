"""Attacks on visitors who differ: whom they strike, and what they are where all are alike."""

import numpy as np
import pytest

from armrace.adversaries import BlindTwoPhaseByVisitor, TwoPhase, TwoPhaseByVisitor
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
        ({"where": "best", "where_arm": 4}, {1}),  # counted around: of three arms, number 1
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


def test_a_decoy_for_all_is_praised_unless_it_is_the_best() -> None:
    attack = TwoPhaseByVisitor(first="spoil-and-praise", decoy="arm", decoy_arm=5)
    experiment = make_experiment(
        policy="ucb1", environment=SHOP, adversary=attack, budget=1_000, horizon=200
    )
    run = run_reference(experiment)
    best, praised = SHOP.means.argmax(axis=1), [2, 2, 1]
    assert best.tolist() == [0, 1, 2]
    for visitor, paid in zip(run.visitors, run.paid, strict=True):
        assert [arm for arm in range(3) if paid[arm] == 1.0] == [praised[visitor]]


def test_who_does_not_see_the_distribution_counts_plays_of_each_kind_of_visitor() -> None:
    """Shares of the latest plays, among the visitors for whom an arm is the best.

    The leaf of the first visitor has its own state, so that its share of arm 0 rises alone.
    """
    attack = BlindTwoPhaseByVisitor(first="spoil", where="best", where_arm=0, first_low=0.8)
    experiment = make_experiment(
        policy="leaf-barrier", environment=SHOP, adversary=attack, budget=1_000, horizon=3_000
    )
    run = run_reference(experiment)
    visitors, arms = np.array(run.visitors), np.array(run.arms)
    changed = (np.array(run.clean) != np.array(run.paid)).any(axis=1)
    assert changed.sum() > 20
    shares = np.full(3, 1 / 3)
    for visitor, arm, struck in zip(visitors, arms, changed, strict=True):
        if visitor == 0:
            assert not struck or shares[0] >= 0.8
            shares = 0.98 * shares + 0.02 * (np.arange(3) == arm)
    assert shares.sum() == pytest.approx(1)
