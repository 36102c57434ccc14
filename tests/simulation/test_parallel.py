"""Results do not depend on who computes them, nor in which batches."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import armrace
from armrace.simulation import make_experiment, parallel
from armrace.simulation.parallel import Batch, Batches

SETTING = {
    "policy": "multi-layer-race",
    "environment": [0.6, 0.5, 0.4],
    "adversary": "zero-best",
    "budget": 25.5,
    "horizon": 700,
    "replications": 7,
    "seed": 3,
}


@pytest.fixture(scope="module")
def expected():
    return armrace.simulate(**SETTING, workers=1)


@pytest.fixture
def small_tasks(monkeypatch):
    """Makes tasks of one replication, so that several go to an executor."""
    monkeypatch.setattr(parallel, "_SECONDS_A_TASK", 0.0)


def assert_same(result, expected):
    assert result.rows.equals(expected.rows)
    assert result.view == expected.view
    assert result.spec == expected.spec


@pytest.mark.parametrize("workers", [2, 5, None])
def test_threads_do_not_change_a_bit(expected, workers):
    assert_same(armrace.simulate(**SETTING, workers=workers), expected)


def test_a_thread_pool_of_ones_own_does_not_change_a_bit(expected, small_tasks):
    with ThreadPoolExecutor(3) as executor:
        assert_same(armrace.simulate(**SETTING, executor=executor), expected)


def test_a_replication_does_not_depend_on_how_many_there_are(expected):
    few = armrace.simulate(**{**SETTING, "replications": 2})
    assert few.rows.equals(expected.rows.filter(expected.rows["replication"] < 2))


def test_different_seeds_and_replications_give_different_runs(expected):
    other = armrace.simulate(**{**SETTING, "seed": 4})
    assert not other.final["pulls"].equals(expected.final["pulls"])
    assert not other.final["regret"].equals(expected.final["regret"])
    assert len(set(expected.final["regret"].to_list())) > 1


def test_an_error_in_a_worker_reaches_the_caller():
    def fail(experiment, replication, control=None):
        raise RuntimeError("worker lost")

    with pytest.raises(RuntimeError, match="worker lost"):
        parallel.run_all([make_experiment(**SETTING)], None, None, lambda share: None, fail)


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


def test_a_batch_that_was_lost_is_taken_again_first():
    batches = Batches(experiments(10), [range(5)], seconds=1e-4)
    lost = batches.take()
    assert lost == Batch(0, range(1))
    batches.give_back(lost)
    assert batches.take() is lost
    assert batches.take().replications[0] == 1
