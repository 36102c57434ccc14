"""The clients: one that waits, and one for an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx
import msgspec

from armrace.errors import InvalidParameter, ServiceUnreachable
from armrace.service.answers import Decision, ExperimentView, RewardAnswer, RulingAnswer
from armrace.service.client import exchanges
from armrace.service.client.exchanges import Exchange, Retry, judge, pause_before
from armrace.service.client.queue import RewardQueue

__all__ = ["AsyncClient", "Client"]

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


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


class Client:
    """A client that waits for answers. Requests that get none are sent again, without harm.

    Args:
        address: where the service is, as in ``http://localhost:8380``.
        key: an API key, if the service has any.
        timeout: how many seconds to wait for an answer.
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
            got = self._http.request(exchange.method, exchange.path, content=content)
        except httpx.TransportError as error:
            return Retry(str(error) or type(error).__name__, None)
        return judge(exchange, got.status_code, got.content, got.headers.get("retry-after"))

    def create(
        self, name: str, arms: Sequence[str], missing: float | Literal["drop"], **settings: Any
    ) -> ExperimentView:
        """Create an experiment; settings as for :meth:`armrace.service.Service.create`."""
        return self._send(exchanges.create(name, arms, missing, settings))

    def names(self) -> list[str]:
        """Return the names of all experiments."""
        return self._send(exchanges.names())

    def describe(self, name: str) -> ExperimentView:
        """Return the state of an experiment."""
        return self._send(exchanges.describe(name))

    def decide(
        self,
        name: str,
        eligible: Iterable[str] | None = None,
        unit: str | None = None,
        request: str | None = None,
    ) -> Decision:
        """Make a decision; as :meth:`armrace.service.Service.decide`."""
        return self._send(exchanges.decide(name, eligible, unit, request))

    def decide_many(self, name: str, count: int) -> list[Decision]:
        """Make a number of decisions, at most 1,000."""
        return self._send(exchanges.decide_many(name, count))

    def reward(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> str:
        """Say what a decision earned; as :meth:`armrace.service.Service.reward`."""
        return self._send(exchanges.reward(decision, value, source, suspicion))

    def reward_many(
        self,
        rewards: Iterable[tuple[Decision | str, float]],
        source: str | None = None,
        suspicion: float | None = None,
    ) -> list[RewardAnswer]:
        """Say what several decisions earned, at most 1,000; each has its own answer."""
        return self._send(exchanges.reward_many(rewards, source, suspicion))

    def retract(
        self, name: str, decisions: Iterable[Decision | str | int] | None = None, **more: Any
    ) -> RulingAnswer:
        """Take rewards back; as :meth:`armrace.service.Service.retract`, without a preview."""
        return self._send(exchanges.rule(name, "retract", decisions, more))

    def release(
        self, name: str, decisions: Iterable[Decision | str | int] | None = None, **more: Any
    ) -> RulingAnswer:
        """Let rewards count; as :meth:`armrace.service.Service.release`, without a preview."""
        return self._send(exchanges.rule(name, "release", decisions, more))

    def queue(
        self, room: int = 10_000, when_full: Literal["block", "raise"] = "block"
    ) -> RewardQueue:
        """Return a queue that sends rewards in the background and drops none.

        Args:
            room: how many rewards may wait.
            when_full: whether to wait or to raise when there is no room.
        """
        return RewardQueue(self.reward_many, room, when_full)


class AsyncClient:
    """A client for an event loop; arguments as for :class:`Client`."""

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
            got = await self._http.request(exchange.method, exchange.path, content=content)
        except httpx.TransportError as error:
            return Retry(str(error) or type(error).__name__, None)
        return judge(exchange, got.status_code, got.content, got.headers.get("retry-after"))

    async def create(
        self, name: str, arms: Sequence[str], missing: float | Literal["drop"], **settings: Any
    ) -> ExperimentView:
        """Create an experiment."""
        return await self._send(exchanges.create(name, arms, missing, settings))

    async def names(self) -> list[str]:
        """Return the names of all experiments."""
        return await self._send(exchanges.names())

    async def describe(self, name: str) -> ExperimentView:
        """Return the state of an experiment."""
        return await self._send(exchanges.describe(name))

    async def decide(
        self,
        name: str,
        eligible: Iterable[str] | None = None,
        unit: str | None = None,
        request: str | None = None,
    ) -> Decision:
        """Make a decision."""
        return await self._send(exchanges.decide(name, eligible, unit, request))

    async def decide_many(self, name: str, count: int) -> list[Decision]:
        """Make a number of decisions, at most 1,000."""
        return await self._send(exchanges.decide_many(name, count))

    async def reward(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> str:
        """Say what a decision earned."""
        return await self._send(exchanges.reward(decision, value, source, suspicion))

    async def reward_many(
        self,
        rewards: Iterable[tuple[Decision | str, float]],
        source: str | None = None,
        suspicion: float | None = None,
    ) -> list[RewardAnswer]:
        """Say what several decisions earned, at most 1,000; each has its own answer."""
        return await self._send(exchanges.reward_many(rewards, source, suspicion))

    async def retract(
        self, name: str, decisions: Iterable[Decision | str | int] | None = None, **more: Any
    ) -> RulingAnswer:
        """Take rewards back."""
        return await self._send(exchanges.rule(name, "retract", decisions, more))

    async def release(
        self, name: str, decisions: Iterable[Decision | str | int] | None = None, **more: Any
    ) -> RulingAnswer:
        """Let rewards count."""
        return await self._send(exchanges.rule(name, "release", decisions, more))
