"""Click bots: bursts without clicks, again and again."""

import pytest

from armrace.adversaries.daily_life import ClickBots
from armrace.errors import InvalidParameter
from proposals import BEST, SETTING, strike

REWARDS = [0.5, 1.0, 0.25]


def test_by_default_the_best_ad_loses_a_fifth_of_its_clicks():
    state = ClickBots().start(SETTING)
    struck = [strike(state, REWARDS, round=t) != REWARDS for t in range(SETTING.horizon)]
    assert sum(struck) == SETTING.horizon / 5
    assert struck[:10] == [True, True, *[False] * 8] == struck[10:20]
    assert strike(state, REWARDS) == [0.5, 0.0, 0.25]
    assert state.ad == BEST


@pytest.mark.parametrize(("round", "struck"), [(2, True), (3, False), (6, False), (7, True)])
def test_ad_period_and_burst_are_options(round, struck):
    state = ClickBots(ad=0, period=7, burst=3).start(SETTING)
    assert strike(state, REWARDS, round=round) == [0.0 if struck else 0.5, 1.0, 0.25]


def test_a_burst_fits_into_its_period():
    with pytest.raises(InvalidParameter, match="burst must be at most period"):
        ClickBots(period=3, burst=4)
