"""How operations are performed: on an experiment, as a batch of others, or in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from armrace.errors import ArmraceError, DamagedFile, StoreFailed, StoreInUse
from armrace.service.work import Principal, Work
from armrace_client.operations import Operation

if TYPE_CHECKING:
    from armrace.service.engine import Command, Engine

__all__ = [
    "HANDLERS",
    "Session",
    "as_batch",
    "in_background",
    "on_experiment",
]

O = TypeVar("O", bound=Operation[Any])  # noqa: E741  # an operation
Where = int | str | ArmraceError
_STORE_ERRORS = (DamagedFile, StoreFailed, StoreInUse)


class Handler(Protocol):
    """Performs the operations of one kind."""

    def begin(
        self,
        engine: Engine,
        operation: Any,
        principal: Principal,
        deliver: Callable[[Any], None],
    ) -> None:
        """Perform an operation and hand over its answer, or the error that refuses it."""
        ...


HANDLERS: dict[type[Operation[Any]], Handler] = {}


class Session(NamedTuple):
    """What an operation works with in the background."""

    engine: Engine
    principal: Principal

    def call(self, where: int | str, command: Command) -> Any:
        """Perform a command on an experiment and return its answer, or raise its refusal."""
        return self.engine.call(where, command, self.principal)

    def log_of(self, name: str) -> int:
        """Return the log of an experiment of the tenant."""
        return self.engine.locate(self.principal.tenant, name)


class _OnExperiment:
    def __init__(self, run: Callable[[Work, Any], Any]) -> None:
        self._run = run

    def begin(
        self, engine: Engine, operation: Any, principal: Principal, deliver: Callable[[Any], None]
    ) -> None:
        def answer(outcomes: list[Any]) -> None:
            engine.finish(outcomes[0], deliver)

        command = partial(_swapped, self._run, operation)
        engine.enqueue([(operation.name, command)], principal, answer)


def _swapped(run: Callable[[Work, Any], Any], operation: Any, work: Work) -> Any:
    return run(work, operation)


class _AsBatch:
    def __init__(
        self,
        expand: Callable[[Engine, Any, Principal], Sequence[tuple[Where, Command]]],
        combine: Callable[[Any, list[Any]], Any],
    ) -> None:
        self._expand, self._combine = expand, combine

    def begin(
        self, engine: Engine, operation: Any, principal: Principal, deliver: Callable[[Any], None]
    ) -> None:
        def answer(outcomes: list[Any]) -> None:
            try:
                # Members have no answer that says that the store has failed. All are sent again.
                found = _store_error(outcomes) or self._combine(operation, outcomes)
            except ArmraceError as refusal:
                found = refusal
            deliver(found)

        engine.enqueue(self._expand(engine, operation, principal), principal, answer)


def _store_error(outcomes: list[Any]) -> ArmraceError | None:
    return next((each for each in outcomes if isinstance(each, _STORE_ERRORS)), None)


class _InBackground:
    def __init__(self, run: Callable[[Session, Any], Any], takes_long: bool) -> None:
        self._run, self._takes_long = run, takes_long

    def begin(
        self, engine: Engine, operation: Any, principal: Principal, deliver: Callable[[Any], None]
    ) -> None:
        session = Session(engine, principal)
        engine.in_background(lambda: self._run(session, operation), deliver, self._takes_long)


def on_experiment(
    kind: type[O],
) -> Callable[[Callable[[Work, O], Any]], Callable[[Work, O], Any]]:
    """Register what an operation does with the experiment that its ``name`` names."""

    def register(run: Callable[[Work, O], Any]) -> Callable[[Work, O], Any]:
        HANDLERS[kind] = _OnExperiment(run)
        return run

    return register


def in_background(
    *kinds: type[O], takes_long: bool = True
) -> Callable[[Callable[[Session, O], Any]], Callable[[Session, O], Any]]:
    """Register what operations do in the background.

    Args:
        kinds: the operations.
        takes_long: whether they may take minutes; the others do not wait for these.
    """

    def register(run: Callable[[Session, O], Any]) -> Callable[[Session, O], Any]:
        for kind in kinds:
            HANDLERS[kind] = _InBackground(run, takes_long)
        return run

    return register


def as_batch(
    kind: type[O],
    expand: Callable[[Engine, O, Principal], Sequence[tuple[Where, Command]]],
    combine: Callable[[O, list[Any]], Any],
) -> None:
    """Register an operation that consists of commands, performed and refused one by one.

    Args:
        kind: the operation.
        expand: returns the commands, each with its experiment.
        combine: returns the answer, given the outcomes of the commands.
    """
    HANDLERS[kind] = _AsBatch(expand, combine)
