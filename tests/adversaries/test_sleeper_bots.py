"""Sleeper bots: honest, then not."""

import pytest

from armrace.adversaries.daily_life import SleeperBots
from armrace.errors import InvalidParameter
from proposals import BEST, SETTING, ledger_of, strike

REWARDS = [0.5, 1.0, 0.25]


@pytest.mark.parametrize(("round", "awake"), [(0, False), (499, False), (500, True), (999, True)])
def test_by_default_they_wake_at_half_time(round, awake):
    paid = [0.5, 0.0, 1.0] if awake else REWARDS
    assert strike(SleeperBots().start(SETTING), REWARDS, round=round) == paid


def test_decoy_and_waking_are_options():
    state = SleeperBots(decoy=0, wake=3).start(SETTING)
    assert strike(state, REWARDS, round=2) == REWARDS
    assert strike(state, REWARDS, round=3) == [1.0, 0.0, 0.25]


def test_the_budget_lasts_from_the_moment_they_wake():
    ledger = ledger_of(SleeperBots(), environment=(0.9, 0.8), budget=100)
    assert 99 < ledger.corruption[0] <= 100


def test_the_decoy_is_not_the_best_arm():
    with pytest.raises(InvalidParameter, match="decoy must not be the best arm"):
        SleeperBots(decoy=BEST).start(SETTING)
