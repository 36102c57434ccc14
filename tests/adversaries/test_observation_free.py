"""The observation-free attack: two stages, whatever happens."""

import pytest

from armrace.adversaries.poisoning import ObservationFree
from proposals import SETTING, ledger_of, strike

REWARDS = [0.5, 1.0, 0.25]


@pytest.mark.parametrize(
    ("round", "paid"),
    [
        (0, [0.0, 0.0, 0.0]),
        (33, [0.0, 0.0, 0.0]),
        (34, [0.0, 0.0, 1.0]),
        (99, [0.0, 0.0, 1.0]),
        (100, REWARDS),
    ],
)
def test_the_published_stages(round, paid):
    assert strike(ObservationFree().start(SETTING), REWARDS, round=round) == paid


def test_lengths_for_other_cases_as_computed_by_hand():
    """ln(50,000)/0.64 = 16.9, so 2 x 17; 0.8 x 34/0.2 = 136. ln(1000)/0.25 = 27.6, so 3 x 28."""
    assert ObservationFree.lengths(2, 50_000, 0.8) == (34, 136)
    assert ObservationFree.lengths(3, 1000, 0.5) == (84, 84)


def test_target_and_lengths_are_options():
    state = ObservationFree(target=0, spoil=1, praise=1).start(SETTING)
    assert strike(state, REWARDS, round=1) == [1.0, 0.0, 0.0]
    assert strike(state, REWARDS, round=2) == REWARDS


def test_it_costs_at_most_one_a_round():
    ledger = ledger_of(ObservationFree(spoil=150, praise=150), environment=(0.9, 0.8))
    assert 0 < ledger.corruption[0] <= 300
