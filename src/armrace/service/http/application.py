"""The application: endpoints behind access, limits and one shape of errors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from armrace.errors import ArmraceError, InvalidParameter, StoreFailed
from armrace.service.http.access import Access
from armrace.service.http.endpoints import ENDPOINTS, Call, Endpoint, Raw, Stream
from armrace.service.http.front import Front
from armrace.service.http.inside import Inside
from armrace.service.http.logs import RequestLog, request_id
from armrace.service.http.metrics import Metrics
from armrace.service.http.openapi import make_document, make_page
from armrace.service.http.problems import NotAllowed, NotFound, Problem, TooLarge, status_of
from armrace.service.service import Service
from armrace.service.warming import warm

__all__ = ["Pages", "create_application"]

_encode = msgspec.json.Encoder().encode
_RETRY_SECONDS = "1"

Pages = Callable[[Inside], Sequence[BaseRoute]]
"""Returns routes beside the endpoints, which read through what they are given."""


def create_application(
    service: Service,
    rate: float | None = None,
    when_failed: Callable[[], None] = lambda: None,
    version: str = "",
    log: RequestLog | None = None,
    pages: Pages = lambda inside: (),
) -> Starlette:
    """Return the application of a service.

    Args:
        service: the service, which the application closes when it ends.
        rate: how many events a second each key may send; ``None`` for no limit.
        when_failed: called when the store has failed for good, to stop the process.
        version: the version of the package, for the OpenAPI document.
        log: writes about requests; by default about those of status 500 and above.
        pages: returns routes beside the endpoints.
    """
    log = log or RequestLog()
    return _Application(service, rate, when_failed, version, log).starlette(pages)


class _Application:
    def __init__(
        self,
        service: Service,
        rate: float | None,
        when_failed: Callable[[], None],
        version: str,
        log: RequestLog,
    ) -> None:
        self._service = service
        self._front = Front(service.ledger)
        self._access = Access(service.keyring, rate, service.tenant)
        self._metrics = Metrics()
        self._log = log
        self._when_failed = when_failed
        self._document = _encode(make_document(version))
        self._ready = False

    def starlette(self, pages: Pages) -> Starlette:
        routes: list[BaseRoute] = [
            # names of arms may have slashes
            Route(e.path.replace("{arm}", "{arm:path}"), self._handler(e), methods=[e.method])
            for e in ENDPOINTS
        ]
        routes += [
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", self._show_document),
            Route("/docs", self._show_page),
            *pages(Inside(self._front, self._access, self._service.keyring, self._service.tenant)),
        ]
        handlers: dict[Any, Any] = {HTTPException: _refuse_address}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        for settings in self._service.ledger.all_settings():
            warm(settings)
        self._ready = True
        yield
        self._ready = False
        await self._front.close()
        self._service.close()

    def _handler(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        decoder = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)

        async def handle(request: Request) -> Response:
            began, code = time.perf_counter(), None
            name = request_id(request.headers.get("x-request-id"))
            try:
                response = await self._answer(endpoint, decoder, request)
            except ArmraceError as error:
                response, code = self._refuse(error), error.code
            except ClientDisconnect:
                response = Response(status_code=499)
            response.headers["X-Request-Id"] = name
            seconds, status = time.perf_counter() - began, response.status_code
            self._metrics.count(endpoint.path, status, seconds)
            self._log.write(name, endpoint.method, endpoint.path, status, seconds, code)
            return response

        return handle

    async def _answer(
        self, endpoint: Endpoint, decoder: msgspec.json.Decoder[Any] | None, request: Request
    ) -> Response:
        headers = request.headers
        tenant = self._access.check(
            headers.get("authorization", ""), headers.get("host", ""), endpoint.scope
        )
        body = None
        if decoder is not None:
            body = _decode(decoder, await _read(request, endpoint.limit))
        query = dict(request.query_params)
        call = Call(self._front, tenant, request.path_params, query, body)
        answer = await endpoint.handle(call)
        if isinstance(answer, Raw):
            return Response(answer.content, media_type=answer.media_type)
        if isinstance(answer, Stream):
            no_store = {"Cache-Control": "no-store"}
            return StreamingResponse(
                answer.content, media_type="text/event-stream", headers=no_store
            )
        return Response(_encode(answer), endpoint.status, media_type="application/json")

    def _refuse(self, error: ArmraceError) -> Response:
        self._metrics.count_problem(error.code)
        response = _problem(error)
        if response.status_code in (429, 503):
            response.headers["Retry-After"] = _RETRY_SECONDS
        if response.status_code == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, StoreFailed) and not self._service.ledger.store.recovers:
            self._ready = False
            self._when_failed()
        return response

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readiness(self, request: Request) -> Response:
        if self._ready:
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503)

    async def _show_metrics(self, request: Request) -> Response:
        headers = request.headers
        try:
            self._access.check(headers.get("authorization", ""), headers.get("host", ""), "read")
        except ArmraceError as error:
            return self._refuse(error)
        return PlainTextResponse(self._metrics.text(self._service.ledger))

    async def _show_document(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _show_page(self, request: Request) -> Response:
        policy = "default-src 'none'; style-src 'self'"
        return HTMLResponse(make_page(), headers={"Content-Security-Policy": policy})


def _problem(error: ArmraceError) -> Response:
    content = _encode(Problem(error.code, str(error)))
    return Response(content, status_of(error), media_type="application/json")


async def _refuse_address(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        response = _problem(NotAllowed(f"this address does not take {request.method}."))
        response.headers.update(error.headers or {})
        return response
    return _problem(NotFound("there is nothing at this address; see /docs."))


async def _read(request: Request, limit: int) -> bytes:
    """Return the body; refuse it as soon as it is longer than the limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body must have at most {limit} bytes.")
        parts.append(part)
    return b"".join(parts)


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidParameter(f"the body is refused: {reason[:300]}.") from None
