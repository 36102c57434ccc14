"""Who may do what and how often, the calls of those who may, and the refusals of others."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.responses import Response

from armrace.errors import InvalidParameter
from armrace.service.engine import Engine
from armrace.service.keyring import ApiKey, Keyring
from armrace.service.model.events import Actor
from armrace.service.operations.inspection import ExportFile
from armrace.service.work import Principal
from armrace_client.errors import ArmraceError, Forbidden, TooOften, Unauthorised
from armrace_client.operations import OPERATIONS, Operation, Ruling, Scope

CLOSE = {"Connection": "close"}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 408: CLOSE, 503: {"Retry-After": "1"}}


class Refusal(msgspec.Struct, frozen=True):
    """What is answered instead of a result."""

    code: str
    """Stable, for programs."""
    message: str
    """One sentence, for people."""


def headers_of(error: ArmraceError) -> dict[str, str]:
    """Return the headers that go with an error."""
    if isinstance(error, TooOften):
        return {"Retry-After": str(error.seconds)}
    return _HEADERS.get(error.status, {})


def response_to(error: ArmraceError, more: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says an error, with ``more`` headers."""
    content = msgspec.json.encode(Refusal(error.code, str(error)))
    headers = {**headers_of(error), **(more or {})}
    return Response(content, error.status, headers, "application/json")


Http = Mapping[str, Any]
"""A request as ASGI describes it."""
Headers = Mapping[bytes, bytes]
TRUST = "armrace.trust"
"""Where a request has what to call when it is granted, so that its connection is trusted."""

_REFRESH_SECONDS = 0.1
_LOCAL_HOSTS = (b"127.0.0.1", b"localhost", b"[::1]")
_OTHER_SITES = (b"cross-site", b"same-site")
_LONGEST_PERSON = 200
_FORWARDED = re.compile(rb"(?<!\S)(x-forwarded-|(forwarded|x-real-ip|via)(?!\S))")


class _Bucket:
    """Allows ``rate`` events a second, and as many at once as come in ``burst`` seconds.

    A batch that is larger than that may pass when the bucket is full; what follows waits longer.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._most = rate, rate * burst
        self._left, self._last = self._most, time.monotonic()

    def take(self, count: int) -> float:
        """Take events if there are enough; return after how many seconds there will be, or 0."""
        now = time.monotonic()
        self._left = min(self._most, self._left + self._rate * (now - self._last))
        self._last = now
        lacking = min(count, self._most) - self._left
        if lacking > 0:
            return lacking / self._rate
        self._left -= count
        return 0.0


class Caller(NamedTuple):
    """Who asks: the tenant, the key that was shown, and the person behind it if known."""

    tenant: str
    key: ApiKey | None
    """``None`` if the service is open."""
    person: str | None = None
    """Whom a trusted proxy has named."""

    @property
    def may_change(self) -> bool:
        """Whether the caller may change experiments."""
        return self.key is None or self.key.allows("admin")

    @property
    def may_read(self) -> bool:
        """Whether the caller may know the names of experiments."""
        return self.key is None or self.key.allows("read")

    @property
    def key_id(self) -> str:
        """What streams are counted by: the id of the key, empty if there is none."""
        return "" if self.key is None else self.key.id

    @property
    def principal(self) -> Principal:
        """On whose behalf operations are performed, as the log names them."""
        key = self.key
        actor = None if key is None else Actor(key.id, key.label or None, self.person)
        return Principal(self.tenant, actor)


class TrustedProxies:
    """Proxies at some addresses or networks, which say in a header who sends a request."""

    def __init__(self, header: str, addresses: str) -> None:
        self._header = header.lower().encode("latin-1", "replace")
        try:
            self._networks = [ipaddress.ip_network(each.strip()) for each in addresses.split(",")]
        except ValueError as error:
            sentence = f"trusted_proxies must be addresses or networks; {error}."
            raise InvalidParameter(sentence) from None

    def person(self, http: Http) -> str | None:
        """Return whom a request names, if a trusted proxy has sent it."""
        client = http.get("client")
        address = None if client is None else address_of(client[0])
        if address is None or not any(address in network for network in self._networks):
            return None
        named = [value for name, value in http["headers"] if name == self._header]
        # Of two, one may come from the client.
        text = named[0].decode("utf-8", "replace").strip() if len(named) == 1 else ""
        return text[:_LONGEST_PERSON] if text.isprintable() and text else None


class Access:
    """Decides whether a request may pass.

    Nothing passes without a key, even if all are revoked, unless the service was declared open and
    never had one. It is then open to programs on this machine: to connections from a loopback
    address to a local name, neither from a web page of another site nor through a proxy that says
    so. One that does not say so cannot be told from a local program.
    """

    def __init__(
        self,
        keyring: Keyring,
        rate: float | None,
        tenant: str,
        tell: Callable[[str], None],
        declared_open: bool,
        proxies: TrustedProxies | None,
    ) -> None:
        self._keyring, self._rate = keyring, rate
        self._tenant = tenant
        """Whose experiments are reached without a key; its keys are the operator's."""
        self._tell = tell
        """Called with a sentence when the file of keys can no longer be read."""
        self._declared_open, self._proxies = declared_open, proxies
        self._buckets: dict[str, _Bucket] = {}
        self._refreshed = time.monotonic()
        self._told: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether programs on this machine need no key."""
        return self._declared_open and not self._keyring.has_keys

    def check(self, http: Http, headers: Headers, scope: Scope, operator: bool = False) -> Caller:
        """Return who sent a request, or refuse it."""
        self.refresh()
        if self.is_open:
            return self.local_caller(http, headers)
        kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = self._keyring.find(text) if kind.lower() == "bearer" else None
        if key is None:
            raise Unauthorised("the header Authorization must be Bearer with a valid key.")
        return self.key_caller(http, key, scope, operator)

    def key_caller(self, http: Http, key: ApiKey, scope: Scope, operator: bool = False) -> Caller:
        """Return who uses a valid key, with the person if a trusted proxy names one, or refuse."""
        person = None if self._proxies is None else self._proxies.person(http)
        caller = Caller(key.tenant, key, person)
        self.check_scope(caller, scope, operator)
        _trust(http)
        return caller

    def check_scope(self, caller: Caller, scope: Scope, operator: bool = False) -> None:
        """Refuse what a caller's key does not allow."""
        key = caller.key
        if key is None:
            return
        if not key.allows(scope):
            raise Forbidden(f"the key {key.id} does not have the scope {scope}.")
        if operator and key.tenant != self._tenant:
            raise Forbidden(f"this concerns all tenants and needs a key of {self._tenant}.")

    def local_caller(self, http: Http, headers: Headers) -> Caller:
        """Return who uses a service without keys; refuse whoever may not be a program here."""
        client = http.get("client")
        # A web page must not reach the service through a name that leads to this machine.
        named = headers.get(b"host", b"").rsplit(b":", 1)[0] in _LOCAL_HOSTS
        if not named or client is None or not is_loopback(client[0]):
            raise Forbidden("without keys, the service answers requests to localhost alone.")
        if _FORWARDED.search(b" ".join(headers)):
            raise Forbidden("without keys, the service answers no request through a proxy.")
        if is_of_another_site(http, headers):
            raise Forbidden("without keys, the service answers no page of another site.")
        _trust(http)
        return Caller(self._tenant, None)

    def charge(self, key: ApiKey | None, events: int = 1) -> None:
        """Count the events of a key; refuse those that are too many."""
        if self._rate is None or key is None:
            return
        bucket = self._buckets.setdefault(key.id, _Bucket(self._rate, burst=2.0))
        if seconds := bucket.take(events):
            sentence = f"the key {key.id} may send {self._rate:g} events a second."
            raise TooOften(sentence, math.ceil(seconds))

    def refresh(self) -> None:
        """Reload the keys if their file has changed, at most ten times a second."""
        now = time.monotonic()
        if now - self._refreshed > _REFRESH_SECONDS:
            self._refreshed = now
            self._keyring.refresh()
            problem = self._keyring.problem
            if problem is not None and problem != self._told:
                self._tell(f"{problem} The keys that were known stay valid.")
            self._told = problem


def _trust(http: Http) -> None:
    """Tell the connection of a request that the request is granted."""
    if tell := http.get(TRUST):
        tell()


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, as IPv4 if it stands for one of these; ``None`` if it is no address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:  # a socket of this machine has no address
        return None
    return getattr(found, "ipv4_mapped", None) or found


@lru_cache(256)
def is_loopback(address: str) -> bool:
    """Whether an address leads to this machine."""
    found = address_of(address)
    return found is not None and found.is_loopback


def is_of_another_site(http: Http, headers: Headers) -> bool:
    """Whether a browser says that a page of another site sends this.

    Links to pages of this service do no harm: the other site does not see where they lead. A proxy
    that speaks TLS says so, and passes ``Host`` on.
    """
    origin = headers.get(b"origin")
    scheme = b"https://" if headers.get(b"x-forwarded-proto") == b"https" else b"http://"
    if origin is not None and origin != scheme + headers.get(b"host", b""):
        return True
    is_link = http["method"] == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
    return headers.get(b"sec-fetch-site") in _OTHER_SITES and not is_link


T = TypeVar("T")
_MOST_STREAMS = 100
"""How many streams of one key may be open at once."""


class Streams:
    """The event streams of a server: how many of a key may be open, and how they end."""

    def __init__(self, most: int = _MOST_STREAMS) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._closing = asyncio.Event()

    @property
    def closing(self) -> bool:
        """Whether the server stops, so that streams must end."""
        return self._closing.is_set()

    def close(self) -> None:
        """End all streams: their rests are over at once."""
        self._closing.set()

    async def rest(self, seconds: float) -> None:
        """Wait before the next message, but not when the server stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    @contextmanager
    def opened(self, key: str) -> Iterator[None]:
        """Count a stream of a key while it is open, or refuse it."""
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1

    def check(self, key: str) -> None:
        """Refuse another stream of a key that has as many as it may have."""
        if self._open[key] >= self._most:
            raise TooOften(f"streams of one key that are open must be at most {self._most}.")


_CHANGES = {
    kind: name
    for name, kind in OPERATIONS.items()
    if kind.route.scope == "admin" and kind.route.method == "POST"
}
"""What is logged with the experiment that it is about and whose key it was."""


class Api:
    """Performs operations for visitors, and knows who they are."""

    def __init__(self, engine: Engine, access: Access, note: Callable[..., None]) -> None:
        self.access, self.streams, self.keyring = access, Streams(), engine.keyring
        self._engine, self._note = engine, note
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._asked: list[tuple[Operation[Any], Caller, asyncio.Future[Any]]] = []
        self._outcomes: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._is_due = False

    async def call(self, caller: Caller, operation: Operation[T]) -> T:
        """Perform an operation and return its answer, or raise its refusal."""
        self.access.check_scope(caller, operation.route.scope, operation.route.operator)
        answer: T = await self.submit(caller, operation)
        return answer

    def submit(self, caller: Caller, operation: Operation[Any]) -> asyncio.Future[Any]:
        """Perform an operation of a caller who may do it; return what its answer is awaited by."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._asked:
            # Not at once: what else has arrived by now goes along, in one transaction.
            loop.call_soon(self._submit_all)
        self._asked.append((operation, caller, future))
        self._waiting += 1
        return future

    def _submit_all(self) -> None:
        asked, self._asked = self._asked, []
        with self._engine.gathering():
            for operation, caller, future in asked:
                try:
                    deliver = partial(self._deliver, future)
                    if type(operation) in _CHANGES:
                        deliver = partial(self._deliver_change, future, caller, operation)
                    self._engine.submit(operation, caller.principal, deliver)
                except Exception as error:
                    self._deliver(future, error)

    def _deliver_change(
        self, future: asyncio.Future[Any], caller: Caller, operation: Any, outcome: Any
    ) -> None:
        """Deliver what a change has led to, and have it logged, also if its client has gone."""
        if not getattr(operation, "preview", False):
            kind, key = type(operation), caller.key
            about = {
                "operation": _CHANGES[kind],
                "tenant": caller.tenant,
                "experiment": getattr(operation, "name", None),
                "key": None if key is None else key.id,
                "person": caller.person,
                "visits": getattr(outcome, "changed", None),
                "code": getattr(outcome, "code", None),
            }
            event = "ruling" if issubclass(kind, Ruling) else "change"
            with suppress(RuntimeError):
                assert self._loop is not None
                self._loop.call_soon_threadsafe(partial(self._note, event, **about))
        self._deliver(future, outcome)

    def _deliver(self, future: asyncio.Future[Any], outcome: Any) -> None:
        self._outcomes.append((future, outcome))
        if not self._is_due:  # one call of the loop hands over what comes together
            self._is_due = True
            assert self._loop is not None
            with suppress(RuntimeError):  # the loop was closed without waiting for answers
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_due = False
        while self._outcomes:
            future, outcome = self._outcomes.popleft()
            self._waiting -= 1
            if future.done():  # its client has gone
                if isinstance(outcome, ExportFile):
                    outcome.folder.cleanup()
            elif isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def drain(self, seconds: float) -> bool:
        """Wait until all operations are answered; return whether they were in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._waiting:
                    await asyncio.sleep(0.01)
        return not self._waiting
