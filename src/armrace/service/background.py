"""Work beside the engine, on copies: in threads that wait, and in processes that work.

Threads wait for the engine, for the store, and for what is worked out. Python that takes longer
than some milliseconds would take the interpreter from the threads that serve: it runs in a helper,
a process of its own, which asks its thread for what it wants to read from the store.

What ends soon has threads of its own, so that it does not wait for the exports of another tenant.
Work must not wait for other work of its kind.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeVar

from armrace.errors import ArmraceError, RequestFailed

T = TypeVar("T")
Read = Callable[..., Any]
"""Takes a function of a transaction and its other arguments; returns what it returns."""
AskAhead = Callable[..., Callable[[], Any]]
"""The same, but returns what waits for what it returns."""


def _make_threads() -> None:
    global _short, _soon, _long  # noqa: PLW0603
    # One thread for short work: several would take the interpreter from those who serve.
    _short = ThreadPoolExecutor(1, "audits")
    _soon = ThreadPoolExecutor(4, "directory")
    _long = ThreadPoolExecutor(2, "background")


_short: ThreadPoolExecutor
_soon: ThreadPoolExecutor
_long: ThreadPoolExecutor
_make_threads()


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the collection of cyclic garbage off: records and events have no cycles.

    It would take a third of the time in which they are read and applied.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_in_background(work: Callable[[], T]) -> Future[T]:
    """Do short work after all that was asked for before: an audit, a view."""
    # The collector would look at every new object several times, and nobody else could go on.
    return _short.submit(uncollected()(work))


def run_soon(work: Callable[[], T]) -> Future[T]:
    """Do work that waits for the engine now and then, and ends soon: listing, creating."""
    return _soon.submit(work)


def run_long(work: Callable[[], T]) -> Future[T]:
    """Do work that may take minutes: a replay, an export."""
    return _long.submit(work)


# --- helpers ----------------------------------------------------------------------------------

_PRIORITY = 10
"""How much helpers give way to the threads that serve, where there are fewer cores than work."""
_SIZE = struct.Struct("<Q")


def in_helper(read: Read, known: object, work: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a helper, and ``read`` here what it asks for.

    The function, its arguments, which must be copies, and what it returns are pickled; so is what
    must be ``known`` there, such as a user's policy. If the helper is killed, another one does the
    work again.
    """
    task = pickle.dumps((work, arguments, known), 5)
    for _ in range(2):
        helper = _idle.pop() if _idle else _Helper()
        try:
            outcome = helper.call(read, task)
        except (EOFError, OSError):
            helper.end()
        except BaseException:
            helper.end()
            raise
        else:
            _idle.append(helper)
            return _result(outcome)  # type: ignore[no-any-return]
    raise RequestFailed("the process that worked this out was ended twice; ask again later.")


class _Channel:
    """Sends and receives pickled messages, each with its size."""

    def __init__(self, source: IO[bytes], target: IO[bytes]) -> None:
        self._source, self._target = source, target

    def send(self, message: object) -> None:
        self.send_bytes(pickle.dumps(message, 5))

    def send_bytes(self, content: bytes) -> None:
        self._target.write(_SIZE.pack(len(content)))
        self._target.write(content)
        self._target.flush()

    def receive(self) -> bytes:
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        content = self._source.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def close(self) -> None:
        for each in (self._source, self._target):
            with suppress(OSError):  # what was not sent yet is lost
                each.close()


class _Helper:
    """A process that works for one thread at a time, until that closes its channel or ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import help_out; help_out()"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.channel = _Channel(self._process.stdout, self._process.stdin)

    def call(self, read: Read, task: bytes) -> tuple[str, Any]:
        """Return how a call ends, and what it returns or raises; see :func:`_outcome`."""
        self.channel.send_bytes(task)
        while True:
            kind, content = pickle.loads(self.channel.receive())
            if kind != "asks":
                return kind, content
            self.channel.send(_outcome(read, *content))

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self.channel.close()


_idle: list[_Helper] = []
_of_parent: list[_Helper] = []


@atexit.register
def _end_helpers() -> None:
    while _idle:
        _idle.pop().end()


def _forget_helpers() -> None:
    # They work for the parent, and end when nobody holds their channels any more.
    _of_parent.extend(_idle)
    _idle.clear()
    for helper in _of_parent:
        helper.channel.close()


# Neither threads nor helpers survive a fork.
os.register_at_fork(after_in_child=_make_threads)
os.register_at_fork(after_in_child=_forget_helpers)


def _outcome(work: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    """Return how a call ended: "returned" and what, or "raised" and of what to make the error."""
    try:
        return "returned", work(*arguments)
    except ArmraceError as error:
        return "raised", (type(error), error.args, vars(error))
    except Exception as error:
        told = RuntimeError("".join(traceback.format_exception(error)))
        return "raised", (RuntimeError, told.args, {})


def _result(outcome: tuple[str, Any]) -> Any:
    """Return what a call has returned, or raise what it has raised."""
    kind, content = outcome
    if kind == "returned":
        return content
    error_type, arguments, members = content
    error = error_type.__new__(error_type, *arguments)  # not by __init__, which may take others
    vars(error).update(members)
    raise error


class _Parent(_Channel):
    """The thread that a helper works for; it answers in the order in which it is asked."""

    def __init__(self, source: IO[bytes], target: IO[bytes]) -> None:
        super().__init__(source, target)
        self._waiting: deque[list[bytes]] = deque()

    def ask_ahead(self, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Ask, and return what waits for the answer: the thread reads while the helper works."""
        self.send(("asks", (work, *arguments)))
        answer: list[bytes] = []
        self._waiting.append(answer)

        def result() -> Any:
            while not answer:
                self._receive_next()
            return _result(pickle.loads(answer[0]))

        return result

    def _receive_next(self) -> None:
        self._waiting.popleft().append(self.receive())

    def tell(self, outcome: tuple[str, Any]) -> None:
        """Tell how a call has ended, after all answers that nobody waits for any more."""
        while self._waiting:
            self._receive_next()
        self.send(outcome)


_parents: list[_Parent] = []
"""In a helper, the thread that it works for."""


def ask_ahead(work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Ask the thread that this helper works for, as :data:`AskAhead` says."""
    return _parents[0].ask_ahead(work, *arguments)


def help_out() -> None:
    """Work out what comes on standard input until it ends; a helper's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that serves
    os.nice(_PRIORITY)
    # What a user's policy prints must not be read as an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parent = _Parent(sys.stdin.buffer, answers)
    _parents.append(parent)
    with suppress(EOFError, BrokenPipeError):
        while True:
            parent.tell(_outcome(_work_out, parent.receive()))


def _work_out(task: bytes) -> Any:
    work, arguments, _ = pickle.loads(task)
    with uncollected():
        return work(*arguments)
