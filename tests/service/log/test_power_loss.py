"""A loss of power at any moment loses nothing that was acknowledged; and the test can tell."""

from __future__ import annotations

from collections import Counter

from torture.power import lose_power

RUNS = 80


def test_nothing_acknowledged_is_lost():
    outcomes = [lose_power(seed) for seed in range(2 * RUNS)]
    assert sum(outcome.acknowledged > 0 for outcome in outcomes) > RUNS
    assert [seed for seed, outcome in enumerate(outcomes) if outcome.lost] == []
    seen = sum((outcome.seen for outcome in outcomes), Counter())
    assert min(seen["checkpoints"], seen["resets"]) > 2 * RUNS


def test_without_full_synchronisation_losses_are_found():
    """A positive control: the same runs with a setting that is known to lose."""
    outcomes = [lose_power(seed, synchronous="NORMAL") for seed in range(RUNS)]
    lost = [outcome for outcome in outcomes if outcome.lost]
    assert len(lost) > RUNS / 10
    # The mark loses power too, so that it may be set back as far as the log.
    assert sum(outcome.noticed for outcome in lost) > len(lost) / 2


def test_a_disk_that_does_not_synchronise_the_database_is_found():
    """A positive control of checkpoints: the log is reset before its copy is durable."""
    outcomes = [lose_power(seed, deaf_to=".db") for seed in range(RUNS)]
    assert sum(outcome.lost > 0 for outcome in outcomes) > RUNS / 5


def test_a_run_replays():
    assert lose_power(7) == lose_power(7)
