"""An executor that runs tasks on a Ray cluster."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import Any

from armrace.errors import InvalidParameter, WorkersLost
from armrace.simulation.code_digest import check_same_code, package_code
from armrace.simulation.executors.futures import cannot_load
from armrace.simulation.executors.ray_relay import ON_THIS_MACHINE, RUNNING_HERE
from armrace.simulation.executors.reachability import is_reachable, monitor_address, within
from armrace.simulation.interrupts import deaf_children

__all__ = ["ray_executor"]

_NO_EXTRA = "the executor ray needs Ray; install it with: pip install 'armrace[ray]'."
_RELAY = "armrace.simulation.executors.ray_relay"
_SECONDS_TO_CONNECT = 40.0
_SECONDS_TO_START = 120.0
"""A cluster started here will answer, but may start slowly on a busy machine."""
_SECONDS_TO_END = 15.0
_SECONDS_FOR_A_WORKER = 120
"""Ray starts a worker for the first task, which imports this package."""

Process = Any
"""A process with pipes as its standard input and output."""


@contextmanager
def ray_executor(address: str | None, workers: int) -> Iterator[Executor]:
    """Yield an executor of the cluster at an address, or of one started on this machine."""
    try:
        from ray import cloudpickle
    except ImportError as error:
        raise InvalidParameter(_NO_EXTRA) from error
    if address not in {None, RUNNING_HERE} and not is_reachable(str(address)):
        raise _unreachable(address)
    with _relay(address or ON_THIS_MACHINE, workers) as relay:
        head = _head_of(relay, address)
        executor = RayExecutor(relay, address, cloudpickle.dumps)
        try:
            with monitor_address(head, executor.give_up):
                executor.check_workers()
                yield executor
        finally:
            executor.shutdown()


@contextmanager
def _relay(address: str, workers: int) -> Iterator[Process]:
    """Yield the process that talks to Ray; it is killed when the context ends."""
    relay = _start_relay(address, workers)
    try:
        yield relay
    finally:
        with suppress(OSError):  # what was not written yet cannot be any more
            relay.stdin.close()
        relay.kill()
        relay.wait()
        relay.stdout.close()


def _start_relay(address: str, workers: int) -> Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    with deaf_children():
        return subprocess.Popen(
            [sys.executable, "-m", _RELAY, address, str(workers), sys.argv[0]],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


def _head_of(relay: Process, address: str | None) -> str:
    """Wait for the connection, and return the address of the cluster's head."""
    try:
        seconds = _SECONDS_TO_START if address is None else _SECONDS_TO_CONNECT
        head = within(seconds, lambda: pickle.load(relay.stdout))
    except (EOFError, TimeoutError) as error:
        raise _unreachable(address) from error
    return str(head) if address in {None, RUNNING_HERE} else str(address)


def _unreachable(address: str | None) -> WorkersLost:
    if address is None:
        return WorkersLost("Ray cannot start a cluster on this machine; try another executor.")
    return WorkersLost(
        f"no cluster of Ray answers at {address}; start one with ray start --head, and give the "
        "address that it prints, and its authentication token if it has one."
    )


class RayExecutor(Executor):
    """An executor in front of the process that talks to Ray.

    Ray gives the tasks of a worker that dies to another one. Tasks that Ray cannot finish fail
    with :class:`WorkersLost`.
    """

    def __init__(self, relay: Process, address: str | None, write: Callable[[Any], bytes]) -> None:
        self.on_this_machine = address is None
        self._place = address or "this machine"
        self._relay = relay
        self._tasks, self._outcomes = relay.stdin, relay.stdout
        self._write = write
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._is_gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def check_workers(self) -> None:
        """Refuse a cluster without workers, or with another version of this package."""
        try:
            code = self.submit(package_code).result(_SECONDS_FOR_A_WORKER)
        except TimeoutError as error:
            raise WorkersLost(
                f"the cluster of Ray at {self._place} gives no worker for a task."
            ) from error
        check_same_code(code, self._place)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submit a task."""
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future
        future.add_done_callback(lambda done: self._forget(number, done))
        self._tell(number, self._write((function, arguments, named)))
        # After the future was entered: if the relay ended meanwhile, ``give_up`` may have missed
        # it.
        if self._is_gone:
            self.give_up()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster; stop it and its tasks if it was started here."""
        if not self._is_gone:
            with suppress(OSError, subprocess.TimeoutExpired), self._lock:
                self._tasks.close()
                self._relay.wait(_SECONDS_TO_END)

    def give_up(self) -> None:
        """Fail all tasks, now and later: the cluster is gone."""
        self._is_gone = True
        for future in list(self._waiting.values()):
            with suppress(InvalidStateError):
                future.set_exception(WorkersLost(f"the cluster of Ray at {self._place} is gone."))

    def _forget(self, number: int, done: Future[Any]) -> None:
        """Stop waiting for a task; one that was cancelled is also cancelled in the relay."""
        self._waiting.pop(number, None)
        if done.cancelled():
            self._tell(number, None)

    def _tell(self, number: int, task: bytes | None) -> None:
        try:
            with self._lock:
                pickle.dump((number, task), self._tasks)
                self._tasks.flush()
        except (OSError, ValueError):  # the relay has ended, or its pipe is closed
            self._is_gone = True

    def _listen(self) -> None:
        """Receive outcomes from the relay until it ends."""
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                self._take(*pickle.load(self._outcomes))
        self.give_up()

    def _take(self, number: int, outcome: bytes | None, words: str) -> None:
        future = self._waiting.get(number)
        if future is None:
            return
        with suppress(InvalidStateError):
            try:
                future.set_result(self._read(outcome, words))
            except Exception as error:
                future.set_exception(error)

    def _read(self, outcome: bytes | None, words: str) -> Any:
        """Return a task's result, or raise its own error, or one sentence if it was lost."""
        if outcome is None:
            raise WorkersLost(f"the cluster of Ray at {self._place} lost a task: {words}")
        went_well, found = pickle.loads(outcome)
        if went_well:
            return found
        if isinstance(found, ImportError):
            raise cannot_load(self._place, found) from found
        raise found
