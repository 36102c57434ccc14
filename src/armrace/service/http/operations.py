"""What each endpoint does: it takes a call, asks the ledger, and returns the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import msgspec

from armrace.errors import ArmraceError, InvalidParameter, NotReady
from armrace.service.answers import ArmStatus, BackupAnswer, Decision, ExperimentView, Phase
from armrace.service.defaults import AUDIT_LEVEL
from armrace.service.exports import DEFAULT_FORMAT, FORMATS, write_rows
from armrace.service.http.front import Front
from armrace.service.http.problems import Overloaded
from armrace.service.http.streams import Streams
from armrace.service.http.wire import (
    DecisionList,
    Names,
    RefusedDecision,
    RewardList,
    RewardStatusAnswer,
)
from armrace.service.ledger import Request
from armrace.service.listings import export_rows, list_quarantine
from armrace.service.log_parts import back_up_log
from armrace.service.requests.arms import AddArm, ChangeArm
from armrace.service.requests.courses import ListSources, ReadHealth, ReadHistory
from armrace.service.requests.experiments import ChangePhase, Create, ListNames
from armrace.service.requests.inspection import AuditNow, CheckRatio
from armrace.service.rulings_aside import make_ruling
from armrace.service.service import reward_answer
from armrace.service.views import Describe
from armrace.service.warming import warm_for_serving

__all__ = [
    "Call",
    "File",
    "Stream",
    "add_arm",
    "audit",
    "back_up",
    "change_arm",
    "change_phase",
    "create",
    "decide",
    "decide_batch",
    "describe",
    "events",
    "export",
    "health",
    "history",
    "list_names",
    "problem_event",
    "quarantine",
    "ratio",
    "reward",
    "reward_batch",
    "rule",
    "sources",
]

T = TypeVar("T")
_EVENT_SECONDS = 1.0
_backing_up = threading.Lock()
"""Each backup reads the whole log, so that they are written one after another."""


class File(NamedTuple):
    """An answer that is a file, whose folder is removed when it has been sent."""

    folder: TemporaryDirectory[str]
    name: str
    media_type: str


class Stream(NamedTuple):
    """An answer that goes on, as server-sent events."""

    content: AsyncIterator[bytes]


class Call(NamedTuple):
    """A request that may pass, with its body decoded."""

    front: Front
    streams: Streams
    tenant: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any

    async def ask(self, request: Request[T]) -> T:
        """Perform a request of the ledger; raise its refusal."""
        return await self.front.ask(request)


async def decide(call: Call) -> Decision:
    """Make the decision that the body asks for."""
    decision: Decision = await call.ask(call.body.ask(call.tenant, call.path["name"]))
    return decision


async def decide_batch(call: Call) -> DecisionList:
    """Make several decisions, each made or refused by itself; refuse if all are refused."""
    requests = [each.ask(call.tenant, call.path["name"]) for each in call.body.decisions]
    outcomes = await call.front.submit(requests)
    refused = {n: each for n, each in enumerate(outcomes) if isinstance(each, ArmraceError)}
    if refused and len(refused) == len(outcomes):
        raise refused[0]
    return DecisionList(
        [None if number in refused else each for number, each in enumerate(outcomes)],
        [RefusedDecision(number, each.code, str(each)) for number, each in refused.items()],
    )


async def reward(call: Call) -> RewardStatusAnswer:
    """Take the reward of a decision."""
    return RewardStatusAnswer(await call.ask(call.body.ask(call.tenant)))


async def reward_batch(call: Call) -> RewardList:
    """Take several rewards, each with an answer of its own."""
    outcomes = await call.front.submit([each.ask(call.tenant) for each in call.body.rewards])
    for outcome in outcomes:
        # No status says "later", so that the whole batch is sent again: rewards are idempotent.
        if isinstance(outcome, NotReady):
            raise outcome
    return RewardList([reward_answer(outcome) for outcome in outcomes])


async def create(call: Call) -> ExperimentView:
    """Create an experiment and show it."""
    settings = call.body.settings()
    await asyncio.to_thread(warm_for_serving, settings)  # so that no turn waits for the compiler
    name = call.body.name
    await call.ask(Create(call.tenant, name, settings, seed_given=call.body.seed is not None))
    return await call.ask(Describe(call.tenant, name))


async def list_names(call: Call) -> Names:
    """List the names of the tenant's experiments."""
    return Names(await call.ask(ListNames(call.tenant)))


async def describe(call: Call) -> Any:
    """Show the state of an experiment."""
    return await call.ask(Describe(call.tenant, call.path["name"]))


def change_phase(phase: Phase) -> Callable[[Call], Awaitable[Any]]:
    """Return the operation that pauses, resumes or finishes an experiment."""

    async def handle(call: Call) -> Any:
        await call.ask(ChangePhase(call.tenant, call.path["name"], phase))
        return await describe(call)

    return handle


async def add_arm(call: Call) -> Any:
    """Add an arm to an experiment."""
    return await call.ask(AddArm(call.tenant, call.path["name"], call.body.arm))


def change_arm(status: ArmStatus) -> Callable[[Call], Awaitable[Any]]:
    """Return the operation that pauses, resumes or retires an arm."""

    async def handle(call: Call) -> Any:
        name, arm = call.path["name"], call.path["arm"]
        return await call.ask(ChangeArm(call.tenant, name, arm, status))

    return handle


def rule(counts: bool, preview: bool = False) -> Callable[[Call], Awaitable[Any]]:
    """Return the operation that retracts or releases rewards, or shows what that would change."""

    async def handle(call: Call) -> Any:
        ruling = call.body.ask(call.tenant, call.path["name"], counts, preview)
        return await asyncio.to_thread(make_ruling, call.front.ledger, ruling)

    return handle


async def quarantine(call: Call) -> Any:
    """List the rewards that wait for a ruling."""
    name, ledger = call.path["name"], call.front.ledger
    return await asyncio.to_thread(list_quarantine, ledger, call.tenant, name)


async def audit(call: Call) -> Any:
    """Look for traces of corruption, at the level of the query."""
    given = call.query.get("level", str(AUDIT_LEVEL))
    try:
        level = msgspec.convert(given, float, strict=False)
    except msgspec.ValidationError:
        raise InvalidParameter(f"level must be a number; got {given!r:.100}.") from None
    found = await call.ask(AuditNow(call.tenant, call.path["name"], level))
    return found.to_builtins()


async def health(call: Call) -> Any:
    """Show all experiments of the tenant at a glance."""
    return await call.ask(ReadHealth(call.tenant))


async def history(call: Call) -> Any:
    """Show the course of an experiment over time."""
    return await call.ask(ReadHistory(call.tenant, call.path["name"]))


async def sources(call: Call) -> Any:
    """List where the rewards of an experiment come from, by day."""
    return await call.ask(ListSources(call.tenant, call.path["name"]))


async def ratio(call: Call) -> Any:
    """Compare how often arms were chosen with their published probabilities."""
    return await call.ask(CheckRatio(call.tenant, call.path["name"]))


async def events(call: Call) -> Stream:
    """Follow the state of an experiment."""
    await describe(call)  # refused here, before the stream begins
    return Stream(_changes(call))


async def _changes(call: Call) -> AsyncIterator[bytes]:
    """Yield the state whenever it has changed, at most once a second; a comment if not."""
    last = None
    while not call.streams.closing:
        try:
            view = await describe(call)
        except ArmraceError as error:
            yield problem_event(error)
            return
        changed = view != last
        yield b"event: state\ndata: " + msgspec.json.encode(view) + b"\n\n" if changed else b":\n\n"
        last = view
        await call.streams.rest(_EVENT_SECONDS)


def problem_event(error: ArmraceError) -> bytes:
    """Return the last message of a stream that cannot go on."""
    return b"event: problem\ndata: " + msgspec.json.encode({"code": error.code}) + b"\n\n"


async def export(call: Call) -> File:
    """Export decisions with their rewards, in the format of the query."""
    kind = call.query.get("format", DEFAULT_FORMAT)
    if kind not in FORMATS:
        raise InvalidParameter(f"format must be one of {', '.join(FORMATS)}; got {kind!r:.100}.")
    # In a file first, so that whatever cannot be exported is refused before anything is sent.
    folder = TemporaryDirectory(prefix="armrace-export-", ignore_cleanup_errors=True)
    answer = File(folder, f"export.{kind}", FORMATS[kind])
    try:
        rows = export_rows(call.front.ledger, call.tenant, call.path["name"])
        await asyncio.to_thread(write_rows, rows, Path(folder.name) / answer.name)
    except BaseException:
        folder.cleanup()
        raise
    return answer


async def back_up(call: Call) -> BackupAnswer:
    """Write a copy of the log beside it."""
    ledger = call.front.ledger
    if not _backing_up.acquire(blocking=False):
        raise Overloaded("a backup is being written; ask again when it is done.")
    try:
        records = ledger.sequence
        log = Path(getattr(ledger.store, "path", "log.db"))
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        copy = log.with_name(f"{log.stem}-{now}{log.suffix}")
        await asyncio.to_thread(back_up_log, ledger, copy)
    finally:
        _backing_up.release()
    return BackupAnswer(copy.name, records)
