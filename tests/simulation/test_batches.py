"""Batches: everything once, about as long as asked for, and nobody far behind."""

import pytest

from armrace.simulation import make_experiment
from armrace.simulation.parallel import Batch, Batches


def experiments(*horizons):
    return [
        make_experiment(policy="ucb1", environment=[0.5, 0.4], horizon=horizon)
        for horizon in horizons
    ]


def drain(batches):
    taken = []
    while (batch := batches.take()) is not None:
        taken.append(batch)
    return taken


def test_every_replication_is_taken_exactly_once():
    missing = [range(50), [3, 4, 9], []]
    taken = drain(Batches(experiments(100, 1000, 10), missing, seconds=0.01))
    for position, numbers in enumerate(missing):
        own = [n for batch in taken if batch.position == position for n in batch.replications]
        assert own == list(numbers)


def test_the_first_batch_is_small_and_later_ones_take_the_time_asked_for():
    batches = Batches(experiments(10_000), [range(10_000)], seconds=1.0)
    first = batches.take()
    assert len(first.replications) == 10  # at 10 us a round
    batches.learn(first, seconds=0.02)  # 2 ms a replication
    second = batches.take()
    assert len(second.replications) == 500
    batches.learn(second, seconds=3.0)  # a busy moment is no reason to change
    assert len(batches.take().replications) == 500


def test_costs_are_each_experiments_own():
    batches = Batches(experiments(1000, 1000), [range(10_000)] * 2, seconds=0.1)
    cheap, dear = batches.take(), batches.take()
    assert (cheap.position, dear.position) == (0, 1)
    batches.learn(cheap, seconds=1e-4 * len(cheap.replications))
    batches.learn(dear, seconds=5e-3 * len(dear.replications))
    sizes = {batch.position: len(batch.replications) for batch in drain(batches)[:2]}
    assert sizes == {0: 1000, 1: 20} or set(sizes) == {1}


def test_the_experiment_that_is_furthest_behind_comes_next():
    batches = Batches(experiments(1000, 10), [range(100), range(100)], seconds=0.1)
    ends = [0, 0]
    for batch in drain(batches):
        assert ends[batch.position] == min(ends)
        ends[batch.position] = batch.replications[-1] + 1
        ends = [end if end < 100 else 10**9 for end in ends]


def test_a_batch_that_was_lost_is_taken_again_first():
    batches = Batches(experiments(10), [range(5)], seconds=1e-4)
    lost = batches.take()
    assert lost == Batch(0, range(1))
    batches.give_back(lost)
    assert batches.take() is lost
    assert batches.take().replications[0] == 1


@pytest.mark.parametrize("seconds", [0.0, 1e-12])
def test_no_time_at_all_makes_batches_of_one(seconds):
    assert len(drain(Batches(experiments(10), [range(7)], seconds))) == 7
