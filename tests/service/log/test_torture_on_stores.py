"""Stores under torture: losses of power, kills, and random sequences of requests on a database."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from torture.kills import kill_often
from torture.power import lose_power
from torture.sequences import BUDGET, DATABASES, on_database

KILLS, RUNS = 8, 80


def test_killed_servers_and_writers_lose_nothing_that_they_acknowledged(tmp_path):
    found = kill_often(tmp_path, range(KILLS))
    assert (found["server"], found["writer"]) == (6, 2)
    assert found["rewarded"] > 5 * KILLS


def test_a_loss_of_power_loses_nothing_that_was_acknowledged():
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


@pytest.mark.parametrize("machine", DATABASES, ids=lambda each: each.__name__)
def test_the_service_answers_as_the_model(machine, postgres):
    fewer = settings(BUDGET, max_examples=6)
    run_state_machine_as_test(on_database(machine, postgres.place), settings=fewer)
