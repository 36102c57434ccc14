"""The server process: the application on uvicorn, with limits on connections.

Refusals of connections have the same shape as those of endpoints.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from armrace.errors import ArmraceError, InvalidParameter
from armrace.service.http.access import (
    CLOSE,
    TRUST,
    TrustedProxies,
    address_of,
    is_loopback,
    response_to,
)
from armrace.service.http.application import (
    UVICORN_LOGS,
    Application,
    LogLevel,
    Pages,
    RequestLog,
    create_application,
)
from armrace.service.http.webhooks import WebhookSettings
from armrace.service.service import (
    Service,
    default_place,
    existing_keyring,
    open_store,
    without_password,
)
from armrace_client.errors import BadRequest, HeadersTooLarge, Overloaded, TimedOut

PER_ADDRESS = 100
"""How many connections of one address may be open that have not shown a key."""

_LARGEST_HEAD = 2**16
"""The bytes of an address with its headers."""
_SECONDS = 20.0
"""How long a client may take to send a head or a body, to ask again, or to take an answer in."""
_SEND_BUFFER = 2**17
_RESERVED = 100
"""Places that connections with a key leave to others, so that health is always answered."""
_TRUST_SECONDS = 60.0
"""How long a connection is trusted after a request that was granted."""
_HEALTH = (b"/healthz", b"/readyz")
_SENTENCE = f"the address and the headers must have at most {_LARGEST_HEAD} bytes."


class Connections:
    """The connections of a server: how many there may be, and which one has to go for another.

    A connection is trusted if one of its requests was granted within the last minute. Of the
    others, the oldest that waits for its client is closed when there are too many, in all or of one
    address that is not of this machine, so that a newcomer always finds a place. If all places are
    taken by those that are trusted, there are a few more for health.
    """

    def __init__(self, most: int, per_address: int) -> None:
        self._most, self._per_address = most, per_address
        self._trusted: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}  # in the order of their coming
        self._by_network: dict[str, dict[Connection, None]] = {}

    def is_full_for(self, connection: Connection) -> bool:
        """Whether others are answered or trusted in so great a number that this one is refused."""
        busy = len(connection.tasks) >= self._most
        return busy or (connection not in self._trusted and len(self._trusted) >= self._most)

    def trust(self, connection: Connection) -> None:
        """Count a connection among those that are trusted."""
        if connection not in self._trusted:
            self.leave(connection)
            self._trusted.add(connection)

    def admit(self, connection: Connection) -> None:
        """Count a connection among those that are not trusted, and close one if there are many."""
        if connection in self._strangers:
            return
        self.leave(connection)
        neighbours = self._by_network.setdefault(connection.network, {})
        neighbours[connection] = self._strangers[connection] = None
        # A proxy on this machine speaks for everybody.
        if len(neighbours) > self._per_address and not is_loopback(connection.network):
            self._close_one(neighbours)
        if len(self._strangers) > max(_RESERVED, self._most - len(self._trusted)):
            self._close_one(self._strangers)

    def leave(self, connection: Connection) -> None:
        """Count a connection no more."""
        self._trusted.discard(connection)
        if connection in self._strangers:
            del self._strangers[connection]
            neighbours = self._by_network[connection.network]
            del neighbours[connection]
            if not neighbours:
                del self._by_network[connection.network]

    def _close_one(self, among: dict[Connection, None]) -> None:
        oldest = next((each for each in among if each.waits_since is not None), None)
        if oldest is not None:
            self.leave(oldest)
            oldest.end()


class _Whole:
    """Sends the head of an answer along with its body, which is half as much work for the system.

    The body of a stream, whose length is not known, may come later than its head.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._transport = cycle.transport
        self._cycle: RequestResponseCycle | None = cycle
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        cycle, self._cycle = self._cycle, None  # which refers to this
        if cycle and cycle.expected_content_length and cycle.scope["method"] != "HEAD":
            self._head = data
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b""


class Connection(HttpToolsProtocol):
    """A connection whose requests have a limited head, and whose client has to go on.

    What uvicorn would refuse in plain text, too many connections and what is not HTTP, is refused
    as JSON.
    """

    def __init__(self, *arguments: Any, crowd: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._crowd = crowd
        self._application = self.app
        self._cycles: list[RequestResponseCycle] = []
        self.network = ""
        self._head_size = self._packet_size = 0
        self._in_message = self._in_body = False
        self._trusted_until = 0.0
        self._owed_since: float | None = None
        """Since when the client has to send something; ``None`` while it waits for an answer."""
        self._unread_since: float | None = None
        """Since when the client does not take in what it is sent."""

    @property
    def waits_since(self) -> float | None:
        """Since when the service waits for the client; ``None`` if the client waits."""
        if self._unread_since is not None:
            return self._unread_since
        return None if self.flow.read_paused else self._owed_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # By default the system keeps megabytes for each client that does not read.
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, _SEND_BUFFER)
        self._owed_since = time.monotonic()
        self.network = "" if self.client is None else _network(self.client[0])
        self._crowd.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        for each in self._cycles:  # uvicorn tells the last one alone
            each.disconnected = True
            each.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._in_message:  # an empty line too, which no parser tells of
            self._in_message, self._owed_since = True, time.monotonic()
        self._packet_size = len(data)
        self._head_size += self._packet_size
        super().data_received(data)
        if self._head_size > _LARGEST_HEAD and not self.transport.is_closing():
            self._refuse(HeadersTooLarge(_SENTENCE))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[TRUST] = self._trust  # type: ignore[literal-required]  # an extension
        if not self._in_message:  # it follows another in the same packet
            self._in_message, self._owed_since = True, time.monotonic()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # what may follow a body is not kept
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_body, self._owed_since = True, time.monotonic()
        may_be_large = self._head_size + self._packet_size > _LARGEST_HEAD
        self._head_size = 0
        self.app = self._application
        if may_be_large and self._size_of_head() > _LARGEST_HEAD:
            self.app = response_to(HeadersTooLarge(_SENTENCE), CLOSE)
        elif self._crowd.is_full_for(self) and self.url.partition(b"?")[0] not in _HEALTH:
            sentence = "there are more connections than the service takes; ask again later."
            self.app = response_to(Overloaded(sentence), CLOSE)
        super().on_headers_complete()
        self.cycle.transport = _Whole(self.cycle)  # type: ignore[assignment]  # all that it needs
        self._cycles = [each for each in self._cycles if not each.response_complete]
        self._cycles.append(self.cycle)

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_message = self._in_body = False
        self._head_size = 0
        self._owed_since = time.monotonic() if self.cycle.response_complete else None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        now = time.monotonic()
        if now > self._trusted_until and not self.transport.is_closing():
            self._crowd.admit(self)
        if not self._in_message and self.cycle.response_complete:
            self._owed_since = now

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = time.monotonic()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest("the request is not valid HTTP."))

    def close_if_late(self, now: float) -> None:
        """Close the connection if its client does not go on."""
        if self._unread_since is None and self.transport.is_closing():
            self._unread_since = now  # what is still to be sent keeps it open
        since = self.waits_since
        # A little early, since this is called once a second.
        if since is None or since > now - 0.93 * _SECONDS:
            return
        waits_for_body = self._in_body and not self.cycle.response_started and not self.pipeline
        if waits_for_body and self._unread_since is None:
            self._refuse(TimedOut(f"the body must come within {_SECONDS:g} seconds."))
        else:
            self.end()

    def end(self) -> None:
        """Close the connection at once, whether or not its client has read everything."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _trust(self) -> None:
        self._trusted_until = time.monotonic() + _TRUST_SECONDS
        if not self.transport.is_closing():  # else it would never be counted out
            self._crowd.trust(self)

    def _refuse(self, error: ArmraceError) -> None:
        """Answer what no endpoint will see, and close the connection."""
        response = response_to(error, CLOSE)
        headers = b"".join(b"%b: %b\r\n" % each for each in response.raw_headers)
        content = bytes(response.body)
        self.transport.write(STATUS_LINE[error.status] + headers + b"\r\n" + content)
        self.transport.close()


@lru_cache(4096)
def _network(address: str) -> str:
    """Return an address; of IPv6 its network, since who has one has all addresses of it."""
    found = address_of(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found or address)


Wrap = Callable[[ASGIApp], ASGIApp]
"""Returns middleware around an application."""
_GRACE_SECONDS = 10
_MOST_CONNECTIONS = 2000
"""With more than these that have a key, others are answered 503 at once."""
_OTHER_FILES = 300
"""Files that the process has open besides its connections, and places beyond the limit."""


class Server(uvicorn.Server):
    """uvicorn with limits, whose event streams end when it stops."""

    def __init__(
        self,
        application: Application,
        host: str,
        port: int,
        grace: int = _GRACE_SECONDS,
        per_address: int = PER_ADDRESS,
        wrap: Wrap = lambda application: application,
    ) -> None:
        self._streams = application.streams
        self._next_look = 0.0
        crowd = Connections(_most_connections(), per_address)
        super().__init__(
            uvicorn.Config(
                wrap(application),
                host=host,
                port=port,
                http=partial(Connection, crowd=crowd),  # type: ignore[arg-type]  # makes one
                ws="none",
                log_config=UVICORN_LOGS,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=grace,
                timeout_keep_alive=30,  # connections look after their time themselves
            )
        )

    async def on_tick(self, counter: int) -> bool:
        # Not by counting ticks: a busy server has fewer of them.
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + 1.0
            connections: set[Any] = self.server_state.connections
            for each in list(connections):
                each.close_if_late(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.close()
        await super().shutdown(sockets)


def _most_connections() -> int:
    """Return how many connections there may be, after asking for as many files as they need."""
    files, (soft, hard) = _MOST_CONNECTIONS + _OTHER_FILES, getrlimit(RLIMIT_NOFILE)
    if RLIM_INFINITY != soft < files:
        files = files if hard == RLIM_INFINITY else min(files, hard)
        setrlimit(RLIMIT_NOFILE, (files, hard))
    return max(1, files - _OTHER_FILES)


_OPEN = (
    "Open: every program on this machine may do everything, without a key. A proxy in front of "
    "this port opens it to the world."
)


class ServerSettings(NamedTuple):
    """How to serve."""

    store: Path | str | None = None
    """The file of the store or the address of a database; ``None`` for the user's own file."""
    keys: Path | str | None = None
    """The file of secrets; by default beside the store, and needed if that is a database."""
    host: str = "127.0.0.1"
    port: int = 8380
    rate: float | None = None
    """How many events a second each key may send; ``None`` for no limit."""
    per_address: int = PER_ADDRESS
    """How many connections of one address may be open that have not shown a key."""
    log: LogLevel = "problems"
    """Which requests to write about on standard error."""
    open: bool = False
    """Whether programs on this machine need no key; there must be none then."""
    trust_user_header: str | None = None
    """The header in which trusted proxies say which person sends a request."""
    trusted_proxies: str | None = None
    """The addresses or networks of these proxies, separated by commas."""
    webhook: str | None = None
    """The address that alarms are sent to."""
    webhook_secret: Path | str | None = None
    """The file of the secret that signs them."""
    url: str | None = None
    """Where people reach the service, for links; by default where it listens."""

    @property
    def proxies(self) -> TrustedProxies | None:
        """What says which person sends a request."""
        header, addresses = self.trust_user_header, self.trusted_proxies
        if header is None and addresses is None:
            return None
        if not header or not addresses:
            raise InvalidParameter(
                "trust_user_header and trusted_proxies must be given together: anybody else could "
                "send the header."
            )
        return TrustedProxies(header, addresses)

    @property
    def webhooks(self) -> WebhookSettings | None:
        """Where alarms are told, if they are."""
        if self.webhook is None:
            return None
        if self.webhook_secret is None:
            raise InvalidParameter("webhook_secret must be given with webhook: alarms are signed.")
        pages = (self.url or self.address).rstrip("/")
        return WebhookSettings(self.webhook, Path(self.webhook_secret), pages)

    @property
    def address(self) -> str:
        """Where the server is reached, as a link has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def serve(
    settings: ServerSettings,
    version: str,
    say: Callable[[str], None],
    pages: Pages = lambda api: (),
    clock: Callable[[], int] | None = None,
    alongside: Callable[[Service], AbstractContextManager[Any]] = nullcontext,
    wrap: Wrap = lambda application: application,
) -> str | None:
    """Serve until the process is told to stop, or until the store fails; return why it has.

    What happens is logged; ``say`` shows a person what no log must have. ``alongside`` is entered
    while the service serves, and ``wrap`` puts ASGI middleware around the application.
    """
    host, port, proxies = settings.host, settings.port, settings.proxies
    if (webhook := settings.webhooks) is not None:
        webhook.check()
    where = default_place() if settings.store is None else settings.store
    local = host == "localhost" or is_loopback(host)
    if not local and address_of(host) is None:
        raise InvalidParameter(f"host must be an address or localhost; got {host!r:.100}.")
    if settings.open and not local:
        raise InvalidParameter(f"host must be a loopback address with open; got {host}.")
    _check_free(host, port)
    keyring = existing_keyring(where, settings.keys)
    if settings.open and keyring.has_keys:
        raise InvalidParameter("open must be left out: the store has keys.")
    store = open_store(where, keyring)
    if not settings.open and not keyring.has_keys:
        say("This store had no key. Here is one that may do everything; it is not shown again.")
        say(f"Sign in with it at {settings.address}/, and give it to programs:")
        say(f"  export ARMRACE_KEY={keyring.create(['admin'], label='first')[1]}")
    service = Service(store, keyring, clock=clock)

    def stop() -> None:
        server.should_exit = True

    log = RequestLog(settings.log)
    application = create_application(
        service, settings.rate, stop, version, log, pages, settings.open, proxies, webhook
    )
    server = Server(application, host, port, per_address=settings.per_address, wrap=wrap)
    if settings.open:
        log.note("warning", _OPEN)
    said = f"Listening on {settings.address}; see /docs there. Ctrl-C stops the service."
    log.note("start", said, version=version, store=without_password(where))
    # The engine works in a thread beside the event loop; by default either may hold the
    # interpreter for 5 ms while the other waits, which is longer than a transaction takes.
    sys.setswitchinterval(0.0001)
    # Compiled code and policies live as long as the process, so the collector need not scan them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    with alongside(service):
        server.run()
    return application.failure


def _check_free(host: str, port: int) -> None:
    """Refuse a port that cannot be listened on, before the log is read."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, address in found:
        try:
            socket.create_server(address, family=family).close()
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise InvalidParameter(
                f"port must be one that can be listened on; got {port} of {host}: {reason}."
            ) from None
