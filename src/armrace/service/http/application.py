"""The application: endpoints behind access, limits and one shape of errors.

Endpoints are ASGI applications without Starlette's objects for requests and responses, which take
longer than a decision.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from types import AsyncGeneratorType
from typing import Any, Literal, TextIO

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from armrace.errors import ArmraceError, RequestFailed
from armrace.service.background import run_in_background, run_soon
from armrace.service.http.access import (
    Access,
    Api,
    Caller,
    Headers,
    TrustedProxies,
    headers_of,
    response_to,
)
from armrace.service.http.endpoints import (
    ENDPOINTS,
    EVENTS,
    FLAGS,
    ClientGone,
    Endpoint,
    make_document,
    read_body,
)
from armrace.service.http.metrics import MEDIA_TYPE, Metrics, RequestCounts
from armrace.service.http.webhooks import Webhooks, WebhookSettings
from armrace.service.operations.inspection import FORMATS, ExportFile
from armrace.service.service import Service
from armrace_client.errors import NotAllowed, NotFound
from armrace_client.operations import Decide, Operation, Reward

LogLevel = Literal["all", "problems", "none"]
_LONGEST_ID = 64
_MOST_REFUSALS = 100
"""How many refusals are written in a minute, unless all requests are."""
_PROCESS, _numbers = f"{secrets.token_hex(6)}-", count(1)
"""New ids differ from those of other processes and from one another; they need not be secret."""


class RequestLog:
    """Counts requests since the process began, and writes lines of JSON.

    There is one for each request that is of its level, and one for whatever else happens. With
    ``problems`` refusals are written too, but no more than some in a minute: anybody can cause
    them.
    """

    def __init__(self, level: LogLevel = "problems", file: TextIO | None = None) -> None:
        self._least = {"all": 0, "problems": 500, "none": 1000}[level]
        self._file = file
        self.counts = RequestCounts()
        self._minute = self._refused = 0
        """The minute of the last refusal, and how many there were in it."""

    def write(
        self, name: str, endpoint: Endpoint, status: int, began: float, error: ArmraceError | None
    ) -> None:
        """Record a request that was answered, without the names in its address.

        ``began`` is a reading of ``time.perf_counter``. Of a defect the traceback is written.
        """
        seconds = time.perf_counter() - began
        self.counts.add(endpoint.path, status, seconds)
        about: dict[str, Any] = {
            "request": name,
            "method": endpoint.route.method,
            "endpoint": endpoint.path,
            "status": status,
            "milliseconds": round(1000 * seconds, 2),
        }
        if error is not None:
            self.refuse(error, **about)
        elif status >= self._least:
            self.note("request", **about)

    def refuse(self, error: ArmraceError, **about: Any) -> None:
        """Count a refusal by its code; those of the code reward-conflict are alarms."""
        self.counts.problems[error.code] += 1
        is_defect = error.status >= 500
        if error.status >= self._least or (self._least < 1000 and self._has_room()):
            defect = error.__cause__ if isinstance(error, RequestFailed) else None
            self.note("failure" if is_defect else "refusal", None, defect, **about, code=error.code)

    def _has_room(self) -> bool:
        """Whether another refusal may be written; tell how many were not when a minute is over."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            if (more := self._refused - _MOST_REFUSALS) > 0:
                self.note("refusal", f"{more} more refusals of a minute are only counted.")
            self._minute, self._refused = minute, 0
        self._refused += 1
        return self._refused <= _MOST_REFUSALS

    def note(
        self,
        event: str,
        message: str | None = None,
        defect: BaseException | None = None,
        **about: Any,
    ) -> None:
        """Write a line, at once: several threads write."""
        file = self._file or sys.stderr
        said = {"event": event, "message": message, **about}
        file.write(f"{_line(time.time(), said, defect)}\n")
        file.flush()


def _line(moment: float, said: dict[str, Any], error: BaseException | None = None) -> str:
    trace = None if error is None else "".join(traceback.format_exception(error))
    line = {"time": round(moment, 3), **said, "error": trace}
    found = {name: value for name, value in line.items() if value is not None}
    return msgspec.json.encode(found).decode()


class _JsonFormatter(logging.Formatter):
    """Lines of uvicorn in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return _line(record.created, {"event": "server", "message": record.getMessage()}, error)


UVICORN_LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": _JsonFormatter}},
    "handlers": {"json": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"uvicorn": {"handlers": ["json"], "level": "WARNING", "propagate": False}},
}


def request_id(given: bytes | None) -> str:
    """Return the id that a client gave its request, if it is plain and short, or a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.decode().isprintable():
        return given.decode()
    return f"{_PROCESS}{next(_numbers):x}"


# --- the application ---------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_PART = 2**18
_PART_ITEMS = 200
_EVENT_SECONDS = 1.0
_READY_SECONDS = 2.0
"""How long a database may take to answer before the service is not ready."""
_CLOSE_SECONDS = 5.0
"""How long to wait at the end for a store that does not answer."""
_PREFIX, _SUFFIX = Decide.route.path.split("{name}")
_REWARD = Reward.route.path

Pages = Callable[[Api], Sequence[BaseRoute]]
"""Returns routes beside the endpoints, which read through what they are given."""


def create_application(
    service: Service,
    rate: float | None = None,
    when_failed: Callable[[], None] = lambda: None,
    version: str = "",
    log: RequestLog | None = None,
    pages: Pages = lambda api: (),
    declared_open: bool = False,
    proxies: TrustedProxies | None = None,
    webhook: WebhookSettings | None = None,
) -> Application:
    """Return the application of a service, which it closes when it ends.

    ``when_failed`` is called when the store has failed for good, to stop the process.
    """
    service.engine.when_failed = when_failed
    log = log or RequestLog()
    tell = partial(log.note, "keys")
    access = Access(service.keyring, rate, service.tenant, tell, declared_open, proxies)
    webhooks = None if webhook is None else Webhooks(service.engine, webhook, log.note)
    api = Api(service.engine, access, log.note)
    return Application(service, api, version, log, pages, webhooks)


class Application:
    """All addresses of a service; the most frequent requests pass by Starlette and its routes."""

    def __init__(
        self,
        service: Service,
        api: Api,
        version: str,
        log: RequestLog,
        pages: Pages,
        webhooks: Webhooks | None,
    ) -> None:
        self._service, self._engine = service, service.engine
        self._api, self._log = api, log
        self.streams = api.streams
        self._is_serving = False
        self.failure: str | None = None
        """Why the service has stopped by itself, once it has."""
        self._question: asyncio.Future[None] | None = None
        """What the store was asked last, to see whether it answers."""
        self._webhooks = webhooks
        self._metrics = Metrics(service.engine, log.counts, webhooks)
        self._scrape: asyncio.Future[bytes] | None = None
        handlers = {each.name: _Handler(each, api, log) for each in ENDPOINTS}
        handlers[EVENTS.name] = _EventsHandler(EVENTS, api, log)
        self._decide, self._reward = handlers["decide"], handlers["reward"]
        document = Response(_encode(make_document(version)), media_type="application/json")
        routes = [
            Route(
                each.path.replace("{name}", "{name:path}"),
                _Handler(each, api, log),
                methods=["POST"],
            )
            for each in FLAGS
        ]
        routes += [
            Route("/healthz", PlainTextResponse("alive\n"), methods=["GET"]),
            Route("/readyz", self._readiness),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", document, methods=["GET"]),
        ]
        for each in (*ENDPOINTS, EVENTS):
            path = each.path.replace("{arm}", "{arm:path}")  # names of arms may have slashes
            routes.append(Route(path, handlers[each.name], methods=[each.route.method]))
        self.app = Starlette(
            routes=[*routes, *pages(api)],
            lifespan=self._lifespan,
            exception_handlers=dict.fromkeys(
                [HTTPException, ArmraceError, Exception], self._refuse
            ),
        )

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

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        self._is_serving = True
        if self._webhooks is not None:
            self._webhooks.start()
        began = time.monotonic()
        yield
        self._is_serving = False
        self.streams.close()
        problem = await self._finish()
        if self._engine.failure is not None:
            reason = self._engine.failure.removesuffix(".")
            self.failure = f"{reason}; the service stops, and replays its log next time."
        said = self.failure or problem or "All requests were answered, and the store is closed."
        self._log.note("stop", said, seconds=round(time.monotonic() - began, 1))

    async def _finish(self) -> str | None:
        """Answer what waits and close the store; return what went wrong."""
        # A database that does not answer is not waited for.
        if not await self._api.drain(_CLOSE_SECONDS):
            return f"The store has not answered for {_CLOSE_SECONDS:g} seconds."
        try:
            await asyncio.wait_for(_in_thread(self._close), _CLOSE_SECONDS)
        except (ArmraceError, TimeoutError) as error:
            return f"The store could not be closed: {error or 'it does not answer.'}"
        return None

    def _close(self) -> None:
        if self._webhooks is not None:
            self._webhooks.close()
        self._service.close()

    async def _readiness(self, request: Request) -> Response:
        is_ready = self._is_serving and self._engine.failure is None
        if is_ready and self._engine.store.recovers:  # a file that fails stops the process
            if self._question is None or self._question.done():  # one at a time, however many ask
                self._question = _in_thread(self._ask_store)
            try:
                await asyncio.wait_for(asyncio.shield(self._question), _READY_SECONDS)
            except (ArmraceError, TimeoutError):
                is_ready = False
        return PlainTextResponse("ready\n") if is_ready else PlainTextResponse("not ready\n", 503)

    def _ask_store(self) -> None:
        with self._engine.store.transaction() as transaction:
            transaction.time()

    async def _show_metrics(self, request: Request) -> Response:
        access, headers = self._api.access, dict(request.scope["headers"])
        access.charge(access.check(request.scope, headers, "read", operator=True).key)
        if self._scrape is None or self._scrape.done():  # one at a time, however many ask
            self._scrape = asyncio.wrap_future(run_soon(self._metrics.exposition))
        return Response(await asyncio.shield(self._scrape), media_type=MEDIA_TYPE)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        """Answer an error outside of endpoints and pages, which answer theirs themselves."""
        if isinstance(error, ArmraceError):
            self._log.refuse(error, method=request.method)
            return response_to(error)
        if not isinstance(error, HTTPException):
            return response_to(RequestFailed.because_of(error))
        if error.status_code == 405:
            sentence = f"this address does not take {request.method}."
            return response_to(NotAllowed(sentence), error.headers)
        return response_to(NotFound("there is nothing at this address; see /docs."))


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Do something in a thread that does not keep the process from ending."""
    outcome: Future[None] = Future()

    def run() -> None:
        with suppress(InvalidStateError):  # it was not waited for
            try:
                work()
                outcome.set_result(None)
            except Exception as error:
                outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return asyncio.wrap_future(outcome)


class _Handler:
    """An endpoint as an ASGI application."""

    def __init__(self, endpoint: Endpoint, api: Api, log: RequestLog) -> None:
        self._endpoint, self._route = endpoint, endpoint.route
        self._api, self._log = api, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, caller, refusal, more = time.perf_counter(), None, None, {}
        endpoint, charge = self._endpoint, self._api.access.charge
        headers, status = dict(scope["headers"]), self._route.status
        name = request_id(headers.get(b"x-request-id"))
        try:
            caller = self._caller(scope, headers)
            if endpoint.cost is not None:
                charge(caller.key, endpoint.cost)
            body = b"" if endpoint.is_query else await read_body(receive, self._route.limit)
            operation = endpoint.read(scope, headers, body)
            if endpoint.cost is None:
                charge(caller.key, max(1, operation.events()))
            answer = await self._perform(caller, operation, scope, headers)
            if isinstance(answer, (AsyncGeneratorType, ExportFile)):
                self._log.write(name, endpoint, status, began, None)
                await _send_parts(answer, name, scope, receive, send)
                return
            content = await _encoded(answer) if _is_long(answer) else _encode(answer)
            if tag := endpoint.tag(content):
                more = {"ETag": tag}
                if tag.encode() in headers.get(b"if-none-match", b""):
                    status, content = 304, b""
        except ClientGone:
            status, content = 499, b""
        except Exception as error:
            refusal = error if isinstance(error, ArmraceError) else RequestFailed.because_of(error)
            more, sentence = headers_of(refusal), str(refusal)
            if caller is not None and not caller.may_read:  # nor learn which names there are
                sentence = getattr(refusal, "brief", None) or sentence
            status, said = endpoint.refuse(refusal, sentence, scope)
            content = _encode(said)
        sent = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"x-request-id", name.encode()),
        ]
        sent += [(key.lower().encode(), value.encode()) for key, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": content})
        self._log.write(name, endpoint, status, began, refusal)

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        return self._api.access.check(scope, headers, self._route.scope, self._route.operator)

    def _perform(
        self, caller: Caller, operation: Operation[Any], scope: Scope, headers: Headers
    ) -> Awaitable[Any]:
        return self._api.submit(caller, operation)


class _EventsHandler(_Handler):
    """The state of an experiment whenever it has changed, as a stream."""

    async def _perform(
        self, caller: Caller, operation: Operation[Any], scope: Scope, headers: Headers
    ) -> Any:
        await self._api.submit(caller, operation)  # refused here, before the stream begins
        self._api.streams.check(caller.key_id)
        return self._states(caller, operation, partial(self._caller, scope, headers))

    async def _states(
        self, caller: Caller, operation: Operation[Any], check: Callable[[], Caller]
    ) -> AsyncIterator[bytes]:
        """Yield the state, at most once a second; a comment if it has not changed.

        The stream ends when its key may read no more.
        """
        last, streams = None, self._api.streams
        with streams.opened(caller.key_id):
            while not streams.closing:
                try:
                    view = await self._api.submit(caller, operation)
                    check()
                except ArmraceError as error:
                    yield b"event: problem\ndata: " + _encode({"code": error.code}) + b"\n\n"
                    return
                if view == last:
                    yield b":\n\n"
                else:
                    yield b"event: state\ndata: " + await _encoded(view) + b"\n\n"
                last = view
                await streams.rest(_EVENT_SECONDS)


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
    return await asyncio.wrap_future(run_in_background(partial(_encoded_in_parts, answer)))


def _encoded_in_parts(value: Any) -> bytes:
    """Return JSON that is written in parts, so that others get the interpreter in between."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        fields = {name: msgspec.Raw(_encoded_in_parts(each)) for name, each in value.items()}
        return _encode(fields)
    if isinstance(value, list) and len(value) > _PART_ITEMS:
        firsts = range(0, len(value), _PART_ITEMS)
        parts = [_encode(value[first : first + _PART_ITEMS])[1:-1] for first in firsts]
        return b"[" + b",".join(parts) + b"]"
    return _encode(value)


async def _send_parts(
    answer: AsyncIterator[bytes] | ExportFile, name: str, scope: Scope, receive: Receive, send: Send
) -> None:
    headers = {"Cache-Control": "no-store", "X-Request-Id": name}
    if isinstance(answer, ExportFile):
        # Not by Starlette's response for files, which would offer ranges of what is gone.
        with answer.folder, answer.path.open("rb") as content:
            headers["Content-Length"] = str(os.fstat(content.fileno()).st_size)
            parts = iter(partial(content.read, _PART), b"")
            response = StreamingResponse(parts, 200, headers, FORMATS[answer.format])
            await response(scope, receive, send)
    else:
        headers["X-Accel-Buffering"] = "no"
        response = StreamingResponse(answer, 200, headers, "text/event-stream")
        await response(scope, receive, send)
