"""The endpoints, one entry each: routes, access and the OpenAPI document are made from them."""

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
from armrace.service.answers import (
    ArmAnswer,
    ArmStatus,
    BackupAnswer,
    Decision,
    ExperimentHealth,
    ExperimentView,
    HistoryView,
    Phase,
    QuarantinedReward,
    RatioCheck,
    RulingAnswer,
    SourceView,
)
from armrace.service.exports import DEFAULT_FORMAT, FORMATS, write_rows
from armrace.service.http.front import Front
from armrace.service.http.problems import Overloaded
from armrace.service.http.streams import Streams
from armrace.service.http.wire import (
    ArmBody,
    CreateBody,
    DecideBatch,
    DecideBody,
    DecisionList,
    Names,
    RefusedDecision,
    RewardBatch,
    RewardBody,
    RewardList,
    RewardStatusAnswer,
    RuleBody,
)
from armrace.service.keyring import Scope
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

__all__ = ["DECIDE", "ENDPOINTS", "REWARD", "Call", "Endpoint", "File", "Stream", "problem_event"]

T = TypeVar("T")
_ONE, _BATCH = 4096, 2**20
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


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    summary: str
    schema: dict[str, Any]


class Endpoint(NamedTuple):
    """A method at an address."""

    method: str
    path: str
    scope: Scope
    summary: str
    answer: Any
    handle: Callable[[Call], Awaitable[Any]]
    body: Any = None
    limit: int = _ONE
    status: int = 200
    media: tuple[str, ...] = ("application/json",)
    events: Callable[[Any], int] | None = None
    """Returns how many events a body carries, if they are not one."""
    operator: bool = False
    """Whether it concerns all tenants."""
    query: tuple[Parameter, ...] = ()


async def _decide(call: Call) -> Decision:
    decision: Decision = await call.ask(call.body.ask(call.tenant, call.path["name"]))
    return decision


async def _decide_batch(call: Call) -> DecisionList:
    requests = [each.ask(call.tenant, call.path["name"]) for each in call.body.decisions]
    outcomes = await call.front.submit(requests)
    refused = {n: each for n, each in enumerate(outcomes) if isinstance(each, ArmraceError)}
    if refused and len(refused) == len(outcomes):
        raise refused[0]
    return DecisionList(
        [None if number in refused else each for number, each in enumerate(outcomes)],
        [RefusedDecision(number, each.code, str(each)) for number, each in refused.items()],
    )


async def _reward(call: Call) -> RewardStatusAnswer:
    return RewardStatusAnswer(await call.ask(call.body.ask(call.tenant)))


async def _reward_batch(call: Call) -> RewardList:
    outcomes = await call.front.submit([each.ask(call.tenant) for each in call.body.rewards])
    for outcome in outcomes:
        # No status says "later", so that the whole batch is sent again: rewards are idempotent.
        if isinstance(outcome, NotReady):
            raise outcome
    return RewardList([reward_answer(outcome) for outcome in outcomes])


async def _create(call: Call) -> ExperimentView:
    settings = call.body.settings()
    await asyncio.to_thread(warm_for_serving, settings)  # so that no turn waits for the compiler
    name = call.body.name
    await call.ask(Create(call.tenant, name, settings, seed_given=call.body.seed is not None))
    return await call.ask(Describe(call.tenant, name))


async def _list(call: Call) -> Names:
    return Names(await call.ask(ListNames(call.tenant)))


async def _describe(call: Call) -> Any:
    return await call.ask(Describe(call.tenant, call.path["name"]))


def _change_phase(phase: Phase) -> Callable[[Call], Awaitable[Any]]:
    async def handle(call: Call) -> Any:
        await call.ask(ChangePhase(call.tenant, call.path["name"], phase))
        return await _describe(call)

    return handle


async def _add_arm(call: Call) -> Any:
    return await call.ask(AddArm(call.tenant, call.path["name"], call.body.arm))


def _change_arm(status: ArmStatus) -> Callable[[Call], Awaitable[Any]]:
    async def handle(call: Call) -> Any:
        name, arm = call.path["name"], call.path["arm"]
        return await call.ask(ChangeArm(call.tenant, name, arm, status))

    return handle


def _rule(counts: bool, preview: bool = False) -> Callable[[Call], Awaitable[Any]]:
    async def handle(call: Call) -> Any:
        rule = call.body.ask(call.tenant, call.path["name"], counts, preview)
        return await asyncio.to_thread(make_ruling, call.front.ledger, rule)

    return handle


async def _quarantine(call: Call) -> Any:
    name, ledger = call.path["name"], call.front.ledger
    return await asyncio.to_thread(list_quarantine, ledger, call.tenant, name)


async def _audit(call: Call) -> Any:
    given = call.query.get("level", "0.05")
    try:
        level = msgspec.convert(given, float, strict=False)
    except msgspec.ValidationError:
        raise InvalidParameter(f"level must be a number; got {given!r:.100}.") from None
    audit = await call.ask(AuditNow(call.tenant, call.path["name"], level))
    return audit.to_builtins()


async def _health(call: Call) -> Any:
    return await call.ask(ReadHealth(call.tenant))


async def _history(call: Call) -> Any:
    return await call.ask(ReadHistory(call.tenant, call.path["name"]))


async def _sources(call: Call) -> Any:
    return await call.ask(ListSources(call.tenant, call.path["name"]))


async def _ratio(call: Call) -> Any:
    return await call.ask(CheckRatio(call.tenant, call.path["name"]))


async def _events(call: Call) -> Stream:
    await _describe(call)  # refused here, before the stream begins
    return Stream(_changes(call))


async def _changes(call: Call) -> AsyncIterator[bytes]:
    """Yield the state whenever it has changed, at most once a second; a comment if not."""
    last = None
    while not call.streams.closing:
        try:
            view = await _describe(call)
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


async def _export(call: Call) -> File:
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


async def _back_up(call: Call) -> BackupAnswer:
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


_NAME = "/v1/experiments/{name}"
DECIDE, REWARD = f"{_NAME}/decide", "/v1/rewards"
"""The addresses that are asked for most often."""
_LIST = list[QuarantinedReward]
_LEVEL = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.05}
_FORMAT = {"type": "string", "enum": [*FORMATS], "default": DEFAULT_FORMAT}
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("POST", DECIDE, "decide", "Make a decision", Decision, _decide, DecideBody),
    Endpoint(
        "POST",
        REWARD,
        "reward",
        "Say what a decision earned",
        RewardStatusAnswer,
        _reward,
        RewardBody,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/decide/batch",
        "decide",
        "Make several decisions; each is made or refused by itself",
        DecisionList,
        _decide_batch,
        DecideBatch,
        _BATCH,
        events=lambda body: len(body.decisions),
    ),
    Endpoint(
        "POST",
        "/v1/rewards/batch",
        "reward",
        "Say what several decisions earned",
        RewardList,
        _reward_batch,
        RewardBatch,
        _BATCH,
        events=lambda body: len(body.rewards),
    ),
    Endpoint(
        "POST",
        "/v1/experiments",
        "admin",
        "Create an experiment",
        ExperimentView,
        _create,
        CreateBody,
        _BATCH,
        201,
    ),
    Endpoint("GET", "/v1/experiments", "read", "List experiments", Names, _list),
    Endpoint("GET", _NAME, "read", "Show the state of an experiment", ExperimentView, _describe),
    Endpoint(
        "POST", f"{_NAME}/pause", "admin", "Stop deciding", ExperimentView, _change_phase("paused")
    ),
    Endpoint(
        "POST", f"{_NAME}/resume", "admin", "Decide again", ExperimentView, _change_phase("running")
    ),
    Endpoint(
        "POST",
        f"{_NAME}/finish",
        "admin",
        "Stop deciding for good",
        ExperimentView,
        _change_phase("finished"),
    ),
    Endpoint("POST", f"{_NAME}/arms", "admin", "Add an arm", ArmAnswer, _add_arm, ArmBody),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/pause",
        "admin",
        "Pause an arm",
        ArmAnswer,
        _change_arm("paused"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/resume",
        "admin",
        "Choose an arm again",
        ArmAnswer,
        _change_arm("active"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/retire",
        "admin",
        "Retire an arm",
        ArmAnswer,
        _change_arm("retired"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/retract",
        "admin",
        "Take rewards back",
        RulingAnswer,
        _rule(False),
        RuleBody,
        _BATCH,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/retract/preview",
        "admin",
        "Show what a retraction would change",
        RulingAnswer,
        _rule(False, preview=True),
        RuleBody,
        _BATCH,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/release",
        "admin",
        "Let rewards count",
        RulingAnswer,
        _rule(True),
        RuleBody,
        _BATCH,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/release/preview",
        "admin",
        "Show what a release would change",
        RulingAnswer,
        _rule(True, preview=True),
        RuleBody,
        _BATCH,
    ),
    Endpoint("GET", f"{_NAME}/quarantine", "admin", "List the quarantine", _LIST, _quarantine),
    Endpoint(
        "GET",
        f"{_NAME}/audit",
        "read",
        "Look for traces of corruption",
        Any,
        _audit,
        query=(Parameter("level", "The probability of a false alarm.", _LEVEL),),
    ),
    Endpoint(
        "GET", f"{_NAME}/ratio", "read", "Compare counts and probabilities", RatioCheck, _ratio
    ),
    Endpoint("GET", "/v1/health", "read", "Show all at a glance", list[ExperimentHealth], _health),
    Endpoint("GET", f"{_NAME}/history", "read", "Show the course over time", HistoryView, _history),
    Endpoint(
        "GET",
        f"{_NAME}/sources",
        "read",
        "List where rewards come from, by day",
        list[SourceView],
        _sources,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/events",
        "read",
        "Follow the state of an experiment",
        bytes,
        _events,
        media=("text/event-stream",),
    ),
    Endpoint(
        "GET",
        f"{_NAME}/export",
        "admin",
        "Export decisions with rewards",
        bytes,
        _export,
        media=tuple(FORMATS.values()),
        query=(Parameter("format", "The format of the file.", _FORMAT),),
    ),
    Endpoint(
        "POST",
        "/v1/backup",
        "admin",
        "Write a copy of the log beside it",
        BackupAnswer,
        _back_up,
        operator=True,
    ),
)
"""In the order in which they are matched, the most frequent first."""
