"""Ray, where it is installed: ``make test-ray`` installs it in an environment of its own."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from armrace.errors import InvalidParameter, WorkersLost
from armrace.simulation import parallel
from armrace.simulation.executors import chosen_executor, on_ray
from armrace.simulation.simulate import run_experiments
from shared_experiments import EXPERIMENTS

pytest.importorskip("ray")

BIN = Path(sys.executable).parent
SECONDS = 300


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


def test_a_cluster_of_ones_own_is_not_to_be_reached_from_elsewhere(executor):
    address = executor.submit(eval, "__import__('ray').util.get_node_ip_address()").result()
    assert address == "127.0.0.1"


def test_an_address_where_nobody_is_is_refused_within_seconds():
    started = time.monotonic()
    refused = pytest.raises(WorkersLost, match=r"no cluster of Ray answers at 127\.0\.0\.1:1;")
    with refused, chosen_executor("ray", "127.0.0.1:1"):
        pass
    assert time.monotonic() - started < 10


def test_a_server_that_is_no_cluster_is_refused_within_seconds(monkeypatch):
    monkeypatch.setattr(on_ray, "_SECONDS_TO_CONNECT", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        refused = pytest.raises(WorkersLost, match="no cluster of Ray answers")
        with refused, chosen_executor("ray", f"127.0.0.1:{silent.getsockname()[1]}"):
            pass
    assert time.monotonic() - started < 10


class Head:
    """A head of Ray and its workers, on loopback and with a token of their own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # no other address than 127.0.0.1
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        words = [BIN / "ray", "start", "--head", f"--port={self.port}", "--num-cpus=2", "--block"]
        words += ["--object-store-memory=100000000", "--include-dashboard=false"]
        self.process = subprocess.Popen(
            [*words, f"--temp-dir={folder}"],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("no head")

    def kill(self, program: str) -> None:
        """Kill those of its processes that run this program."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "stat").read_text().rpartition(")")
                if name[0].endswith(program) and int(name[2].split()[3]) == self.process.pid:
                    os.kill(int(folder.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def head():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # sockets: short names
        head = Head(Path(folder))
        try:
            head.wait()
            yield head
        finally:
            head.stop()


def figures(words, folder):
    done = subprocess.run(
        [*words, "--json", "-"], cwd=folder, capture_output=True, text=True, check=True
    )
    return [[entry["spec"], entry["summary"]] for entry in json.loads(done.stdout)]


@pytest.mark.parametrize("program", ["gcs_server", ""], ids=["head", "all"])
def test_a_dead_head_ends_the_command_with_a_sentence_and_loses_nothing(head, program, tmp_path):
    words = [BIN / "armrace", "compare", "--policies", "ucb1", "--horizon", "1e5", "--no-report"]
    words += ["--attack", "zero-best", "--budget", "0,10", "--replications", "2500"]
    kept = [*words, "--folder", "long"]
    with subprocess.Popen(
        [*kept, "--executor", "ray", "--address", head.address],
        cwd=tmp_path,
        env=head.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + SECONDS
        # Until the first of the two cells is finished: the other one is under way then.
        while not list(tmp_path.glob("long/*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        killed = time.monotonic()
        head.kill(program)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 2
    assert time.monotonic() - killed < 40
    assert errors == (
        f"armrace: the cluster of Ray at {head.address} is gone; what was finished is in long, "
        "and the same command goes on from there.\n"
    )
    assert list(tmp_path.glob("long/*.parquet"))
    assert not list(tmp_path.glob("long/*.lock"))
    assert figures(kept, tmp_path) == figures(words, tmp_path)
