"""Ray, where it is installed: ``make test-ray`` installs it in an environment of its own."""

import os
import signal
import time

import pytest

from armrace.errors import InvalidParameter, WorkersLost
from armrace.simulation import parallel
from armrace.simulation.executors import chosen_executor
from armrace.simulation.simulate import run_experiments
from shared_experiments import EXPERIMENTS

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def executor():
    with chosen_executor("ray", workers=2) as executor:
        yield executor


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(parallel, "_SECONDS_A_TASK", 0.0)
    monkeypatch.setattr(parallel, "_TASKS_AT_ONCE", 16)


def test_a_killed_ray_worker_changes_no_bit(executor, small_tasks):
    killed = []

    def kill(share):
        if not killed and share > 0:
            killed.append(share)
            os.kill(executor.submit(os.getpid).result(), signal.SIGKILL)

    results = run_experiments(EXPERIMENTS, executor, progress=kill)
    assert 0 < killed[0] < 1
    for result, other in zip(results, run_experiments(EXPERIMENTS, workers=1), strict=True):
        assert result.rows.equals(other.rows)
        assert result.view == other.view


def test_an_error_of_a_task_is_raised_as_it_was(executor):
    with pytest.raises(InvalidParameter, match="another version"):
        executor.submit(
            parallel.run_batch, "other", parallel.run_replication, EXPERIMENTS[0], [0]
        ).result()


def test_a_task_that_kills_its_workers_is_told(executor):
    with pytest.raises(WorkersLost, match="lost a task"):
        executor.submit(os._exit, 1).result(120)


def test_an_address_where_nobody_is_is_refused_within_seconds():
    started = time.monotonic()
    refused = pytest.raises(WorkersLost, match=r"no cluster of Ray answers at 127\.0\.0\.1:1;")
    with refused, chosen_executor("ray", "127.0.0.1:1"):
        pass
    assert time.monotonic() - started < 10
