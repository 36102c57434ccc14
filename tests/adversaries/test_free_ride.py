"""FreeRide: what it shows."""

from __future__ import annotations

from armrace.adversaries import FreeRide
from proposals import SETTING


def test_the_best_arm_falls_and_all_others_rise():
    assert FreeRide().change_rewards(SETTING, [0.0, 1.0, 0.25]) == [1.0, 0.0, 1.0]
