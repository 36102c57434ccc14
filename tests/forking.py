"""Programs that begin where another process stands, for tests that run many short ones.

To import armrace takes a second of processor time, and so does the first compilation of a process.
A nursery does both once, and forks a process for each program, which has then an environment, a
working folder and modules of its own. What it shares with its siblings is the seed of Python's
hashes: what must not depend on that, or is about the start of Python itself, needs a start of its
own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import started

__all__ = ["Nursery"]

SECONDS = 300
"""How long a program may take, unless told otherwise."""


class Nursery:
    """Forks a process for each program.

    Args:
        process: runs :func:`_answer_orders`.
        folder: where the output of programs goes.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @classmethod
    @contextmanager
    def started(cls, preparation: str, *options: str) -> Iterator[Nursery]:
        """Start one, and end it after use.

        Args:
            preparation: code that is run before all programs, such as imports. It must not read
                what differs between programs, and must not start threads.
            options: of Python, such as ``-W error``.
        """
        command = [sys.executable, *options, "-c", _START, preparation]
        folders = [str(Path(__file__).parent), *filter(None, sys.path)]
        with (
            tempfile.TemporaryDirectory() as folder,
            started(
                command,
                seconds=10,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            ) as process,
        ):
            yield cls(process, Path(folder))
            assert process.stdin is not None
            process.stdin.close()

    def run(
        self,
        script: str | Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        path: Sequence[Path] = (),
        seconds: float = SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as Python would, and return what it wrote.

        Args:
            script: the program as ``python -c`` takes it, or the file that holds it.
            arguments: its arguments.
            environment: its environment; that of this process if there is none.
            folder: where it runs.
            path: folders of modules that come before all others but that of the program.
            seconds: after this time it is killed, and the test fails.
        """
        outputs = self._folder / "output", self._folder / "errors"
        order = {
            "file": str(script) if isinstance(script, Path) else None,
            "script": script.read_text(encoding="utf-8") if isinstance(script, Path) else script,
            "arguments": arguments,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
            "path": [str(each) for each in path],
            "outputs": [str(each) for each in outputs],
            "seconds": seconds,
        }
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        print(json.dumps(order), file=pipe, flush=True)
        code = int(answers.readline())
        output, errors = (each.read_text(encoding="utf-8") for each in outputs)
        assert code != -signal.SIGKILL, f"killed, perhaps after {seconds} seconds: {errors}"
        return subprocess.CompletedProcess(str(script), code, output, errors)


_START = """
import sys
from forking import _answer_orders

program = _answer_orders(sys.argv.pop())
if program is not None:
    exec(program, vars(sys.modules["__main__"]))
"""
"""In a copy it goes on to run the program, so that the interpreter ends as it always does."""


def _answer_orders(preparation: str) -> types.CodeType | None:
    """Prepare, then fork for each order; return None at the end, and a program in each copy."""
    exec(preparation, {"__name__": "preparation"})
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(order)
            return compile(order["script"], order["file"] or "<string>", "exec")
        print(_wait_for(child, order["seconds"]), flush=True)
    return None


def _wait_for(child: int, seconds: float) -> int:
    """Return how a process ends, and kill it if it does not."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _become(order: dict[str, Any]) -> None:
    """Take on the arguments, the environment and the place of a program."""
    file, _, arguments, environment, folder, path, outputs, _ = order.values()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, output in enumerate(outputs, start=1):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None
    sys.argv[:] = [file or "-c", *arguments]
    sys.path[:] = [str(Path(file).parent) if file else "", *path, *filter(None, sys.path)]
    sys.modules["__main__"] = types.ModuleType("__main__")
    if file:
        sys.modules["__main__"].__file__ = file  # which processes of its own begin with
    if "numba" in sys.modules:
        from numba.core import config

        config.reload_config()
