"""A separate process that talks to Ray.

Ray kills the process that uses it when its head or its object store is gone. So a separate process
uses Ray: it reads tasks from standard input and writes outcomes to standard output. Messages are
pickles: ``(number, task)``, where a task of None cancels, and ``(number, outcome, words)``, where
an outcome of None means that the task was lost. Tasks and outcomes are themselves pickled bytes,
which only Ray's workers and the executor unpickle.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

__all__ = ["ON_THIS_MACHINE", "RUNNING_HERE", "main"]

ON_THIS_MACHINE, RUNNING_HERE = "local", "auto"

_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without this, Ray listens on all network interfaces."""


def main() -> None:
    """Connect, write the address of the cluster's head, and relay until the input ends."""
    address, workers, sys.argv[0] = sys.argv[1:]  # Ray's workers look for modules beside a script
    tasks, outcomes = sys.stdin.buffer, _outcomes()
    try:
        ray = _connect(address, int(workers))
    except Exception:
        os._exit(1)  # Ray's threads might go on trying
    relay = Relay(ray, outcomes)
    relay.tell(ray.get_runtime_context().gcs_address)
    try:
        while True:
            relay.take(*pickle.load(tasks))
    except EOFError:
        ray.shutdown()


def _outcomes() -> BinaryIO:
    """Return the standard output, and redirect what Ray prints to the null device."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return own


def _connect(address: str, workers: int) -> Any:
    own = {}
    if address == ON_THIS_MACHINE:
        os.environ.update(_ON_LOOPBACK)
        own = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
    return ray


class Relay:
    """Passes tasks to Ray and outcomes back."""

    def __init__(self, ray: Any, outcomes: BinaryIO) -> None:
        self._ray = ray
        self._call = ray.remote(_call)
        self._outcomes = outcomes
        self._lock = threading.Lock()
        self._references: dict[int, Any] = {}

    def take(self, number: int, task: bytes | None) -> None:
        """Submit a task to Ray, or cancel it."""
        if task is not None:
            self._references[number] = reference = self._call.remote(task)
            reference.future().add_done_callback(self._hand_back(number))
        elif number in self._references:
            self._ray.cancel(self._references[number], force=True)

    def _hand_back(self, number: int) -> Callable[[Any], None]:
        def hand_back(done: Any) -> None:
            self._references.pop(number, None)
            try:
                self.tell((number, done.result(), ""))
            except Exception as error:
                self.tell((number, None, str(error).strip().partition("\n")[0]))

        return hand_back

    def tell(self, message: Any) -> None:
        """Write one message, under a lock."""
        with self._lock:
            pickle.dump(message, self._outcomes)
            self._outcomes.flush()


def _call(task: bytes) -> bytes:
    """Run a task in a worker of Ray; return whether it succeeded, and its result or error."""
    try:
        function, arguments, named = pickle.loads(task)
        return pickle.dumps((True, function(*arguments, **named)))
    except Exception as error:
        return pickle.dumps((False, error))


if __name__ == "__main__":
    main()
