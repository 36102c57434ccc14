"""Endpoints as ASGI applications: access, body, answer, and one shape of errors.

They do not use Starlette's objects for requests and responses, which take longer than a decision.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from armrace.errors import ArmraceError, DamagedFile, RequestFailed, StoreFailed, UnknownName
from armrace.service.aside import run_aside
from armrace.service.http.access import Access, Grant
from armrace.service.http.bodies import ClientGone, read_json
from armrace.service.http.endpoints import DECIDE, REWARD, Endpoint
from armrace.service.http.front import Front
from armrace.service.http.logs import RequestLog, request_id
from armrace.service.http.metrics import Metrics
from armrace.service.http.operations import Call, File, Stream, problem_event
from armrace.service.http.problems import (
    Problem,
    headers_of,
    status_of,
)
from armrace.service.http.streams import Streams

__all__ = ["Handler", "Shortcut"]

_encode = msgspec.json.Encoder().encode
_JSON = b"application/json"
_PART = 2**18
_PART_ITEMS = 200
_PREFIX, _SUFFIX = DECIDE.split("{name}")


class Handler:
    """An endpoint as an ASGI application.

    Args:
        endpoint: what it does.
        front: performs requests of the ledger.
        access: who may do what.
        streams: the event streams that are open.
        metrics: counts answers.
        log: writes about requests.
        when_failed: called when the store has failed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        front: Front,
        access: Access,
        streams: Streams,
        metrics: Metrics,
        log: RequestLog,
        when_failed: Callable[[], None],
    ) -> None:
        self._endpoint = endpoint
        self._decoder = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)
        self._front = front
        self._access = access
        self._streams = streams
        self._metrics = metrics
        self._log = log
        self._when_failed = when_failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, code, defect = time.perf_counter(), None, None
        headers = dict(scope["headers"])
        name = request_id(headers.get(b"x-request-id"))
        status, more = self._endpoint.status, {}
        grant = None
        try:
            grant = self._grant(scope, headers)
            answer = await self._answer(grant, scope, headers, receive)
            if isinstance(answer, Stream):
                followed = self._followed(answer.content, grant, scope, headers)
                self._note(name, status, time.perf_counter() - began, None)
                await _stream(followed, name, scope, receive, send)
                return
            if isinstance(answer, File):
                await _send_file(answer, name, scope, receive, send)
                self._note(name, status, time.perf_counter() - began, None)
                return
            content = await _encoded(answer)
        except ClientGone:
            status, content = 499, b""
        except Exception as error:
            refusal = error if isinstance(error, ArmraceError) else RequestFailed.because_of(error)
            status, code, more = status_of(refusal), refusal.code, headers_of(refusal)
            content = _encode(Problem(refusal.code, _sentence(refusal, grant)))
            self._metrics.count_problem(refusal.code)
            defect = refusal.__cause__ if isinstance(refusal, RequestFailed) else None
            if isinstance(refusal, (DamagedFile, StoreFailed)):
                self._when_failed()
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
        endpoint = self._endpoint
        self._metrics.count(endpoint.path, status, seconds)
        self._log.write(name, endpoint.method, endpoint.path, status, seconds, code, defect)

    def _grant(self, scope: Scope, headers: dict[bytes, bytes]) -> Grant:
        endpoint = self._endpoint
        return self._access.check(scope, headers, endpoint.scope, endpoint.operator)

    async def _answer(
        self, grant: Grant, scope: Scope, headers: dict[bytes, bytes], receive: Receive
    ) -> Any:
        endpoint, body = self._endpoint, None
        if endpoint.events is None:
            self._access.charge(grant.key, endpoint.cost)
        if self._decoder is not None:
            body = await read_json(receive, headers, endpoint.limit, self._decoder)
        if endpoint.events is not None:
            self._access.charge(grant.key, max(1, endpoint.events(body)))
        query = scope["query_string"]
        asked = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}
        call = Call(self._front, self._streams, grant.tenant, scope["path_params"], asked, body)
        return await endpoint.handle(call)

    def _followed(
        self, content: AsyncIterator[bytes], grant: Grant, scope: Scope, headers: dict[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        """Return a stream that ends when its key may read no more; refuse one too many."""
        key = "" if grant.key is None else grant.key.id
        self._streams.check(key)

        async def follow() -> AsyncIterator[bytes]:
            with self._streams.opened(key):
                async for message in content:
                    try:
                        self._grant(scope, headers)
                    except ArmraceError as error:
                        yield problem_event(error)
                        return
                    yield message

        return follow()


def _sentence(error: ArmraceError, grant: Grant | None) -> str:
    """Return what an error says, without names that the key may not read."""
    blind = grant is not None and grant.key is not None and not grant.key.allows("read")
    brief = error.brief if blind and isinstance(error, UnknownName) else None
    return brief or str(error)


class Shortcut:
    """Leads the most frequent requests to their handlers, past Starlette's layers and routes.

    Args:
        app: the application for everything else.
        decide: the handler of decisions.
        reward: the handler of rewards.
        streams: the event streams, to be closed when the server stops.
    """

    def __init__(self, app: Starlette, decide: Handler, reward: Handler, streams: Streams) -> None:
        self.app = app
        self.streams = streams
        self._decide = decide
        self._reward = reward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"]
            if path == REWARD:
                scope["path_params"] = {}
                return await self._reward(scope, receive, send)
            name = path[len(_PREFIX) : -len(_SUFFIX)]
            if path == f"{_PREFIX}{name}{_SUFFIX}" and name and "/" not in name:
                scope["path_params"] = {"name": name}
                return await self._decide(scope, receive, send)
        return await self.app(scope, receive, send)


async def _encoded(answer: Any) -> bytes:
    """Return an answer as JSON; a long one is written aside, in parts."""
    if len(getattr(answer, "arms", ())) < _PART_ITEMS:
        return _encode(answer)
    return await asyncio.wrap_future(run_aside(partial(_encode_in_parts, answer)))


def _encode_in_parts(answer: Any) -> bytes:
    """As ``_encode``, but others get the interpreter in between."""
    parts: list[bytes] = []
    for name, value in msgspec.structs.asdict(answer).items():
        parts.append(b"," + _encode(name) + b":")
        if isinstance(value, list) and value:
            begins = range(0, len(value), _PART_ITEMS)
            inner = (_encode(value[begin : begin + _PART_ITEMS])[1:-1] for begin in begins)
            parts.append(b"[" + b",".join(inner) + b"]")
        else:
            parts.append(_encode(value))
    return b"{" + b"".join(parts)[1:] + b"}"


async def _stream(
    content: AsyncIterator[bytes], name: str, scope: Scope, receive: Receive, send: Send
) -> None:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Request-Id": name}
    response = StreamingResponse(content, media_type="text/event-stream", headers=headers)
    await response(scope, receive, send)


async def _send_file(file: File, name: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a file and remove it; not by Starlette, which would offer ranges of what is gone."""
    with file.folder as folder, (Path(folder) / file.name).open("rb") as content:
        headers = {
            "Cache-Control": "no-store",
            "Content-Length": str(os.fstat(content.fileno()).st_size),
            "X-Request-Id": name,
        }
        parts = iter(partial(content.read, _PART), b"")
        response = StreamingResponse(parts, media_type=file.media_type, headers=headers)
        await response(scope, receive, send)
