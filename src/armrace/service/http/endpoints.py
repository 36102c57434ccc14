"""The endpoints, one entry each: routes, access and the OpenAPI document are made from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from armrace.service.answers import (
    ArmAnswer,
    BackupAnswer,
    Decision,
    ExperimentHealth,
    ExperimentView,
    HistoryView,
    QuarantinedReward,
    RatioCheck,
    RulingAnswer,
    SourceView,
)
from armrace.service.defaults import AUDIT_LEVEL
from armrace.service.exports import DEFAULT_FORMAT, FORMATS
from armrace.service.http import operations
from armrace.service.http.operations import Call
from armrace.service.http.wire import (
    ArmBody,
    CreateBody,
    DecideBatch,
    DecideBody,
    DecisionList,
    Names,
    RewardBatch,
    RewardBody,
    RewardList,
    RewardStatusAnswer,
    RuleBody,
)
from armrace.service.keyring import Scope

__all__ = ["DECIDE", "ENDPOINTS", "REWARD", "Endpoint"]

_ONE, _BATCH = 4096, 2**20
_DECIDE_BATCH = 2**18
"""Names of eligible arms take 4 ns a byte to read, in the loop that serves everyone."""
_STATE, _HISTORY, _LOG = 5, 20, 200
"""What it costs to describe an experiment, to look through its history, and to read its log."""


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
    cost: int = 1
    """How many events a request counts as that carries none, by what it costs the server."""
    operator: bool = False
    """Whether it concerns all tenants."""
    query: tuple[Parameter, ...] = ()


_NAME = "/v1/experiments/{name}"
DECIDE, REWARD = f"{_NAME}/decide", "/v1/rewards"
"""The addresses that are asked for most often."""
_LIST = list[QuarantinedReward]
_LEVEL = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": AUDIT_LEVEL}
_FORMAT = {"type": "string", "enum": [*FORMATS], "default": DEFAULT_FORMAT}
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        DECIDE,
        "decide",
        "Make a decision",
        Decision,
        operations.decide,
        DecideBody,
        events=lambda body: body.cost,
    ),
    Endpoint(
        "POST",
        REWARD,
        "reward",
        "Say what a decision earned",
        RewardStatusAnswer,
        operations.reward,
        RewardBody,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/decide/batch",
        "decide",
        "Make several decisions; each is made or refused by itself",
        DecisionList,
        operations.decide_batch,
        DecideBatch,
        _DECIDE_BATCH,
        events=lambda body: sum(each.cost for each in body.decisions),
    ),
    Endpoint(
        "POST",
        "/v1/rewards/batch",
        "reward",
        "Say what several decisions earned",
        RewardList,
        operations.reward_batch,
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
        operations.create,
        CreateBody,
        _BATCH,
        201,
    ),
    Endpoint("GET", "/v1/experiments", "read", "List experiments", Names, operations.list_names),
    Endpoint(
        "GET",
        _NAME,
        "read",
        "Show the state of an experiment",
        ExperimentView,
        operations.describe,
        cost=_STATE,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/pause",
        "admin",
        "Stop deciding",
        ExperimentView,
        operations.change_phase("paused"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/resume",
        "admin",
        "Decide again",
        ExperimentView,
        operations.change_phase("running"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/finish",
        "admin",
        "Stop deciding for good",
        ExperimentView,
        operations.change_phase("finished"),
    ),
    Endpoint(
        "POST", f"{_NAME}/arms", "admin", "Add an arm", ArmAnswer, operations.add_arm, ArmBody
    ),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/pause",
        "admin",
        "Pause an arm",
        ArmAnswer,
        operations.change_arm("paused"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/resume",
        "admin",
        "Choose an arm again",
        ArmAnswer,
        operations.change_arm("active"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/arms/{{arm}}/retire",
        "admin",
        "Retire an arm",
        ArmAnswer,
        operations.change_arm("retired"),
    ),
    Endpoint(
        "POST",
        f"{_NAME}/retract",
        "admin",
        "Take rewards back",
        RulingAnswer,
        operations.rule(False),
        RuleBody,
        _BATCH,
        cost=_LOG,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/retract/preview",
        "admin",
        "Show what a retraction would change",
        RulingAnswer,
        operations.rule(False, preview=True),
        RuleBody,
        _BATCH,
        cost=_LOG,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/release",
        "admin",
        "Let rewards count",
        RulingAnswer,
        operations.rule(True),
        RuleBody,
        _BATCH,
        cost=_LOG,
    ),
    Endpoint(
        "POST",
        f"{_NAME}/release/preview",
        "admin",
        "Show what a release would change",
        RulingAnswer,
        operations.rule(True, preview=True),
        RuleBody,
        _BATCH,
        cost=_LOG,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/quarantine",
        "admin",
        "List the quarantine",
        _LIST,
        operations.quarantine,
        cost=_LOG,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/audit",
        "read",
        "Look for traces of corruption",
        Any,
        operations.audit,
        query=(Parameter("level", "The probability of a false alarm.", _LEVEL),),
        cost=_HISTORY,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/ratio",
        "read",
        "Compare counts and probabilities",
        RatioCheck,
        operations.ratio,
    ),
    Endpoint(
        "GET",
        "/v1/health",
        "read",
        "Show all at a glance",
        list[ExperimentHealth],
        operations.health,
        cost=_STATE,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/history",
        "read",
        "Show the course over time",
        HistoryView,
        operations.history,
        cost=_HISTORY,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/sources",
        "read",
        "List where rewards come from, by day",
        list[SourceView],
        operations.sources,
        cost=_STATE,
    ),
    Endpoint(
        "GET",
        f"{_NAME}/events",
        "read",
        "Follow the state of an experiment",
        bytes,
        operations.events,
        media=("text/event-stream",),
    ),
    Endpoint(
        "GET",
        f"{_NAME}/export",
        "admin",
        "Export decisions with rewards",
        bytes,
        operations.export,
        media=tuple(FORMATS.values()),
        query=(Parameter("format", "The format of the file.", _FORMAT),),
        cost=_LOG,
    ),
    Endpoint(
        "POST",
        "/v1/backup",
        "admin",
        "Write a copy of the log beside it",
        BackupAnswer,
        operations.back_up,
        operator=True,
        cost=_LOG,
    ),
)
"""In the order in which they are matched, the most frequent first."""
