"""The server process: the application on uvicorn."""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any, NamedTuple

import uvicorn

from armrace.errors import InvalidParameter, StoreFailed
from armrace.service.http.access import TrustedProxies, address_of, is_loopback
from armrace.service.http.application import Application, Pages, create_application
from armrace.service.http.connections import PER_ADDRESS, Connection, Crowd
from armrace.service.http.logs import UVICORN_LOGS, LogLevel, RequestLog
from armrace.service.opening import default_place, existing_keyring, open_store, without_password
from armrace.service.service import Service

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
    ) -> None:
        self._streams = application.streams
        self._next_look = 0.0
        crowd = Crowd(_most_connections(), per_address)
        super().__init__(
            uvicorn.Config(
                application,
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
) -> None:
    """Serve until the process is told to stop, or until the store fails, which is raised.

    ``say`` shows a line to the user; ``alongside`` is entered while the service serves.
    """
    host, port, proxies = settings.host, settings.port, settings.proxies
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
    say(f"The log is in {without_password(where)}.")
    if not settings.open and not keyring.has_keys:
        say("This store had no key. Here is one that may do everything; it is not shown again.")
        say(f"Sign in with it at {settings.address}/, and give it to programs:")
        say(f"  export ARMRACE_KEY={keyring.create(['admin'], label='first')[1]}")
    service = Service(store, keyring, clock=clock)

    def stop() -> None:
        server.should_exit = True

    log = RequestLog(settings.log)
    application = create_application(
        service, settings.rate, stop, version, log, pages, settings.open, proxies
    )
    server = Server(application, host, port, per_address=settings.per_address)
    if settings.open:
        say("Open: every program on this machine may do everything, without a key.")
        say("A proxy in front of this port opens it to the world.")
    say(f"Listening on {settings.address}; see /docs there. Ctrl-C stops the service.")
    # The engine works in a thread beside the event loop; by default either may hold the
    # interpreter for 5 ms while the other waits, which is longer than a transaction takes.
    sys.setswitchinterval(0.0001)
    # Compiled code and policies live as long as the process, so the collector need not scan them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    with alongside(service):
        server.run()
    if service.engine.failure is not None:
        reason = service.engine.failure.removesuffix(".")
        raise StoreFailed(f"{reason}; the service stops, and replays its log next time.")


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
