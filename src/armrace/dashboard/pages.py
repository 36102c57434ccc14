"""The routes of the dashboard: pages, their streams, forms and static files."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from anyio import to_thread
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from armrace.dashboard.contents import (
    actions_content,
    experiment_content,
    list_content,
    preview_address,
    preview_content,
    read_form,
    refuse_other_sites,
    ruling_in,
    sources_content,
)
from armrace.dashboard.desk import (
    EXPORTS,
    SentFiles,
    afresh_content,
    desk_content,
    exported_groups,
    group_content,
    read_file_form,
)
from armrace.dashboard.rendering import FORM_TOKEN, STATIC_FILES, address, render, static_file
from armrace.dashboard.sessions import COOKIE, LIFETIME, Sessions
from armrace.dashboard.streaming import CachedCalls, Content, Cut, Make, SharedContents, updates
from armrace.errors import ArmraceError, Outdated
from armrace.service.http.access import Api, Caller
from armrace.service.http.endpoints import ClientGone
from armrace_client.errors import Forbidden, NotFound, Unauthorised
from armrace_client.operations import OPERATIONS, StartAfresh

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STREAM_HEADERS = {**_HEADERS, "X-Accel-Buffering": "no"}
"""A proxy that collects a stream before it passes it on would make pages late."""
_FINAL = frozenset({401, 403, 404})
"""Refusals that stand until someone signs in or goes elsewhere; others may pass by themselves."""
_BEAT = b"event: beat\ndata: {}\n\n"
_OVER = b"event: over\ndata: {}\n\n"
_TROUBLE = b"event: trouble\ndata: {}\n\n"
_MakePage = Callable[[CachedCalls, Caller, str, Mapping[str, str]], Awaitable[Content]]
"""Makes the content of a page, given the experiment and all that the address says."""


def _live(make: Make) -> _MakePage:
    return lambda reading, caller, name, fields: make(reading, caller, name)


async def _desk(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    desk = await desk_content(reading, caller, name, fields)
    return {**desk, **await sources_content(reading, caller, name)}


class Dashboard:
    """The pages.

    Streams look for changes every ``seconds``, and after a message they rest ``rest`` times as long
    as it took to make, so that a large page does not keep decisions waiting. ``note`` gives a line
    that all pages show, for instance that visitors are simulated.
    """

    def __init__(
        self,
        api: Api,
        seconds: float = 1.0,
        rest: float = 10.0,
        note: Callable[[], str] = str,
    ) -> None:
        self._api = api
        self._reading = CachedCalls(api)
        self._contents = SharedContents(self._reading, seconds)
        self._seconds = seconds
        self._rest = rest
        self._note = note
        self._files = SentFiles()
        self.sessions = Sessions(api.keyring)

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes."""
        return [
            Route("/", self._page("list", "Experiments", _live(list_content))),
            Route("/live", self._stream("list", list_content)),
            Route("/experiment", self._page("experiment", "{name}", _live(experiment_content))),
            Route("/experiment/live", self._stream("experiment", experiment_content)),
            Route("/sources", self._page("sources", "Sources of {name}", _desk)),
            Route("/sources.{kind}", self._guarded(self._export)),
            Route("/group", self._page("group", "{key} in {name}", group_content)),
            Route("/verdicts", self._guarded(self._take_file), methods=["POST"]),
            Route("/afresh", self._page("afresh", "What has changed in {name}", afresh_content)),
            Route("/sources/live", self._stream("sources", sources_content)),
            Route("/preview", self._page("preview", "{key} in {name}", self._preview)),
            Route("/actions", self._page("actions", "Actions on {name}", actions_content)),
            Route("/rule", self._guarded(self._rule), methods=["POST"]),
            Route("/start-afresh", self._guarded(self._start_afresh), methods=["POST"]),
            Route("/docs", self._guarded(self._show_api)),
            Route("/sign-in", self._guarded(self._show_sign_in), methods=["GET"]),
            Route("/sign-in", self._guarded(self._sign_in), methods=["POST"]),
            Route("/sign-out", self._guarded(self._sign_out), methods=["POST"]),
            Route("/static/{file}", self._static),
        ]

    # --- who asks -------------------------------------------------------------------------

    def _caller(self, request: Request) -> Caller:
        self._api.access.refresh()
        if self._api.access.is_open:
            return self._api.access.local_caller(request.scope, dict(request.scope["headers"]))
        key = self.sessions.key_of(request.cookies.get(COOKIE, ""))
        if key is None:
            raise Unauthorised("sign in with a key.")
        return self._api.access.key_caller(request.scope, key, "read")

    def _admitted(self, request: Request) -> Caller:
        """Return who asks, after the request was counted as one of their key."""
        caller = self._caller(request)
        self._api.access.charge(caller.key)
        return caller

    def _guarded(
        self, handle: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Show refusals as pages, and ask to sign in where that helps."""

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except Unauthorised:
                target = address("/sign-in", to=_page_to_return_to(request))
                return RedirectResponse(target, 303, headers=_HEADERS)
            except ClientGone:
                return Response(status_code=499)
            except ArmraceError as error:
                return self._refusal(request, error)

        return guarded

    def _caller_if_known(self, request: Request) -> Caller | None:
        try:
            return self._caller(request)
        except ArmraceError:
            return None

    def _refusal(self, request: Request, error: ArmraceError) -> Response:
        caller = self._caller_if_known(request)
        waits = request.method == "GET" and error.status >= 500
        return self._frame(
            request, "refusal", "Refused", caller, error.status, message=str(error), waits=waits
        )

    # --- pages ----------------------------------------------------------------------------

    def _frame(
        self,
        request: Request,
        template: str,
        title: str,
        caller: Caller | None,
        status: int = 200,
        **values: object,
    ) -> Response:
        session = request.cookies.get(COOKIE, "")
        html = render(
            f"{template}.html",
            title=title,
            caller=caller,
            note=self._note(),
            token=self.sessions.form_token(session) if caller else "",
            done=self._done(request),
            **values,
        )
        return HTMLResponse(html, status, headers=_HEADERS)

    def _page(
        self, template: str, title: str, make: _MakePage
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            caller, fields = self._admitted(request), dict(request.query_params)
            name, key = fields.get("name", ""), fields.get("key", fields.get("source", "visits"))
            parts = self._own_parts(request, await make(self._reading, caller, name, fields))
            said = title.format(name=name, key=key)
            return self._frame(request, template, said, caller, name=name, parts=parts)

        return self._guarded(handle)

    async def _preview(
        self, reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
    ) -> Content:
        return await preview_content(reading, caller, name, fields, self._files)

    async def _export(self, request: Request) -> Response:
        """Send the groups that a page shows as a file."""
        caller, fields = self._admitted(request), dict(request.query_params)
        kind, name = request.path_params["kind"], fields.get("name", "")
        if kind not in EXPORTS:
            raise NotFound("there is nothing at this address.")
        content = await exported_groups(self._reading, caller, name, fields, kind)
        disposition = f'attachment; filename="groups.{kind}"'
        headers = {**_HEADERS, "Content-Disposition": disposition}
        return Response(content, media_type=EXPORTS[kind], headers=headers)

    async def _take_file(self, request: Request) -> Response:
        """Keep a file of verdicts, and lead to its preview."""
        caller = self._admitted(request)
        self._api.access.check_scope(caller, "admin", False)
        refuse_other_sites(request)
        form, name, content = await read_file_form(request)
        self._check_token(request, form)
        digest = await to_thread.run_sync(self._files.keep, caller.tenant, form, name, content)
        given = {each: form[each] for each in ("name", "verdict") if form.get(each)}
        return RedirectResponse(address("/preview", **given, file=digest), 303, headers=_HEADERS)

    async def _show_api(self, request: Request) -> Response:
        caller = self._caller_if_known(request)
        return self._frame(request, "api", "API", caller, operations=OPERATIONS.values())

    def _own_parts(self, request: Request, content: Content) -> dict[str, str]:
        """Return parts with the token of this session, since parts are shared by sessions."""
        token = self.sessions.form_token(request.cookies.get(COOKIE, ""))
        parts = {name: html.replace(FORM_TOKEN, token) for name, html in content.items()}
        note = self._note()
        return {**parts, "note": str(escape(note))} if note else parts

    # --- streams --------------------------------------------------------------------------

    def _stream(self, kind: str, make: Make) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                caller = self._admitted(request)
                self._api.streams.check(caller.key_id)
                name = request.query_params.get("name", "")
                # A page that is refused is refused here: a stream that began has no status.
                await self._contents.current(kind, make, caller, name)
            except ArmraceError as error:
                return Response(str(error), error.status, headers=_HEADERS)
            events = self._counted(caller, self._events(kind, make, request, name))
            return StreamingResponse(
                events, media_type="text/event-stream", headers=_STREAM_HEADERS
            )

        return handle

    async def _counted(self, caller: Caller, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the events of a stream, which counts as one of its key while it is open."""
        with self._api.streams.opened(caller.key_id):
            async for each in events:
                yield each

    async def _events(
        self, kind: str, make: Make, request: Request, name: str
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a page that have changed; a beat if none has."""
        known: dict[str, Cut] = {}
        yield b"retry: 1000\n\n"
        due = time.monotonic()
        while not self._api.streams.closing:
            began = time.monotonic()
            try:
                content = await self._contents.current(kind, make, self._caller(request), name)
            except ArmraceError as error:
                if error.status in _FINAL:
                    yield _OVER
                    return
                yield _TROUBLE
            else:
                parts = self._own_parts(request, content)
                message = updates(parts, known)
                yield _BEAT if message is None else b"event: change\ndata: " + message + b"\n\n"
            now = time.monotonic()
            due = max(due + self._seconds, now + min(10.0, self._rest * (now - began)))
            await self._api.streams.rest(due - now)

    # --- forms ----------------------------------------------------------------------------

    async def _form(self, request: Request) -> tuple[Caller, dict[str, str]]:
        """Return who sent a form, and its fields, after its token was checked."""
        caller, form = self._admitted(request), await read_form(request)
        self._check_token(request, form)
        return caller, form

    async def _rule(self, request: Request) -> Response:
        """Make the ruling that a form describes, and go back to a page that shows it."""
        caller, form = await self._form(request)
        chosen = await ruling_in(self._reading, caller, form, self._files)
        asked = chosen.ruling
        try:
            changed = (await self._api.call(caller, asked)).changed
        except Outdated as error:
            said, again = str(error), preview_address(form)
            return self._frame(
                request, "outdated", "Outdated", caller, error.status, message=said, again=again
            )
        if form.get("later"):
            rest = msgspec.structs.replace(asked, head=None)
            changed += (await self._api.call(caller, rest)).changed
        verdict = form.get("verdict", "void")
        page = "/experiment" if verdict in ("void", "retract") else "/sources"
        return self._go_back(request, page, verdict, asked.name, changed)

    async def _start_afresh(self, request: Request) -> Response:
        caller, form = await self._form(request)
        name, reason = form.get("name", ""), form.get("reason", "")[:1000]
        await self._api.call(caller, StartAfresh(name, reason=reason))
        return self._go_back(request, "/experiment", "start-afresh", name, 0)

    def _go_back(
        self, request: Request, page: str, action: str, name: str, changed: int
    ) -> Response:
        """Lead to a page that says what was done, once what is kept of all pages is forgotten."""
        self._contents.forget()
        session, number = request.cookies.get(COOKIE, ""), str(changed)
        seal = self.sessions.seal(session, action, name, number)
        target = address(page, name=name, done=action, changed=number, seal=seal)
        return RedirectResponse(target, 303, headers=_HEADERS)

    def _done(self, request: Request) -> _Done | None:
        """Return what the form before this page has done; a link of others says nothing."""
        query = request.query_params
        action, name, changed = (query.get(each, "") for each in ("done", "name", "changed"))
        session = request.cookies.get(COOKIE, "")
        if not self.sessions.is_seal(session, query.get("seal", ""), action, name, changed):
            return None
        return _Done(action, int(changed))

    def _check_token(self, request: Request, form: dict[str, str]) -> None:
        session = request.cookies.get(COOKIE, "")
        if not self.sessions.is_form_token(session, form.get("token", "")):
            raise Forbidden("the form does not belong to this session; open the page again.")

    # --- signing in -----------------------------------------------------------------------

    async def _show_sign_in(self, request: Request) -> Response:
        self._api.access.refresh()
        if self._api.access.is_open:
            return RedirectResponse("/", 303, headers=_HEADERS)
        return self._ask_to_sign_in(request, request.query_params.get("to", "/"))

    def _ask_to_sign_in(
        self, request: Request, to: str, problem: str = "", status: int = 200
    ) -> Response:
        return self._frame(request, "sign_in", "Sign in", None, status, problem=problem, to=to)

    async def _sign_in(self, request: Request) -> Response:
        self._api.access.refresh()
        form = await read_form(request)
        key, to = self._api.keyring.find(form.get("key", "").strip()), form.get("to", "/")
        if key is None:
            problem = "This key is not known, or it was revoked."
            return self._ask_to_sign_in(request, to, problem, 403)
        if not key.allows("read"):
            return self._ask_to_sign_in(request, to, "This key does not have the scope read.", 403)
        return self._signed_in(request, self.sessions.begin(key), to)

    def _signed_in(self, request: Request, session: str, target: str) -> Response:
        # Only a path of this server, so that a link cannot lead elsewhere after signing in.
        local = target.startswith("/") and not target.startswith(("//", "/\\"))
        response = RedirectResponse(target if local else "/", 303, headers=_HEADERS)
        forwarded = request.headers.get("x-forwarded-proto", "")
        response.set_cookie(
            COOKIE,
            session,
            max_age=LIFETIME,
            httponly=True,
            samesite="strict",
            secure="https" in (request.url.scheme, forwarded),
        )
        return response

    async def _sign_out(self, request: Request) -> Response:
        self._check_token(request, await read_form(request))
        self.sessions.end(request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/sign-in", 303, headers=_HEADERS)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in STATIC_FILES:
            return self._refusal(request, NotFound("there is nothing at this address."))
        content, tag = static_file(name)
        headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=STATIC_FILES[name], headers=headers)


class _Done(NamedTuple):
    """What a form has done."""

    action: str
    changed: int
    """How many visits or rewards count differently now."""


def _page_to_return_to(request: Request) -> str:
    """Return the page that asks, or that holds the form; forms themselves cannot be opened."""
    asked = request.url
    if request.method != "GET":
        page = urlsplit(request.headers.get("referer", ""))
        if page.netloc != request.headers.get("host", "") or not page.path.startswith("/"):
            return "/"
        return f"{page.path}?{page.query}" if page.query else page.path
    return f"{asked.path}?{asked.query}" if asked.query else asked.path
