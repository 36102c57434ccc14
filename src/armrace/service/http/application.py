"""The application: endpoints behind access, limits and one shape of errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from armrace.errors import ArmraceError, RequestFailed, StoreFailed
from armrace.service.http.access import Access
from armrace.service.http.endpoints import DECIDE, ENDPOINTS, REWARD
from armrace.service.http.front import Front
from armrace.service.http.handlers import Handler, Shortcut
from armrace.service.http.inside import Inside
from armrace.service.http.logs import RequestLog
from armrace.service.http.metrics import Metrics
from armrace.service.http.openapi import make_document, make_page
from armrace.service.http.problems import (
    NotAllowed,
    NotFound,
    Problem,
    headers_of,
    status_of,
)
from armrace.service.http.streams import Streams
from armrace.service.service import Service
from armrace.service.warming import is_warm, warm_for_serving

__all__ = ["Pages", "create_application"]

_encode = msgspec.json.Encoder().encode

_LOOK_SECONDS = 2.0
_READY_SECONDS = 2.0
"""How long a database may take to answer before the service is not ready."""
_CLOSE_SECONDS = 5.0
"""How long to wait at the end for requests that the store has not answered."""

Pages = Callable[[Inside], Sequence[BaseRoute]]
"""Returns routes beside the endpoints, which read through what they are given."""


def create_application(
    service: Service,
    rate: float | None = None,
    when_failed: Callable[[], None] = lambda: None,
    version: str = "",
    log: RequestLog | None = None,
    pages: Pages = lambda inside: (),
    declared_open: bool = False,
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
    """
    log = log or RequestLog()
    access = Access(service.keyring, rate, service.tenant, log.note, declared_open)
    return _Application(service, access, when_failed, version, log).with_shortcut(pages)


class _Application:
    def __init__(
        self,
        service: Service,
        access: Access,
        when_failed: Callable[[], None],
        version: str,
        log: RequestLog,
    ) -> None:
        self._service = service
        self._front = Front(service.ledger)
        self._access = access
        self._streams = Streams()
        self._metrics = Metrics()
        self._log = log
        self._when_failed = when_failed
        self._document = _encode(make_document(version))
        self._ready = False

    def with_shortcut(self, pages: Pages) -> Shortcut:
        handlers = {
            (each.method, each.path): Handler(
                each,
                self._front,
                self._access,
                self._streams,
                self._metrics,
                self._log,
                self.fail,
            )
            for each in ENDPOINTS
        }
        routes: list[BaseRoute] = [
            # names of arms may have slashes
            Route(
                e.path.replace("{arm}", "{arm:path}"),
                handlers[e.method, e.path],
                methods=[e.method],
            )
            for e in ENDPOINTS
        ]
        routes += [
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", self._show_document),
            *pages(self._inside()),
            Route("/docs", self._show_page),  # without pages, which have one of their own
        ]
        refusals: dict[Any, Any] = {HTTPException: _refuse_address, Exception: _refuse_defect}
        starlette = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=refusals)
        decide, reward = handlers["POST", DECIDE], handlers["POST", REWARD]
        return Shortcut(starlette, decide, reward, self._streams)

    def _inside(self) -> Inside:
        service = self._service
        return Inside(
            self._front, self._access, service.keyring, service.tenant, self._streams, self.fail
        )

    def fail(self) -> None:
        """Stop the process if the store has failed for good."""
        if not self._service.ledger.store.recovers:
            self._ready = False
            self._when_failed()

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        for settings in self._service.ledger.all_settings():
            if not is_warm(settings):
                warm_for_serving(settings)
        self._ready = True
        looking = asyncio.create_task(self._look_at_others())
        yield
        self._ready = False
        self._streams.close()
        looking.cancel()  # a database that says nothing is not waited for
        with suppress(asyncio.CancelledError):
            await looking
        await self._close()

    async def _look_at_others(self) -> None:
        """Look for experiments of other servers, so that their policies are compiled early.

        A server that has nothing to do would see them with the first request for one of them.
        """
        while self._service.ledger.is_shared and not self._streams.closing:
            await self._streams.rest(_LOOK_SECONDS)
            with suppress(ArmraceError):  # a database that is away comes back by itself
                await self._front.submit([])

    async def _close(self) -> None:
        """Close the service, but do not wait for a database that does not answer."""
        if not await self._front.close(_CLOSE_SECONDS):
            self._log.note(f"the store has not answered for {_CLOSE_SECONDS:g} seconds.")
            return
        try:
            self._service.close()
        except StoreFailed as error:
            self._log.note(f"no snapshot was saved: {error}")
            self.fail()

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readiness(self, request: Request) -> Response:
        if self._ready and await self._store_answers():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503)

    async def _store_answers(self) -> bool:
        """Whether a database can be used now; a file that cannot be used stops the process."""
        if not self._service.ledger.store.recovers:
            return True
        try:
            await asyncio.wait_for(self._front.submit([]), _READY_SECONDS)
        except (ArmraceError, TimeoutError):
            return False
        return True

    async def _show_metrics(self, request: Request) -> Response:
        try:
            headers = dict(request.scope["headers"])
            grant = self._access.check(request.scope, headers, "read", operator=True)
            self._access.charge(grant.key)
        except ArmraceError as error:
            self._metrics.count_problem(error.code)
            return _problem(error)
        text = self._metrics.text(self._service.ledger, self._service.keyring)
        return PlainTextResponse(text)

    async def _show_document(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _show_page(self, request: Request) -> Response:
        policy = "default-src 'none'; style-src 'self'"
        return HTMLResponse(make_page(), headers={"Content-Security-Policy": policy})


def _problem(error: ArmraceError) -> Response:
    return Response(
        _encode(Problem(error.code, str(error))),
        status_of(error),
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
