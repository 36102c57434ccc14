"""Workers that are lost, versions that differ, clusters that are not there."""

import os
import signal
import socket
import sys
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import armrace
from armrace.errors import InvalidParameter, UnknownName, WorkersLost
from armrace.planning import plan
from armrace.simulation import executors, parallel
from armrace.simulation.executors import chosen_executor
from armrace.simulation.simulate import run_experiments
from shared_experiments import EXPERIMENTS


@pytest.fixture(scope="module")
def expected():
    return run_experiments(EXPERIMENTS, workers=1)


@pytest.fixture
def small_tasks(monkeypatch):
    """Makes tasks of one replication, a few at a time, so that much is left in mid-run."""
    monkeypatch.setattr(parallel, "_SECONDS_A_TASK", 0.0)
    monkeypatch.setattr(parallel, "_TASKS_AT_ONCE", 16)


class KillsInMidRun:
    """A progress report that kills a process once, as soon as something is finished."""

    def __init__(self, find):
        self.find = find
        self.at = None

    def __call__(self, share):
        if self.at is None and share > 0:
            self.at = share
            os.kill(self.find(), signal.SIGKILL)


def test_a_killed_worker_changes_no_bit(expected, small_tasks):
    with chosen_executor("dask", workers=2) as executor:
        pids = set(executor._client.run(os.getpid).values())
        assert len(pids) == 2
        kill = KillsInMidRun(lambda: min(pids))
        results = run_experiments(EXPERIMENTS, executor, progress=kill)
    assert 0 < kill.at < 1
    for result, other in zip(results, expected, strict=True):
        assert result.rows.equals(other.rows)
        assert result.view == other.view
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_change_no_bit(expected):
    with chosen_executor("processes", workers=1) as pool:
        results = run_experiments(EXPERIMENTS, pool)
    assert all(one.rows.equals(other.rows) for one, other in zip(results, expected, strict=True))


def test_a_broken_pool_of_ones_own_is_told_in_one_sentence():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(BrokenExecutor):
            pool.submit(os._exit, 1).result()
        with pytest.raises(WorkersLost, match=r"^the workers died; .*\.$"):
            run_experiments(EXPERIMENTS, pool)


class Failing(Executor):
    """Fails or drops every task."""

    def __init__(self, error):
        self.error = error

    def submit(self, function, /, *arguments, **named):
        future = Future()
        if self.error is None:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    ("error", "words"), [(BrokenExecutor(), "the workers died"), (None, "dropped tasks")]
)
def test_workers_that_die_again_and_again_or_drop_their_tasks_are_given_up(error, words):
    with pytest.raises(WorkersLost, match=words):
        run_experiments(EXPERIMENTS, Failing(error))


def test_workers_with_other_code_are_refused():
    with pytest.raises(InvalidParameter, match="another version of armrace"):
        parallel.run_batch("other code", parallel.run_replication, EXPERIMENTS[0], [0])


@pytest.mark.parametrize(
    ("choice", "error", "words"),
    [
        (("threds",), UnknownName, "there is no executor named 'threds'; did you mean 'threads'?"),
        (("threads", "x:1"), InvalidParameter, "an address is that of a cluster of dask"),
        (("dask", "x:1", 2), InvalidParameter, "leave the number of workers out"),
        (("dask", None, 0), InvalidParameter, "workers must be at least 1; got 0."),
        (("dask", "127.0.0.1:1"), WorkersLost, "no Dask scheduler answers at 127.0.0.1:1"),
        (("dask", "nowhere"), WorkersLost, "no Dask scheduler answers at nowhere"),
    ],
)
def test_choices_that_cannot_be_are_refused(choice, error, words):
    with pytest.raises(error) as refusal, chosen_executor(*choice):
        pass
    assert words in str(refusal.value)
    assert str(refusal.value).count("\n") == 0


def test_a_server_that_is_no_scheduler_is_refused_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(executors, "_SECONDS_TO_ANSWER", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        refused = pytest.raises(WorkersLost, match="no Dask scheduler answers")
        with refused, chosen_executor("dask", address):
            pass


def test_a_missing_extra_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused = pytest.raises(InvalidParameter, match=r"pip install 'armrace\[dask\]'\.$")
    with refused, chosen_executor("dask"):
        pass


def test_executors_can_be_named():
    given = {"environment": [0.6, 0.4], "horizon": 100, "replications": 3, "workers": 1}
    usual = armrace.simulate("ucb1", **given)
    assert armrace.simulate("ucb1", **given, executor="threads").rows.equals(usual.rows)


@pytest.mark.parametrize(
    ("executor", "error", "words"),
    [
        ("thread", UnknownName, "did you mean 'threads'"),
        (4, InvalidParameter, "executor must be one of threads, processes, dask"),
        (ProcessPoolExecutor, InvalidParameter, "executor must be"),
    ],
)
def test_what_is_no_executor_is_refused(executor, error, words):
    with pytest.raises(error, match=words):
        armrace.simulate("ucb1", [0.6, 0.4], horizon=10, replications=1, executor=executor)
    with pytest.raises(error, match=words):
        armrace.redteam("ucb1", [0.6, 0.4], 5, horizon=100, effort="quick", executor=executor)
    with pytest.raises(error, match=words):
        plan([0.6, 0.4], traffic=100, days=1, policies=["ucb1"], executor=executor)
