"""Results do not depend on who computes them."""

import multiprocessing
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import armrace
from armrace.errors import InvalidParameter
from armrace.simulation import make_experiment, parallel

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


def test_processes_do_not_change_a_bit(expected, small_tasks):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        assert_same(armrace.simulate(**SETTING, executor=executor), expected)


@pytest.mark.long  # in short: tests/docs/test_cluster.py, and a killed worker in test_executors.py
def test_a_dask_cluster_does_not_change_a_bit(expected, small_tasks):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            worker_dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        assert_same(armrace.simulate(**SETTING, executor=executor), expected)


class LastFirst(Executor):
    """Runs what it was given only when asked for more, and in reverse."""

    def __init__(self):
        self.waiting = []

    def submit(self, function, /, *arguments, **named):
        future = Future()
        self.waiting.append((future, function, arguments, named))
        if len(self.waiting) == SETTING["replications"]:
            for given, call, positional, keywords in reversed(self.waiting):
                given.set_result(call(*positional, **keywords))
        return future


def test_the_order_in_which_tasks_finish_does_not_change_a_bit(expected, small_tasks):
    assert_same(armrace.simulate(**SETTING, executor=LastFirst()), expected)


def test_a_replication_does_not_depend_on_how_many_there_are(expected):
    few = armrace.simulate(**{**SETTING, "replications": 2})
    assert few.rows.equals(expected.rows.filter(expected.rows["replication"] < 2))


@pytest.mark.parametrize("replications", [1, 2, 3, 13])
def test_every_replication_is_there_exactly_once(small_tasks, replications):
    with ThreadPoolExecutor(2) as executor:
        setting = {**SETTING, "replications": replications, "executor": executor}
        result = armrace.simulate(**setting)
    assert result.final["replication"].to_list() == list(range(replications))


def test_equal_seeds_give_equal_runs(expected):
    assert_same(armrace.simulate(**SETTING), expected)


def test_different_seeds_give_different_runs(expected):
    other = armrace.simulate(**{**SETTING, "seed": 4})
    assert not other.final["pulls"].equals(expected.final["pulls"])
    assert not other.final["regret"].equals(expected.final["regret"])


def test_replications_differ_from_one_another(expected):
    assert len(set(expected.final["regret"].to_list())) > 1


def test_no_workers_are_refused():
    with pytest.raises(InvalidParameter, match=r"^workers must be at least 1; got 0\.$"):
        armrace.simulate(**SETTING, workers=0)


def test_an_error_in_a_worker_reaches_the_caller():
    def fail(experiment, replication, control=None):
        raise RuntimeError("worker lost")

    with pytest.raises(RuntimeError, match="worker lost"):
        parallel.run_all([make_experiment(**SETTING)], None, None, lambda share: None, fail)


def test_progress_ends_at_the_whole():
    shares = []
    experiment = armrace.simulation.make_experiment(**SETTING)
    parallel.run_all([experiment], None, 2, shares.append)
    assert shares[-1] == 1.0
    assert all(0.0 <= share <= 1.0 for share in shares)
