"""The routes of the dashboard: pages, their streams, forms and static files."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from armrace.dashboard.contents import (
    Content,
    Known,
    experiment_content,
    list_content,
    preview_content,
    sources_content,
)
from armrace.dashboard.reading import Reading
from armrace.dashboard.rendering import FORM_TOKEN, address, render
from armrace.dashboard.sessions import COOKIE, LIFETIME, Sessions
from armrace.errors import ArmraceError, InvalidParameter
from armrace.service.http.inside import Inside, Visitor
from armrace.service.http.problems import Forbidden, NotFound, TooLarge, Unauthorised, status_of

__all__ = ["Dashboard"]

_STATIC = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "uplot.css": "text/css",
    "uplot.js": "text/javascript",
    "uplot-license.txt": "text/plain",
    "icon.svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LONGEST_FORM = 8192
_NAME = "/v1/experiments/{name}"

Make = Callable[[Reading, Visitor, str], Awaitable[Content]]


async def _make_list(reading: Reading, visitor: Visitor, name: str) -> Content:
    return await list_content(reading, visitor)


class Dashboard:
    """The pages.

    Args:
        inside: the endpoints, as pages call them.
        seconds: how often streams look for changes.
        rest: a stream rests at least so many times as long as its last message took to make, so
            that a large page does not keep decisions waiting.
        note: a line that all pages show, for instance that visitors are simulated.
    """

    def __init__(
        self, inside: Inside, seconds: float = 1.0, rest: float = 10.0, note: str = ""
    ) -> None:
        self._inside = inside
        self._reading = Reading(inside)
        self._seconds = seconds
        self._rest = rest
        self._note = note
        self.sessions = Sessions(inside.keyring)
        self._kept: dict[tuple[str, str, str], tuple[float, Content]] = {}

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes."""
        return [
            Route("/", self._page("list", "Experiments", _make_list)),
            Route("/live", self._stream("list", _make_list)),
            Route("/experiment", self._page("experiment", "", experiment_content)),
            Route("/experiment/live", self._stream("experiment", experiment_content)),
            Route("/sources", self._page("sources", "", sources_content)),
            Route("/sources/live", self._stream("sources", sources_content)),
            Route("/preview", self._guarded(self._preview)),
            Route("/retract", self._guarded(self._retract), methods=["POST"]),
            Route("/release", self._guarded(self._release), methods=["POST"]),
            Route("/sign-in", self._guarded(self._show_sign_in), methods=["GET"]),
            Route("/sign-in", self._guarded(self._sign_in), methods=["POST"]),
            Route("/sign-out", self._guarded(self._sign_out), methods=["POST"]),
            Route("/static/{file}", self._static),
        ]

    # --- who asks -------------------------------------------------------------------------

    def _visitor(self, request: Request) -> Visitor:
        self._inside.refresh()
        if not self._inside.keyring.has_keys:
            return self._inside.local_visitor(request.scope)
        key = self.sessions.key_of(request.cookies.get(COOKIE, ""))
        if key is None:
            raise Unauthorised("sign in with a key.")
        if not key.allows("read"):
            raise Forbidden(f"the key {key.id} does not have the scope read.")
        return Visitor(key.tenant, key)

    def _guarded(
        self, handle: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Show refusals as pages, and ask to sign in where that helps."""

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except Unauthorised:
                target = request.url.path
                if request.url.query:
                    target += f"?{request.url.query}"
                return RedirectResponse(address("/sign-in", to=target), 303, headers=_HEADERS)
            except ArmraceError as error:
                return self._refusal(request, error)

        return guarded

    def _refusal(self, request: Request, error: ArmraceError) -> Response:
        try:
            visitor: Visitor | None = self._visitor(request)
        except ArmraceError:
            visitor = None
        return self._frame(
            request, "refusal", "Refused", visitor, status_of(error), message=str(error)
        )

    # --- pages ----------------------------------------------------------------------------

    def _frame(
        self,
        request: Request,
        template: str,
        title: str,
        visitor: Visitor | None,
        status: int = 200,
        **values: object,
    ) -> Response:
        session = request.cookies.get(COOKIE, "")
        html = render(
            f"{template}.html",
            title=title,
            visitor=visitor,
            note=self._note,
            token=self.sessions.form_token(session) if visitor and visitor.key else "",
            query=request.query_params,
            **values,
        )
        return HTMLResponse(html, status, headers=_HEADERS)

    def _page(
        self, template: str, title: str, make: Make
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            visitor, name = self._visitor(request), request.query_params.get("name", "")
            content = await make(self._reading, visitor, name)
            parts = self._own_parts(request, content)
            return self._frame(request, template, title or name, visitor, name=name, parts=parts)

        return self._guarded(handle)

    async def _preview(self, request: Request) -> Response:
        visitor, query = self._visitor(request), request.query_params
        name, source = query.get("name", ""), query.get("source", "")
        content = await preview_content(self._reading, visitor, name, source)
        parts = self._own_parts(request, content)
        return self._frame(request, "preview", name, visitor, name=name, parts=parts)

    def _own_parts(self, request: Request, content: Content) -> dict[str, str]:
        """Return parts with the token of this session, since parts are shared by sessions."""
        token = self.sessions.form_token(request.cookies.get(COOKIE, ""))
        return {name: html.replace(FORM_TOKEN, token) for name, html in content.parts.items()}

    # --- streams --------------------------------------------------------------------------

    def _stream(self, kind: str, make: Make) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                visitor = self._visitor(request)
                name = request.query_params.get("name", "")
                await self._current(kind, make, visitor, name)  # refused here, before it begins
            except ArmraceError as error:
                return Response(str(error), status_of(error), headers=_HEADERS)
            events = self._events(kind, make, request, name)
            return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

        return handle

    async def _events(
        self, kind: str, make: Make, request: Request, name: str
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a page that have changed; a comment if none has."""
        known = Known()
        yield b"retry: 1000\n\n"
        due = time.monotonic()
        while not self._inside.streams.closing:
            began = time.monotonic()
            try:
                content = await self._current(kind, make, self._visitor(request), name)
            except ArmraceError:
                yield b"event: over\ndata: {}\n\n"
                return
            parts = self._own_parts(request, content)
            message = content._replace(parts=parts).message(known)
            yield b":\n\n" if message is None else b"event: change\ndata: " + message + b"\n\n"
            now = time.monotonic()
            due = max(due + self._seconds, now + min(10.0, self._rest * (now - began)))
            await self._inside.streams.rest(due - now)

    async def _current(self, kind: str, make: Make, visitor: Visitor, name: str) -> Content:
        """Return a page; all streams of the same page share one that is not older than a rest."""
        scope = "admin" if visitor.may_change else "read"
        place = (kind, f"{visitor.tenant} {scope}", name)
        kept = self._kept.get(place)
        now = time.monotonic()
        if kept is not None and now - kept[0] < 0.8 * self._seconds:
            return kept[1]
        content = await make(self._reading, visitor, name)
        self._kept = {p: k for p, k in self._kept.items() if now - k[0] < self._seconds}
        self._kept[place] = now, content
        return content

    # --- forms ----------------------------------------------------------------------------

    async def _form(self, request: Request) -> dict[str, str]:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > _LONGEST_FORM:
                raise TooLarge(f"the form must have at most {_LONGEST_FORM} bytes.")
            parts.append(part)
        try:
            found = parse_qs(b"".join(parts).decode(), keep_blank_values=True, max_num_fields=20)
        except ValueError:
            raise InvalidParameter("the form cannot be read.") from None
        return {name: values[-1] for name, values in found.items()}

    async def _change(self, request: Request, action: str) -> Response:
        """Retract or release the rewards that a form names, and go back to the page."""
        visitor, form = self._visitor(request), await self._form(request)
        self._check_token(request, form)
        name = form.get("name", "")
        body: dict[str, object] = {"reason": form.get("reason", "")[:1000]}
        if "source" in form:
            body["source"] = form["source"]
        if form.get("decision", "").isdecimal():
            body["decisions"] = [int(form["decision"][:18])]
        answer = await self._inside.call(visitor, "POST", f"{_NAME}/{action}", name, body)
        self._kept.clear()
        self._reading.forget()
        page = "/experiment" if action == "retract" else "/sources"
        target = address(page, name=name, done=action, rewards=answer.rewards)
        return RedirectResponse(target, 303, headers=_HEADERS)

    async def _retract(self, request: Request) -> Response:
        return await self._change(request, "retract")

    async def _release(self, request: Request) -> Response:
        return await self._change(request, "release")

    def _check_token(self, request: Request, form: dict[str, str]) -> None:
        session = request.cookies.get(COOKIE, "")
        if not session or not self.sessions.is_form_token(session, form.get("token", "")):
            raise Forbidden("the form does not belong to this session; open the page again.")

    # --- signing in -----------------------------------------------------------------------

    async def _show_sign_in(self, request: Request) -> Response:
        self._inside.refresh()
        if not self._inside.keyring.has_keys:
            return RedirectResponse("/", 303, headers=_HEADERS)
        if once := request.query_params.get("once"):
            key = self.sessions.accept(once)
            if key is not None:
                return self._signed_in(request, self.sessions.begin(key), "/")
            return self._ask_to_sign_in(request, "The link has been used or is too old.", 403)
        return self._ask_to_sign_in(request, "")

    def _ask_to_sign_in(self, request: Request, problem: str, status: int = 200) -> Response:
        to = request.query_params.get("to", "/")
        return self._frame(request, "sign_in", "Sign in", None, status, problem=problem, to=to)

    async def _sign_in(self, request: Request) -> Response:
        self._inside.refresh()
        form = await self._form(request)
        key = self._inside.keyring.find(form.get("key", "").strip())
        if key is None:
            return self._ask_to_sign_in(request, "This key is not known, or it was revoked.", 403)
        if not key.allows("read"):
            return self._ask_to_sign_in(request, "This key does not have the scope read.", 403)
        return self._signed_in(request, self.sessions.begin(key), form.get("to", "/"))

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
        self._check_token(request, await self._form(request))
        response = RedirectResponse("/sign-in", 303, headers=_HEADERS)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in _STATIC:
            return self._refusal(request, NotFound("there is nothing at this address."))
        content = files("armrace.dashboard").joinpath("static", name).read_bytes()
        headers = {**_HEADERS, "Cache-Control": "no-cache"}
        return Response(content, media_type=_STATIC[name], headers=headers)
