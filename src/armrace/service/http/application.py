"""The application: endpoints behind access, limits and one shape of errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from armrace.errors import ArmraceError, RequestFailed
from armrace.service.http.access import Access, TrustedProxies
from armrace.service.http.api import Api
from armrace.service.http.endpoints import ENDPOINTS, EVENTS
from armrace.service.http.handlers import EventsHandler, Handler, Shortcut
from armrace.service.http.logs import RequestLog
from armrace.service.http.metrics import Metrics
from armrace.service.http.openapi import make_document, make_page
from armrace.service.http.problems import Problem, headers_of
from armrace.service.http.streams import Streams
from armrace.service.service import Service
from armrace_client.errors import NotAllowed, NotFound

_encode = msgspec.json.Encoder().encode

_READY_SECONDS = 2.0
"""How long a database may take to answer before the service is not ready."""
_CLOSE_SECONDS = 5.0
"""How long to wait at the end for a store that does not answer."""

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
) -> Shortcut:
    """Return the application of a service.

    Args:
        service: the service, which the application closes when it ends.
        rate: how many events a second each key may send; ``None`` for no limit.
        when_failed: called when the store has failed for good, to stop the process.
        version: the version of the package, for the OpenAPI document.
        log: writes about requests; by default about those of status 500 and above.
        pages: returns routes beside the endpoints.
        declared_open: whether programs on this machine need no key as long as there is none.
        proxies: what says which person sends a request; ``None`` if nothing does.
    """
    log = log or RequestLog()
    access = Access(service.keyring, rate, service.tenant, log.note, declared_open, proxies)
    service.engine.when_failed = when_failed
    return _Application(service, access, version, log).with_shortcut(pages)


class _Application:
    def __init__(self, service: Service, access: Access, version: str, log: RequestLog) -> None:
        self._service, self._engine = service, service.engine
        self._access = access
        self._streams = Streams()
        self._api = Api(service.engine, access, self._streams)
        self._metrics = Metrics()
        self._log = log
        self._document = _encode(make_document(version))
        self._is_serving = False
        self._question: asyncio.Future[None] | None = None
        """What the store was asked last, to see whether it answers."""

    def with_shortcut(self, pages: Pages) -> Shortcut:
        handlers = {
            each.name: Handler(each, self._api, self._metrics, self._log) for each in ENDPOINTS
        }
        handlers[EVENTS.name] = EventsHandler(EVENTS, self._api, self._metrics, self._log)
        routes: list[BaseRoute] = [
            # names of arms may have slashes
            Route(
                each.path.replace("{arm}", "{arm:path}"),
                handlers[each.name],
                methods=[each.route.method],
            )
            for each in (*ENDPOINTS, EVENTS)
        ]
        routes += [
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", self._show_document),
            *pages(self._api),
            Route("/docs", self._show_page),  # without pages, which have one of their own
        ]
        refusals: dict[Any, Any] = {HTTPException: _refuse_address, Exception: _refuse_defect}
        starlette = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=refusals)
        return Shortcut(starlette, handlers["decide"], handlers["reward"], self._streams)

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        self._is_serving = True
        yield
        self._is_serving = False
        self._streams.close()
        await self._close()

    async def _close(self) -> None:
        """Close the service, but do not wait for a database that does not answer."""
        if not await self._api.drain(_CLOSE_SECONDS):
            self._log.note(f"the store has not answered for {_CLOSE_SECONDS:g} seconds.")
            return
        try:
            await asyncio.wait_for(_in_thread(self._service.close), _CLOSE_SECONDS)
        except (ArmraceError, TimeoutError) as error:
            self._log.note(f"the store could not be closed: {error or 'it does not answer.'}")

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readiness(self, request: Request) -> Response:
        if self._is_serving and self._engine.failure is None and await self._store_answers():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503)

    async def _store_answers(self) -> bool:
        """Whether a database can be used now; a file that cannot be used stops the process."""
        if not self._engine.store.recovers:
            return True
        if self._question is None or self._question.done():  # one at a time, however many ask
            self._question = _in_thread(self._ask_store)
        try:
            await asyncio.wait_for(asyncio.shield(self._question), _READY_SECONDS)
        except (ArmraceError, TimeoutError):
            return False
        return True

    def _ask_store(self) -> None:
        with self._engine.store.transaction() as transaction:
            transaction.time()

    async def _show_metrics(self, request: Request) -> Response:
        try:
            headers = dict(request.scope["headers"])
            visitor = self._access.check(request.scope, headers, "read", operator=True)
            self._api.charge(visitor)
        except ArmraceError as error:
            self._metrics.count_problem(error.code)
            return _problem(error)
        return PlainTextResponse(self._metrics.text(self._engine))

    async def _show_document(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _show_page(self, request: Request) -> Response:
        policy = "default-src 'none'; style-src 'self'"
        return HTMLResponse(make_page(), headers={"Content-Security-Policy": policy})


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


def _problem(error: ArmraceError) -> Response:
    return Response(
        _encode(Problem(error.code, str(error))),
        error.status,
        headers_of(error),
        "application/json",
    )


async def _refuse_defect(request: Request, error: Exception) -> Response:
    return _problem(RequestFailed.because_of(error))


async def _refuse_address(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        response = _problem(NotAllowed(f"this address does not take {request.method}."))
        response.headers.update(error.headers or {})
        return response
    return _problem(NotFound("there is nothing at this address; see /docs."))
