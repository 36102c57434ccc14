"""The uncorrupted objective: half of the corruption is lost, whoever plays."""

import pytest

from armrace.adversaries import Setting
from armrace.adversaries.plain import CleanObjective
from armrace.policies import POLICIES
from proposals import SETTING, ledger_of, strike


def test_everything_is_hidden_for_as_long_as_the_budget_lasts():
    state = CleanObjective().start(SETTING)
    assert state.rounds == 50
    assert strike(state, [0.5, 1.0, 0.25], round=49) == [0.0, 0.0, 0.0]
    assert strike(state, [0.5, 1.0, 0.25], round=50) == [0.5, 1.0, 0.25]
    assert CleanObjective().start(Setting(SETTING.means, 10, 1e12)).rounds == 10
    assert CleanObjective(rounds=7).start(SETTING).rounds == 7


@pytest.mark.parametrize("policy", ["ucb1", "exp3", "multi-layer-race", "active-arm-elimination"])
def test_every_learner_loses_exactly_half_the_corruption_between_the_two_cases(policy):
    """With equal coins it plays alike in both, so what one case pays the other does not."""
    budget = 400
    lost = 0.0
    for rewards in ((1.0, 0.0), (0.0, 1.0)):
        environment = {"name": "deterministic", "rewards": rewards}
        ledger = ledger_of(CleanObjective(), policy, environment, horizon=budget, budget=budget)
        lost += ledger.clean_totals.max() - ledger.collected[1]
        assert ledger.corruption[0] == budget
    assert policy in POLICIES
    assert lost / 2 == budget / 2
