"""A loss of power at any moment loses nothing that was acknowledged; and the test can tell."""

from __future__ import annotations

from torture.power import lose_power

RUNS = 60


def test_nothing_acknowledged_is_lost():
    outcomes = [lose_power(seed) for seed in range(RUNS)]
    assert sum(outcome.acknowledged > 0 for outcome in outcomes) > RUNS / 2
    assert [seed for seed, outcome in enumerate(outcomes) if outcome.lost] == []


def test_without_full_synchronisation_losses_are_found_and_noticed():
    """The positive control: the same runs with a setting that is known to lose."""
    outcomes = [lose_power(seed, synchronous="NORMAL") for seed in range(RUNS)]
    lost = [outcome for outcome in outcomes if outcome.lost]
    assert len(lost) > RUNS / 3
    assert all(outcome.noticed for outcome in lost)
