"""How operations are performed: on an experiment, as a batch of others, or in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from armrace.errors import ArmraceError
from armrace.service.keyring import DECISION, TokenContent
from armrace.service.work import STORE_ERRORS, Command, Deliver, Principal, Work
from armrace_client.operations import Operation

if TYPE_CHECKING:
    from armrace.service.engine import Engine

O = TypeVar("O", bound=Operation[Any])  # noqa: E741  # an operation
OnWork = Callable[[Work, O], Any]
InSession = Callable[["Session", O], Any]
Target = tuple[int | str | ArmraceError, Command]
"""A command with the number or the name of its experiment, or with the error that refuses it."""


class Session(NamedTuple):
    """What an operation works with: the engine, on somebody's behalf."""

    engine: Engine
    principal: Principal

    def call(self, where: int | str, command: Command) -> Any:
        """Perform a command on an experiment and return its answer, or raise its refusal."""
        return self.engine.call(where, command, self.principal)

    def log_of(self, name: str) -> int:
        """Return the log of an experiment of the tenant."""
        return self.engine.locate(self.principal.tenant, name)

    def read_token(self, token: object, kind: int = DECISION) -> TokenContent:
        """Return what the signed name of a decision or a lease says, or refuse a forged one."""
        return self.engine.keyring.signing_keys().read(self.principal.tenant, token, kind)


HANDLERS: dict[type[Operation[Any]], Callable[[Session, Any, Deliver], None]] = {}
"""What begins to perform operations of each kind, and hands over their outcome."""


def on_experiment(kind: type[O]) -> Callable[[OnWork[O]], OnWork[O]]:
    """Register what an operation does with the experiment that its ``name`` names."""

    def register(run: OnWork[O]) -> OnWork[O]:
        def begin(session: Session, asked: Any, deliver: Deliver) -> None:
            engine, principal = session
            engine.enqueue_one(asked.name, lambda work: run(work, asked), principal, deliver)

        HANDLERS[kind] = begin
        return run

    return register


def in_background(
    *kinds: type[O], takes_long: bool = True
) -> Callable[[InSession[O]], InSession[O]]:
    """Register what operations do in the background; the others do not wait for long ones."""

    def register(run: InSession[O]) -> InSession[O]:
        def begin(session: Session, asked: Any, deliver: Deliver) -> None:
            session.engine.in_background(lambda: run(session, asked), deliver, takes_long)

        HANDLERS.update(dict.fromkeys(kinds, begin))
        return run

    return register


def as_batch(
    kind: type[O],
    expand: Callable[[Session, O], Sequence[Target]],
    combine: Callable[[O, list[Any]], Any],
) -> None:
    """Register an operation that consists of commands, performed and refused one by one.

    ``combine`` makes the answer of their outcomes.
    """

    def begin(session: Session, asked: Any, deliver: Deliver) -> None:
        def answer(outcomes: list[Any]) -> None:
            # Members have no answer that says that the store has failed. All are sent again.
            failed = next((each for each in outcomes if isinstance(each, STORE_ERRORS)), None)
            try:
                found = failed or combine(asked, outcomes)
            except ArmraceError as refusal:
                found = refusal
            deliver(found)

        session.engine.enqueue(expand(session, asked), session.principal, answer)

    HANDLERS[kind] = begin
