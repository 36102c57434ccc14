"""The engine and the reference agree, and what an attack is told shows in what it does."""

import numpy as np
import pytest

from armrace.kernels.generics import corrupt
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import make_experiment
from armrace.verification.claims import windows
from armrace.verification.protocol import Telltale, disagreements
from armrace.verification.runs import examine_window
from verification.late import mistaken_engine

KW = {"environment": [0.6, 0.5, 0.4], "adversary": Telltale(), "horizon": 20_000, "seed": 5}


@pytest.mark.parametrize("policy", ["sharp-race", "exp3"])
@pytest.mark.parametrize(("account", "budget"), [("largest", 628.0), ("seen", 400.0)])
def test_the_engine_agrees_with_the_reference_far_into_a_run(policy, account, budget):
    # 628 is what 10,048 rounds cost: it ends within the window.
    experiment = make_experiment(policy=policy, account=account, budget=budget, **KW)
    assert disagreements(experiment, range(10_000, 10_100)) == []


def test_what_is_told_and_booked_wrongly_is_named():
    experiment = make_experiment(policy="exp3", budget=5_000.0, **KW)
    with mistaken_engine("the attack shown the arm that is drawn"):
        found = disagreements(experiment, range(300, 400))
    assert {"attack.told", "policy.losses"} <= set(found)


def test_the_attack_spends_the_same_in_every_round_and_shows_what_it_is_told():
    told = [((0.2, 0.8), 0, 9.0), ((0.3, 0.7), 0, 9.0), ((0.2, 0.8), 0, 8.0), ((0.2, 0.8), 1, 9.0)]
    shown = []
    for weights, number, left in told:
        state, rewards = Telltale().start(None), np.array([1.0, 0.0])
        stream = stream_for(0, Purpose.ADVERSARY, 0)
        corrupt(state, number, np.array(weights), rewards, left, stream)
        changes = np.abs(rewards - [1.0, 0.0])
        assert changes.max() == 1 / 16
        assert 0 < changes.min() < 1 / 16
        shown.append(rewards.tolist())
    assert len({tuple(each) for each in shown}) == len(told)


def test_windows_lie_in_every_part_and_at_the_end():
    for seed in range(5):
        found = windows(10_000, 4, 50, seed)
        assert [window.start // 2_500 for window in found[:4]] == [0, 1, 2, 3]
        assert found[4] == range(9_950, 10_000)
    assert windows(10_000, 4, 50, 1) != windows(10_000, 4, 50, 2)


@pytest.mark.parametrize("policy", ["multi-layer-race", "guarded"])
def test_a_window_has_its_own_rewards_only(policy):
    experiment = make_experiment(
        policy=policy, environment=[1.0, 0.0], adversary="swap-best", budget=30.0, horizon=4_096
    )
    met = examine_window(experiment, 0, before=500, rounds=30)
    assert met.pulls.sum() <= 30
    forged = np.abs(met.sums - met.pulls * np.array([1.0, 0.0])).sum(axis=1)
    assert forged.tolist() == met.corruption.tolist() == met.pulls.sum(axis=1).tolist()
