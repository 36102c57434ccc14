"""What attacks see of a costly distribution: computed again when the plays have grown."""

import numpy as np

import armrace
from armrace.kernels import engine
from armrace.kernels.engine import make_ledger

SETTING = {
    "environment": [0.4, 0.6],
    "adversary": "zero-best-when-likely",
    "budget": 30.0,
    "horizon": 1_500,
    "replications": 4,
    "progress": False,
}


def test_the_weights_are_due_when_an_arm_has_grown_by_the_share():
    ledger, workspace = make_ledger(3, 1, 0.0), engine.make_workspace(3, growth=0.03)
    ledger.pulls[:] = 0, 10, 1_000
    engine._postpone_refresh(ledger, workspace, 1_010)
    assert workspace.due.tolist() == [1, 11, 1_030, 1_021]
    assert not workspace.stale[0]


def test_without_growth_the_weights_are_always_due():
    ledger, workspace = make_ledger(3, 1, 0.0), engine.make_workspace(3)
    ledger.pulls[:] = 5
    engine._postpone_refresh(ledger, workspace, 15)
    assert workspace.stale[0]
    assert not workspace.due.any()


def test_a_growth_of_next_to_nothing_changes_nothing():
    exact = armrace.simulate("thompson", **SETTING)
    refreshed = armrace.simulate("thompson", **SETTING, refresh=1e-9)
    assert refreshed.rows.equals(exact.rows)
    assert "refresh" not in exact.spec
    assert refreshed.spec["refresh"] == 1e-9


def test_the_attack_still_does_its_work():
    """Refreshed at 3%, the attack harms about as much as with exact weights.

    The difference of the mean pseudo-regrets is within four standard errors; for independent
    runs of the same law this fails with a probability below 1e-4.
    """
    many = {**SETTING, "replications": 60}
    exact = armrace.simulate("thompson", **many).figure("pseudo_regret")
    seen = armrace.simulate("thompson", **many, refresh=0.03).figure("pseudo_regret")
    assert abs(exact.mean - seen.mean) < 4 * np.hypot(exact.stderr, seen.stderr)
    quiet = armrace.simulate("thompson", **{**many, "budget": 0}).figure("pseudo_regret")
    assert seen.mean > quiet.mean + 4 * np.hypot(quiet.stderr, seen.stderr)
