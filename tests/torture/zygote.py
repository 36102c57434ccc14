"""A process that has loaded everything, and forks others that begin where it stands.

A server takes seconds to import and to load compiled code; its copy takes none. Files and
synchronisation are the same for a copy.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["EXPERIMENT", "Zygote"]

EXPERIMENT = {"name": "ads", "arms": ["a", "b", "c"], "missing": 0, "seed": 1}
_THREADS = 3


class Zygote:
    """Forks servers and writers.

    Args:
        process: runs :func:`_answer_orders`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Zygote]:
        """Start one, and end it after use."""
        command = [sys.executable, "-c", "from torture.zygote import _answer_orders as a; a()"]
        folders = [str(Path(__file__).parents[1]), *sys.path]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        ) as process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()

    def _order(self, *order: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def fork_server(self, store: Path, port: int) -> int:
        """Start ``armrace serve`` and return its process."""
        return self._order("server", str(store), port)

    def fork_writer(self, store: Path, output: Path) -> int:
        """Start a process that writes what was acknowledged, once it is; return its number."""
        return self._order("writer", str(store), str(output))

    def kill(self, process: int) -> None:
        """Kill a process at once, and wait until it has ended."""
        os.kill(process, signal.SIGKILL)
        status = self._order("wait", process)
        assert os.WIFSIGNALED(status), f"the process had ended before, with the status {status}"


def _answer_orders() -> None:
    """Load everything, then fork what is asked for."""
    _load()
    assert threading.active_count() == 1, "a copy has one thread"
    for line in sys.stdin:
        kind, *arguments = json.loads(line)
        if kind == "wait":
            _, answer = os.waitpid(arguments[0], 0)
        else:
            answer = os.fork()
            if answer == 0:
                _be({"server": _serve, "writer": _write}[kind], arguments)
        print(answer, flush=True)


def _load() -> None:
    import uvicorn
    import uvloop

    import armrace
    from armrace.cli.main import run
    from armrace.dashboard.pages import Dashboard
    from armrace.service.http.server import serve
    from armrace.service.stores.sqlite import SqliteStore

    assert all((uvicorn, uvloop, run, serve, Dashboard, SqliteStore))
    with armrace.open(":memory:") as service:
        service.create(**EXPERIMENT)
        for decision in service.decide_many("ads", 3):
            service.reward(decision, 1.0)


def _be(work: Callable[..., None], arguments: list[object]) -> None:
    """Do some work in this process, a copy, until it is killed."""
    import apsw

    try:
        os.close(0)
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        apsw.randomness(0)  # else all copies would have the same random numbers
        work(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _serve(store: str, port: int) -> None:
    from armrace.cli.main import run

    usual, sys.stderr = sys.stderr, io.StringIO()
    code = run(["serve", "--open", "--store", store, "--port", str(port)])
    print(f"the server ends with {code}: {sys.stderr.getvalue()}", file=usual, flush=True)


def _write(store: str, output: str) -> None:
    """Decide and reward in several threads, and write down each acknowledgement."""
    import armrace

    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    service = armrace.open(store)
    service.create(**EXPERIMENT)
    os.write(file, b"ready\n")

    def work() -> None:
        while True:
            made = service.decide_many("ads", 5)
            os.write(file, b"".join(b"d %s %s\n" % (_b(e.decision), _b(e.arm)) for e in made))
            answers = service.reward_many([(each, 1.0) for each in made])
            assert {answer.status for answer in answers} == {"accepted"}
            os.write(file, b"".join(b"r %s 1.0\n" % _b(each.decision) for each in made))

    for _ in range(_THREADS):
        threading.Thread(target=work).start()
    threading.Event().wait()


def _b(text: str) -> bytes:
    return text.encode()
