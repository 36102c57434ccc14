"""The guide's commands on a real cluster: a scheduler and workers, each a process of its own."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from armrace.cli.main import run
from processes import started

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "from-a-laptop-to-a-cluster.md"
SHELL = re.compile(r"^```shell\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 600
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def commands(port: int) -> list[list[str]]:
    text = "".join(SHELL.findall(PAGE.read_text(encoding="utf-8"))).replace("8786", str(port))
    return [shlex.split(line.removeprefix("$ ")) for line in text.splitlines()]


class Cluster:
    """The guide's scheduler and workers, and its other commands."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.folder = folder
        servers = [words for words in commands(self.port) if words[0] == "dask"]
        self.rest = [words for words in commands(self.port) if words[0] != "dask"]
        assert [words[1] for words in servers] == ["scheduler", "worker"]
        self.scheduler, self.workers = (self.start(words) for words in servers)

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[1]}.log").open("wb") as log:
            return subprocess.Popen(
                words, cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT
            )

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def processor_time(self) -> float:
        """What the workers have used."""
        times = [each.cpu_times() for each in psutil.Process(self.workers.pid).children(True)]
        return sum(each.user + each.system for each in times)

    def stop(self) -> None:
        for process in (self.workers, self.scheduler):
            process.terminate()
        for process in (self.workers, self.scheduler):
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        _wait_for(cluster.port)
        yield cluster
    finally:
        cluster.stop()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("no scheduler")


def figures(printed: str) -> list[object]:
    return [[entry["spec"], entry["summary"]] for entry in json.loads(printed)]


COMMANDS = ("compare", "arena", "simulate")


@pytest.mark.parametrize(
    "name", ["compare", pytest.param("arena", marks=pytest.mark.long), "simulate"]
)
def test_the_guides_commands_run(cluster: Cluster, name: str) -> None:
    assert [words[:2] for words in cluster.rest] == [["armrace", each] for each in COMMANDS]
    words = cluster.rest[COMMANDS.index(name)]
    done = cluster.run(words)
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    assert done.stdout


def test_figures_are_those_of_threads(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    there = cluster.rest[0]
    done = cluster.run([*there, "--json", "-"])
    assert done.returncode == 0, done.stderr
    first = there.index("--folder")
    assert run([*there[1:first], "--no-report", "--json", "-"]) == 0
    assert figures(done.stdout) == figures(capsys.readouterr().out)


def test_a_dead_scheduler_ends_the_command_with_a_sentence_and_loses_nothing(
    cluster: Cluster,
) -> None:
    words = ["armrace", "compare", "--policies", "ucb1", "--horizon", "1e5", "--no-report"]
    words += ["--attack", "zero-best", "--budget", "0,10", "--folder", "long"]
    words += ["--replications", "20000"]
    cluster_words = [*words, "--executor", "dask", "--address", cluster.address]
    with started(
        cluster_words, cwd=cluster.folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as process:
        locks = cluster.folder / "long"
        deadline = time.monotonic() + SECONDS
        while not list(locks.glob("*.lock")) and time.monotonic() < deadline:
            time.sleep(0.1)
        # The first batches are small; a busy machine takes longer to give this time.
        spent = cluster.processor_time()
        while cluster.processor_time() < spent + 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        cluster.scheduler.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 2
    assert errors == (
        "armrace: the executor dropped tasks that it had accepted; it was shut down, or its "
        "scheduler is gone; what was finished is in long, and the same command goes on from "
        "there.\n"
    )
    assert list(locks.glob("*.parquet"))
    assert not list(locks.glob("*.lock"))
    refused = cluster.run(cluster_words)
    assert refused.returncode == 2
    assert f"no Dask scheduler answers at {cluster.address}" in refused.stderr
