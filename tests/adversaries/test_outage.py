"""Construction next door: less for a while, then as before."""

import pytest

from armrace.adversaries.daily_life import Construction
from proposals import SETTING, strike

REWARDS = [0.5, 1.0, 0.25]


@pytest.mark.parametrize(("round", "works"), [(49, False), (50, True), (149, True), (150, False)])
def test_by_default_the_best_arm_suffers_early_and_for_a_tenth_of_the_run(round, works):
    paid = [0.5, 0.4 if works else 1.0, 0.25]
    assert strike(Construction().start(SETTING), REWARDS, round=round) == pytest.approx(paid)


def test_arm_window_and_severity_are_options():
    state = Construction(arm=0, first=2, length=1, severity=1).start(SETTING)
    assert strike(state, REWARDS, round=1) == REWARDS
    assert strike(state, REWARDS, round=2) == [0.0, 1.0, 0.25]
    assert strike(state, REWARDS, round=3) == REWARDS
