"""The clients: one that waits, and one for an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, overload

import httpx
import msgspec

from armrace.errors import InvalidParameter, ServiceUnreachable
from armrace.service.answers import ExperimentView
from armrace.service.client import exchanges
from armrace.service.client.async_queue import AsyncRewardQueue
from armrace.service.client.exchanges import Exchange
from armrace.service.client.queue import RewardQueue
from armrace.service.client.responses import EventReader, Retry, judge, lost, pause_before

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_STREAM_TIMEOUT = 30.0
"""How many seconds a stream may be silent; the service sends something every second."""


class Call(Generic[P, T]):
    """A method of both clients: the one waits for its answer, the other is awaited.

    Args:
        make: makes the request from the arguments.
    """

    def __init__(self, make: Callable[P, Exchange[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: Any) -> Callable[P, Exchange[T]]: ...
    @overload
    def __get__(self, client: Client, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        if client is None:
            return self._make

        @wraps(self._make)
        def call(*arguments: P.args, **more: P.kwargs) -> Any:
            return client._send(self._make(*arguments, **more))

        return call


class Calls:
    """What both clients can do; arguments and answers are those of :mod:`.exchanges`."""

    create = Call(exchanges.create)
    names = Call(exchanges.names)
    describe = Call(exchanges.describe)
    pause = Call(exchanges.pause)
    resume = Call(exchanges.resume)
    finish = Call(exchanges.finish)
    decide = Call(exchanges.decide)
    decide_many = Call(exchanges.decide_many)
    reward = Call(exchanges.reward)
    reward_many = Call(exchanges.reward_many)
    retract = Call(exchanges.retract)
    release = Call(exchanges.release)
    quarantine = Call(exchanges.quarantine)
    add_arm = Call(exchanges.add_arm)
    pause_arm = Call(exchanges.pause_arm)
    resume_arm = Call(exchanges.resume_arm)
    retire_arm = Call(exchanges.retire_arm)
    audit = Call(exchanges.audit)
    check_ratio = Call(exchanges.check_ratio)
    health = Call(exchanges.health)
    history = Call(exchanges.history)
    sources = Call(exchanges.sources)
    export = Call(exchanges.export)
    back_up = Call(exchanges.back_up)


def _check_address(address: str) -> str:
    if not isinstance(address, str) or not address.startswith(("http://", "https://")):
        raise InvalidParameter(
            f"address must begin with http:// or https://; got {address!r:.100}."
        )
    return address.rstrip("/")


def _headers(key: str | None) -> dict[str, str]:
    found = {"Content-Type": "application/json"}
    return found if key is None else {**found, "Authorization": f"Bearer {key}"}


def _unreachable(address: str, retry: Retry) -> ServiceUnreachable:
    return ServiceUnreachable(f"{address} cannot be reached: {retry.reason}.")


def _patience(exchange: Exchange[Any], timeout: float) -> httpx.Timeout:
    return httpx.Timeout(timeout, read=None) if exchange.takes_long else httpx.Timeout(timeout)


def _retry(exchange: Exchange[Any], error: httpx.TransportError) -> Retry:
    """Return that a request must be sent again, unless the service may have begun with it."""
    reason = str(error) or type(error).__name__
    not_begun = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    if exchange.takes_long and not not_begun:
        raise lost(exchange, reason) from error
    return Retry(reason, None)


def _refuse_stream(address: str, exchange: Exchange[Any], status: int, content: bytes) -> None:
    outcome = judge(exchange, status, content, None)
    if isinstance(outcome, Retry):
        raise _unreachable(address, outcome)


@contextmanager
def _stream_errors(address: str) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise _unreachable(address, Retry(str(error) or type(error).__name__, None)) from error


class Client(Calls):
    """A client that waits for answers. Requests that get none are sent again, without harm.

    Rulings, exports and backups may take minutes, and so may the first experiment with a policy,
    which is compiled. They are waited for without a limit, and not sent again once the service may
    have begun with them.

    Args:
        address: where the service is, as in ``http://localhost:8380``.
        key: an API key, if the service has any.
        timeout: how many seconds to wait for a connection and for other answers.
        retries: how often to try again.
        transport: how requests are sent, for tests.
    """

    def __init__(
        self,
        address: str,
        key: str | None = None,
        timeout: float = 5.0,
        retries: int = 5,
        transport: Any = None,
    ) -> None:
        self._address = _check_address(address)
        self._retries = retries
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=self._address, headers=_headers(key), timeout=timeout, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, exchange: Exchange[T]) -> T:
        content = None if exchange.body is None else _encode(exchange.body)
        attempt = 0
        while True:
            outcome = self._try(exchange, content)
            if not isinstance(outcome, Retry):
                return outcome
            if attempt == self._retries:
                raise _unreachable(self._address, outcome)
            time.sleep(pause_before(attempt, outcome))
            attempt += 1

    def _try(self, exchange: Exchange[T], content: bytes | None) -> T | Retry:
        try:
            got = self._http.request(
                exchange.method,
                exchange.path,
                content=content,
                timeout=_patience(exchange, self._timeout),
            )
        except httpx.TransportError as error:
            return _retry(exchange, error)
        return judge(exchange, got.status_code, got.content, got.headers.get("retry-after"))

    def events(self, name: str) -> Iterator[ExperimentView]:
        """Yield the state of an experiment whenever it has changed, until the service stops.

        Args:
            name: the experiment.
        """
        exchange, reader = exchanges.events(name), EventReader()
        with (
            _stream_errors(self._address),
            self._http.stream("GET", exchange.path, timeout=_STREAM_TIMEOUT) as got,
        ):
            if got.status_code != 200:
                _refuse_stream(self._address, exchange, got.status_code, got.read())
            for line in got.iter_lines():
                view = reader.read(line)
                if view is not None:
                    yield view

    def queue(
        self, room: int = 10_000, when_full: Literal["block", "raise"] = "block"
    ) -> RewardQueue:
        """Return a queue that sends rewards in the background and drops none.

        Args:
            room: how many rewards may wait.
            when_full: whether to wait or to raise when there is no room.
        """
        return RewardQueue(self.reward_many, room, when_full)


class AsyncClient(Calls):
    """A client for an event loop; otherwise as :class:`Client`.

    Args:
        address: where the service is, as in ``http://localhost:8380``.
        key: an API key, if the service has any.
        timeout: how many seconds to wait for a connection and for other answers.
        retries: how often to try again.
        transport: how requests are sent, for tests.
    """

    def __init__(
        self,
        address: str,
        key: str | None = None,
        timeout: float = 5.0,
        retries: int = 5,
        transport: Any = None,
    ) -> None:
        self._address = _check_address(address)
        self._retries = retries
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=self._address, headers=_headers(key), timeout=timeout, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, exchange: Exchange[T]) -> T:
        content = None if exchange.body is None else _encode(exchange.body)
        attempt = 0
        while True:
            outcome = await self._try(exchange, content)
            if not isinstance(outcome, Retry):
                return outcome
            if attempt == self._retries:
                raise _unreachable(self._address, outcome)
            await asyncio.sleep(pause_before(attempt, outcome))
            attempt += 1

    async def _try(self, exchange: Exchange[T], content: bytes | None) -> T | Retry:
        try:
            got = await self._http.request(
                exchange.method,
                exchange.path,
                content=content,
                timeout=_patience(exchange, self._timeout),
            )
        except httpx.TransportError as error:
            return _retry(exchange, error)
        return judge(exchange, got.status_code, got.content, got.headers.get("retry-after"))

    async def events(self, name: str) -> AsyncIterator[ExperimentView]:
        """Yield the state of an experiment whenever it changes; as :meth:`Client.events`."""
        exchange, reader = exchanges.events(name), EventReader()
        with _stream_errors(self._address):
            async with self._http.stream("GET", exchange.path, timeout=_STREAM_TIMEOUT) as got:
                if got.status_code != 200:
                    _refuse_stream(self._address, exchange, got.status_code, await got.aread())
                async for line in got.aiter_lines():
                    view = reader.read(line)
                    if view is not None:
                        yield view

    def queue(
        self, room: int = 10_000, when_full: Literal["block", "raise"] = "block"
    ) -> AsyncRewardQueue:
        """Return a queue that sends rewards in the background; as :meth:`Client.queue`.

        Args:
            room: how many rewards may wait.
            when_full: whether to wait or to raise when there is no room.
        """
        return AsyncRewardQueue(self.reward_many, room, when_full)
