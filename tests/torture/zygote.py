"""A process that has loaded everything, and forks others that begin where it stands.

A server takes seconds to import and to load compiled code; its copy takes none. Files and
synchronisation are the same for a copy.
"""

from __future__ import annotations

import itertools
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

EXPERIMENTS = ["ads", "shop"]
SETTINGS = {"arms": ["a", "b", "c"], "missing": 0, "seed": 1}
_THREADS = 3


class Zygote:
    """Forks servers and writers."""

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
        """Start a server and return its process."""
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
    from armrace.service import background
    from armrace.service.http.server import serve
    from armrace.service.log.sqlite import SqliteStore

    assert all((uvicorn, uvloop, serve, SqliteStore))
    with armrace.open(":memory:") as service:
        service.create("ads", **SETTINGS)
        made = service.decide_many("ads", 3)
        service.reward(made[0], 1.0)
        service.void("ads", made)
    for threads in (background._short, background._soon, background._long):
        threads.shutdown()  # a copy makes its own


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
    from armrace.service.http.server import ServerSettings, serve

    serve(ServerSettings(store, port=port, open=True), "", lambda line: None)


def _write(store: str, output: str) -> None:
    """Decide, reward and void in several threads, and write down each acknowledgement."""
    from armrace.service import Service, open_store
    from armrace.service.service import keyring_of

    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    keyring = keyring_of(store)
    service = Service(open_store(store, keyring), keyring, most_loaded=1)
    for name in EXPERIMENTS:
        service.create(name, **SETTINGS)
    os.write(file, b"ready\n")

    def work(number: int) -> None:
        for turn in itertools.count(number):
            name = EXPERIMENTS[turn % 2]
            made = service.decide_many(name, 5)
            os.write(file, b"".join(b"d %s %s\n" % (_b(e.decision), _b(e.arm)) for e in made))
            answers = service.reward_many([(each, 1.0) for each in made])
            assert {answer.status for answer in answers} == {"accepted"}
            os.write(file, b"".join(b"r %s 1.0\n" % _b(each.decision) for each in made))
            if turn % 10 == 0:
                service.void(name, made[0])
                os.write(file, b"v %s 1\n" % _b(made[0].decision))

    for number in range(_THREADS):
        threading.Thread(target=work, args=(number,)).start()
    threading.Event().wait()


def _b(text: str) -> bytes:
    return text.encode()
