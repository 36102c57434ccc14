"""Endpoints as ASGI applications: access, body, answer, and one shape of errors.

They do not use Starlette's objects for requests and responses, which take longer than a decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from armrace.errors import ArmraceError, DamagedFile, InvalidParameter, StoreFailed
from armrace.service.http.access import Access
from armrace.service.http.endpoints import DECIDE, REWARD, Call, Endpoint, Raw, Stream
from armrace.service.http.front import Front
from armrace.service.http.logs import RequestLog, request_id
from armrace.service.http.metrics import Metrics
from armrace.service.http.problems import Problem, TooLarge, headers_of, status_of

__all__ = ["Handler", "Shortcut"]

_encode = msgspec.json.Encoder().encode
_JSON = b"application/json"
_PREFIX, _SUFFIX = DECIDE.split("{name}")


class _ClientGone(Exception):
    """The client has closed the connection before it had sent its body."""


class Handler:
    """An endpoint as an ASGI application.

    Args:
        endpoint: what it does.
        front: performs requests of the ledger.
        access: who may do what.
        metrics: counts answers.
        log: writes about requests.
        when_failed: called when the store has failed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        front: Front,
        access: Access,
        metrics: Metrics,
        log: RequestLog,
        when_failed: Callable[[], None],
    ) -> None:
        self._endpoint = endpoint
        self._decoder = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)
        self._front = front
        self._access = access
        self._metrics = metrics
        self._log = log
        self._when_failed = when_failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, code = time.perf_counter(), None
        headers = dict(scope["headers"])
        name = request_id(headers.get(b"x-request-id"))
        status, media, more = self._endpoint.status, _JSON, {}
        try:
            answer = await self._answer(scope, headers, receive)
            if isinstance(answer, Stream):
                self._note(name, status, time.perf_counter() - began, None)
                await _stream(answer, name, scope, receive, send)
                return
            if isinstance(answer, Raw):
                content, media = answer.content, answer.media_type.encode()
            else:
                content = _encode(answer)
        except ArmraceError as error:
            status, code, more = status_of(error), error.code, headers_of(error)
            content = _encode(Problem(error.code, str(error)))
            self._metrics.count_problem(error.code)
            if isinstance(error, (StoreFailed, DamagedFile)):
                self._when_failed()
        except _ClientGone:
            status, content = 499, b""
        sent = [
            (b"content-type", media),
            (b"content-length", b"%d" % len(content)),
            (b"x-request-id", name.encode()),
        ]
        sent += [(key.lower().encode(), value.encode()) for key, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": content})
        self._note(name, status, time.perf_counter() - began, code)

    def _note(self, name: str, status: int, seconds: float, code: str | None) -> None:
        endpoint = self._endpoint
        self._metrics.count(endpoint.path, status, seconds)
        self._log.write(name, endpoint.method, endpoint.path, status, seconds, code)

    async def _answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Any:
        endpoint = self._endpoint
        tenant = self._access.check(
            headers.get(b"authorization", b"").decode("latin-1"),
            headers.get(b"host", b"").decode("latin-1"),
            endpoint.scope,
        )
        body = None
        if self._decoder is not None:
            body = _decode(self._decoder, await _read(receive, endpoint.limit))
        query = scope["query_string"]
        asked = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}
        return await endpoint.handle(Call(self._front, tenant, scope["path_params"], asked, body))


class Shortcut:
    """Leads the most frequent requests to their handlers, past Starlette's layers and routes.

    Args:
        app: the application for everything else.
        decide: the handler of decisions.
        reward: the handler of rewards.
    """

    def __init__(self, app: Starlette, decide: Handler, reward: Handler) -> None:
        self.app = app
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


async def _stream(answer: Stream, name: str, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Cache-Control": "no-store", "X-Request-Id": name}
    response = StreamingResponse(answer.content, media_type="text/event-stream", headers=headers)
    await response(scope, receive, send)


async def _read(receive: Receive, limit: int) -> bytes:
    """Return the body; refuse it as soon as it is longer than the limit."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > limit:
            raise TooLarge(f"the body must have at most {limit} bytes.")
        if not message.get("more_body", False):
            return body


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidParameter(f"the body is refused: {reason[:300]}.") from None
