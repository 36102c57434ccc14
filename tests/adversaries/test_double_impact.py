"""DoubleImpact: what it shows."""

from __future__ import annotations

from armrace.adversaries import DoubleImpact
from proposals import SETTING


def test_both_arms_change_or_none():
    attack = DoubleImpact()
    assert attack.change_rewards(SETTING, [0.0, 1.0, 0.0]) == [0.0, 0.0, 1.0]
    assert attack.change_rewards(SETTING, [0.0, 1.0, 1.0]) == [0.0, 1.0, 1.0]
    assert attack.change_rewards(SETTING, [1.0, 0.0, 0.0]) == [1.0, 0.0, 0.0]
