"""SpoilThenSwap: what it shows."""

from __future__ import annotations

from armrace.adversaries import SpoilThenSwap
from proposals import SETTING, strike


def test_half_of_the_budget_spoils_and_the_rest_swaps():
    state = SpoilThenSwap().start(SETTING)
    paid = [0.5, 1.0, 0.25]
    assert strike(state, paid, left=SETTING.budget) == [0.0, 0.0, 0.0]
    assert strike(state, paid, left=SETTING.budget / 2) == [0.5, 0.25, 1.0]
