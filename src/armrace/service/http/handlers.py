"""Endpoints as ASGI applications: access, operation, answer, and one shape of errors.

They do not use Starlette's objects for requests and responses, which take longer than a decision.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from armrace.errors import ArmraceError, RequestFailed, UnknownName
from armrace.service.background import run_in_background
from armrace.service.exports import FORMATS
from armrace.service.http.access import Visitor
from armrace.service.http.api import Api
from armrace.service.http.endpoints import ClientGone, Endpoint
from armrace.service.http.logs import RequestLog, request_id
from armrace.service.http.metrics import Metrics
from armrace.service.http.problems import Problem, headers_of
from armrace.service.http.streams import Streams
from armrace.service.operations.inspection import ExportFile
from armrace_client.operations import Decide, Operation, Reward

_encode = msgspec.json.Encoder().encode
_JSON = b"application/json"
_PART = 2**18
_PART_ITEMS = 200
_EVENT_SECONDS = 1.0
_PREFIX, _SUFFIX = Decide.route.path.split("{name}")
_REWARD = Reward.route.path


class _Stream(NamedTuple):
    """An answer that goes on, as server-sent events."""

    content: AsyncIterator[bytes]


class Handler:
    """An endpoint as an ASGI application."""

    def __init__(self, endpoint: Endpoint, api: Api, metrics: Metrics, log: RequestLog) -> None:
        self._endpoint, self._route = endpoint, endpoint.route
        self._api = api
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, code, defect = time.perf_counter(), None, None
        headers = dict(scope["headers"])
        name = request_id(headers.get(b"x-request-id"))
        status, more = self._route.status, {}
        visitor = None
        try:
            visitor = self._visitor(scope, headers)
            answer = await self._answer(visitor, scope, headers, receive)
            if isinstance(answer, (_Stream, ExportFile)):
                self._note(name, status, time.perf_counter() - began, None)
                await _send_parts(answer, name, scope, receive, send)
                return
            content = await _encoded(answer) if _is_long(answer) else _encode(answer)
        except ClientGone:
            status, content = 499, b""
        except Exception as error:
            refusal = error if isinstance(error, ArmraceError) else RequestFailed.because_of(error)
            status, code, more = refusal.status, refusal.code, headers_of(refusal)
            content = _encode(Problem(code, _sentence(refusal, visitor)))
            self._metrics.count_problem(code)
            defect = refusal.__cause__ if isinstance(refusal, RequestFailed) else None
        sent = [
            (b"content-type", _JSON),
            (b"content-length", b"%d" % len(content)),
            (b"x-request-id", name.encode()),
        ]
        sent += [(key.lower().encode(), value.encode()) for key, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": content})
        self._note(name, status, time.perf_counter() - began, code, defect)

    def _note(
        self,
        name: str,
        status: int,
        seconds: float,
        code: str | None,
        defect: BaseException | None = None,
    ) -> None:
        method, path = self._route.method, self._endpoint.path
        self._metrics.count(path, status, seconds)
        self._log.write(name, method, path, status, seconds, code, defect)

    def _visitor(self, scope: Scope, headers: dict[bytes, bytes]) -> Visitor:
        return self._api.access.check(scope, headers, self._route.scope, self._route.operator)

    async def _answer(
        self, visitor: Visitor, scope: Scope, headers: dict[bytes, bytes], receive: Receive
    ) -> Any:
        endpoint, charge = self._endpoint, self._api.access.charge
        if not endpoint.has_own_cost:
            charge(visitor.key, self._route.cost)
        operation = await endpoint.read(
            scope["path_params"], scope["query_string"], headers, receive
        )
        if endpoint.has_own_cost:
            charge(visitor.key, max(1, operation.events()))
        return await self._api.submit(visitor, operation)


class EventsHandler(Handler):
    """The state of an experiment whenever it has changed, as a stream."""

    async def _answer(
        self, visitor: Visitor, scope: Scope, headers: dict[bytes, bytes], receive: Receive
    ) -> Any:
        self._api.charge(visitor)
        parts, query = scope["path_params"], scope["query_string"]
        operation = await self._endpoint.read(parts, query, headers, receive)
        await self._api.submit(visitor, operation)  # refused here, before the stream begins
        self._api.streams.check(visitor.key_id)
        return _Stream(self._states(visitor, operation, scope, headers))

    async def _states(
        self,
        visitor: Visitor,
        operation: Operation[Any],
        scope: Scope,
        headers: dict[bytes, bytes],
    ) -> AsyncIterator[bytes]:
        """Yield the state, at most once a second; a comment if it has not changed.

        The stream ends when its key may read no more.
        """
        last, streams = None, self._api.streams
        with streams.opened(visitor.key_id):
            while not streams.closing:
                try:
                    view = await self._api.submit(visitor, operation)
                    self._visitor(scope, headers)
                except ArmraceError as error:
                    yield b"event: problem\ndata: " + _encode({"code": error.code}) + b"\n\n"
                    return
                if view == last:
                    yield b":\n\n"
                else:
                    yield b"event: state\ndata: " + await _encoded(view) + b"\n\n"
                last = view
                await streams.rest(_EVENT_SECONDS)


class Shortcut:
    """Leads the most frequent requests to their handlers, past Starlette's layers and routes."""

    def __init__(self, app: Starlette, decide: Handler, reward: Handler, streams: Streams) -> None:
        self.app = app
        self.streams = streams
        self._decide = decide
        self._reward = reward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"]
            if path == _REWARD:
                scope["path_params"] = {}
                return await self._reward(scope, receive, send)
            name = path[len(_PREFIX) : -len(_SUFFIX)]
            if path == f"{_PREFIX}{name}{_SUFFIX}" and name and "/" not in name:
                scope["path_params"] = {"name": name}
                return await self._decide(scope, receive, send)
        return await self.app(scope, receive, send)


def _sentence(error: ArmraceError, visitor: Visitor | None) -> str:
    """Return what an error says, without names that the key may not read."""
    blind = visitor is not None and not visitor.may_read
    brief = error.brief if blind and isinstance(error, UnknownName) else None
    return brief or str(error)


# --- answers ----------------------------------------------------------------------------------


def _is_long(answer: Any) -> bool:
    """Whether an answer would take the interpreter for long if it was written in one go."""
    if isinstance(answer, list):
        return len(answer) >= _PART_ITEMS
    arms = answer.get("arms", ()) if isinstance(answer, dict) else getattr(answer, "arms", ())
    return len(arms) >= _PART_ITEMS or getattr(answer, "before", None) is not None


async def _encoded(answer: Any) -> bytes:
    """Return an answer as JSON; a long one is written in the background, in parts."""
    if not _is_long(answer):
        return _encode(answer)
    return await asyncio.wrap_future(run_in_background(lambda: b"".join(_parts(answer))))


def _parts(value: Any) -> Iterator[bytes]:
    """Yield JSON in parts, so that others get the interpreter in between."""
    if isinstance(value, (dict, msgspec.Struct)):
        fields = value if isinstance(value, dict) else msgspec.structs.asdict(value)
        begin = b"{"
        for name, each in fields.items():
            yield begin + _encode(name) + b":"
            yield from _parts(each)
            begin = b","
        yield b"}" if fields else b"{}"
    elif isinstance(value, list) and len(value) > _PART_ITEMS:
        for first in range(0, len(value), _PART_ITEMS):
            yield b"," if first else b"["
            yield _encode(value[first : first + _PART_ITEMS])[1:-1]
        yield b"]"
    else:
        yield _encode(value)


async def _send_parts(
    answer: _Stream | ExportFile, name: str, scope: Scope, receive: Receive, send: Send
) -> None:
    headers = {"Cache-Control": "no-store", "X-Request-Id": name}
    if isinstance(answer, _Stream):
        headers["X-Accel-Buffering"] = "no"
        response = StreamingResponse(answer.content, 200, headers, "text/event-stream")
        await response(scope, receive, send)
        return
    # Not by Starlette's response for files, which would offer ranges of what is gone.
    with answer.folder, answer.path.open("rb") as content:
        headers["Content-Length"] = str(os.fstat(content.fileno()).st_size)
        parts = iter(partial(content.read, _PART), b"")
        response = StreamingResponse(parts, 200, headers, FORMATS[answer.format])
        await response(scope, receive, send)
