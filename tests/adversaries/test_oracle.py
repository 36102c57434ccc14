"""The oracle: known differences and a margin."""

import pytest

from armrace.adversaries.poisoning import Oracle
from proposals import SETTING, ledger_of, strike


def test_every_better_arm_loses_its_lead_and_the_margin():
    assert Oracle().start(SETTING).amounts.tolist() == pytest.approx([0.0, 0.35, 0.0])
    assert Oracle(target=0, margin=0.2).start(SETTING).amounts.tolist() == pytest.approx(
        [0.0, 0.7, 0.45]
    )


def test_rewards_are_lowered_where_they_may_be_seen_and_not_below_zero():
    state = Oracle(target=0, margin=0.2).start(SETTING)
    assert strike(state, [0.5, 1.0, 0.25]) == pytest.approx([0.5, 0.3, 0.0])
    assert strike(state, [0.5, 1.0, 0.25], [0.0, 0.0, 1.0]) == [0.5, 1.0, 0.0]
    assert strike(state, [0.5, 1.0, 0.25], left=0.1) == pytest.approx([0.5, 0.9, 0.15])


def test_ucb_ends_on_the_target():
    """One fixed seed; without the attack the target has fewer than 2,000 of the plays."""
    assert ledger_of(Oracle()).pulls[1] > 16_000
