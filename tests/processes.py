"""Processes that end with the block that uses them, whatever happens there."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def python(
    *arguments: str | Path, check: bool = False, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, and return what it has printed."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=timeout, **options
    )


@contextmanager
def started(
    command: Sequence[str | Path], seconds: float = 0, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a process, and kill it when the block has ended.

    ``subprocess.Popen`` as a context waits without a limit for a process that does not end, so
    that a test hangs which should fail.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
            if seconds:
                process.wait(seconds)
        finally:
            if options.get("start_new_session"):
                with suppress(ProcessLookupError):  # all of them have ended
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
