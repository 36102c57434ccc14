"""Tasks on a cluster of Ray."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from armrace.errors import InvalidParameter, WorkersLost
from armrace.simulation.code import package_code
from armrace.simulation.forwarding import forwarded
from armrace.simulation.interrupts import deaf_children
from armrace.simulation.knocking import somebody_listens

__all__ = ["ray_executor"]

_NO_EXTRA = "the executor ray needs Ray; install it with: pip install 'armrace[ray]'."
_SECONDS_FOR_A_WORKER = 60
"""Ray starts a worker for the first task."""

_RUNNING_HERE = "auto"


@contextmanager
def ray_executor(address: str | None, workers: int) -> Iterator[Executor]:
    """An executor of the cluster at an address, or of one that is started on this machine."""
    try:
        import ray
    except ImportError as error:
        raise InvalidParameter(_NO_EXTRA) from error
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    elif address != _RUNNING_HERE and not somebody_listens(address):
        raise _unreachable(address)
    try:
        with deaf_children():
            ray.init(address=address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(address or "this machine") from error
    try:
        executor = RayExecutor(ray, address)
        executor.check_workers()
        yield executor
    finally:
        ray.shutdown()


def _unreachable(address: str) -> WorkersLost:
    return WorkersLost(
        f"no cluster of Ray answers at {address}; start one with ray start --head, and give the "
        "address that it prints."
    )


class RayExecutor(Executor):
    """Tasks of Ray as those of any executor.

    Ray gives the tasks of a worker that dies to another one. What it cannot mend is
    :class:`WorkersLost`.
    """

    def __init__(self, ray: Any, address: str | None) -> None:
        self._ray = ray
        self.on_this_machine = address is None
        self._place = address or "this machine"

    def check_workers(self) -> None:
        """Refuse a cluster without workers, or with workers that have other code."""
        try:
            code = self.submit(package_code).result(_SECONDS_FOR_A_WORKER)
        except TimeoutError as error:
            raise WorkersLost(
                f"the cluster of Ray at {self._place} gives no worker for a task."
            ) from error
        if code != package_code():
            raise InvalidParameter(
                f"the workers at {self._place} run another version of armrace, which could give "
                "other figures; install the same version on all machines."
            )

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """As of any executor."""
        try:
            reference = self._ray.remote(_call).remote(function, *arguments, **named)
        except (ConnectionError, RuntimeError) as error:
            raise WorkersLost(f"the cluster of Ray at {self._place} is gone.") from error
        inner = reference.future()
        return forwarded(inner, self._translate, lambda: self._ray.cancel(reference, force=True))

    def _translate(self, error: BaseException) -> BaseException:
        """A task's own error as it was raised, and losses in one sentence."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception):
            error = cause
        if isinstance(error, ImportError):
            return InvalidParameter(
                f"the workers at {self._place} cannot load what they are to run ({error}); install "
                "the same version of armrace there."
            )
        if type(error).__module__.startswith("ray."):
            words = str(error).strip().partition("\n")[0]
            return WorkersLost(f"the cluster of Ray at {self._place} lost a task: {words}")
        return error


def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What Ray runs: it takes plain functions only, which not all that can be called are."""
    return function(*arguments, **named)
