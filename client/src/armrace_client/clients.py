"""Clients of the service over HTTP: one that waits, and one for an event loop."""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from string import Formatter
from typing import Any, Generic, NamedTuple, NoReturn, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from armrace_client.answers import ExperimentView
from armrace_client.calls import AwaitedCalls, Calls
from armrace_client.errors import (
    ArmraceError,
    BadFeature,
    InvalidParameter,
    ServiceUnreachable,
    by_code,
)
from armrace_client.operations import (
    Decide,
    DecideBatch,
    Operation,
    RecordDecision,
    RewardBatch,
    Route,
    check_part,
)
from armrace_client.queue import AsyncRewardQueue, RewardQueue, WhenFull

H = TypeVar("H")
_EVENTS = Route("GET", "/v1/experiments/{name}/events", "read", Any)
_SILENCE = 30.0
"""How many seconds a stream may be silent; the service sends something every second."""
_LONGEST_PAUSE = 5.0
_TRY_AGAIN = (408, 429, 502, 503, 504)
_OF_A_PROXY = (502, 504)
"""A proxy answers these while the service may be at work."""
_NOT_BEGUN = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _Request(NamedTuple):
    """A request in the words of httpx2."""

    method: str
    url: str
    params: dict[str, Any] | None
    content: bytes | None
    timeout: httpx2.Timeout


class _Retry(NamedTuple):
    """The request must be sent again."""

    reason: str
    seconds: float = 0.0
    """How long to wait at least, if the service says so."""


class _Problem(msgspec.Struct):
    code: str
    message: str


_Outcome = httpx2.Response | httpx2.TransportError | None


# --- requests and responses, whoever sends them -----------------------------------------------


def _fill(path: str, values: dict[str, Any]) -> str:
    """Return an address; what it names is taken out of the values."""
    named = [field for _, field, _, _ in Formatter().parse(path) if field]
    return path.format_map({field: _part(field, values.pop(field, None)) for field in named})


def _part(field: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidParameter(f"{field} must be a name; got {name!r:.100}.")
    return quote(check_part(field, name), safe="")


def _experiment(operation: Operation[Any]) -> str | None:
    """Return the experiment that rewards are for, if it is known and one."""
    rewards = operation.rewards if isinstance(operation, RewardBatch) else [operation]
    found = {getattr(each, "experiment", None) for each in rewards}
    return found.pop() if len(found) == 1 else None


def _request(operation: Operation[Any], timeout: float) -> _Request:
    """Return the request for an operation, which can be sent again without harm."""
    route, path = operation.route, operation.route.path
    values: dict[str, Any] = msgspec.to_builtins(operation)
    if route.alias and (experiment := _experiment(operation)):
        path, values["name"] = route.alias, experiment
    url = _fill(path, values)
    if isinstance(operation, (Decide, RecordDecision, DecideBatch)):
        for each in values.get("decisions", [values]):
            each.setdefault("request", secrets.token_hex(16))
    patience = httpx2.Timeout(timeout, read=None if route.takes_long else timeout)
    if route.method == "GET":
        return _Request("GET", url, values or None, None, patience)
    return _Request(route.method, url, None, _json(values), patience)


def _json(values: dict[str, Any]) -> bytes:
    """Return values as JSON; refuse numbers and texts that JSON does not have."""
    try:
        content = msgspec.json.encode(values)
    except UnicodeEncodeError as error:
        raise InvalidParameter(f"text must be valid Unicode; got {error.object!r:.100}.") from None
    if b"null" in content:  # NaN and infinity are written as null, which would count as missing
        _check_finite("", values)
    return content


def _check_finite(name: str, value: Any, kind: type[ArmraceError] = InvalidParameter) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise kind(f"{name} must be a finite number; got {value}.")
    if isinstance(value, dict):
        kind = BadFeature if name == "context" else kind
        for member, each in value.items():
            _check_finite(member, each, kind)
    elif isinstance(value, list):
        for each in value:
            _check_finite(name, each, kind)


def _converse(
    address: str, operation: Operation[Any], timeout: float, retries: int
) -> Generator[_Request | float, _Outcome, Any]:
    """Yield requests to be sent and seconds to be waited; return the answer, or raise a refusal."""
    request = _request(operation, timeout)
    for attempt in count():
        outcome = _judge(operation.route, request.url, (yield request))
        if not isinstance(outcome, _Retry):
            return outcome
        if attempt >= retries:
            raise _unreachable(address, outcome.reason)
        backoff = min(_LONGEST_PAUSE, 0.05 * 2**attempt) * random.uniform(0.5, 1.0)
        yield max(backoff, outcome.seconds)


def _judge(route: Route, url: str, outcome: _Outcome) -> Any:
    """Return the answer, or that the request must be sent again; raise a refusal."""
    if not isinstance(outcome, httpx2.Response):
        reason = str(outcome) or type(outcome).__name__
        if route.takes_long and not isinstance(outcome, _NOT_BEGUN):
            raise _lost(url, reason) from outcome
        return _Retry(reason)
    status = outcome.status_code
    if route.takes_long and status in _OF_A_PROXY:
        raise _lost(url, f"a proxy answers {status}")
    if status in _TRY_AGAIN:
        seconds = outcome.headers.get("retry-after", "")
        return _Retry(f"it answers {status}", float(seconds) if seconds.isdecimal() else 0.0)
    try:
        if status >= 300:
            problem = msgspec.json.decode(outcome.content, type=_Problem)
            raise by_code(problem.code, problem.message)
        raw = route.answer is bytes
        return outcome.content if raw else msgspec.json.decode(outcome.content, type=route.answer)
    except msgspec.MsgspecError:
        raise ServiceUnreachable(
            f"what answers with status {status} is not a service of armrace."
        ) from None


def _lost(url: str, reason: str) -> ServiceUnreachable:
    return ServiceUnreachable(
        f"{url} was not answered, so that it may have been done or not: {reason}."
    )


def _unreachable(address: str, reason: str) -> ServiceUnreachable:
    return ServiceUnreachable(f"{address} cannot be reached: {reason}.")


@contextmanager
def _streaming(address: str) -> Iterator[None]:
    try:
        yield
    except httpx2.TransportError as error:
        raise _unreachable(address, str(error) or type(error).__name__) from error


def _refuse_stream(address: str, response: httpx2.Response) -> NoReturn:
    outcome = _judge(_EVENTS, _EVENTS.path, response)
    raise _unreachable(address, getattr(outcome, "reason", "it is not a stream"))


def _view(event: httpx2.ServerSentEvent) -> ExperimentView:
    """Return the state that an event tells; raise the refusal that ends the stream."""
    if event.event == "state":
        return msgspec.json.decode(event.data, type=ExperimentView)
    code = msgspec.json.decode(event.data, type=dict[str, Any])["code"]
    raise by_code(code, f"the stream has ended: {code}.")


# --- the clients ------------------------------------------------------------------------------


class _Connection(Generic[H]):
    """Where the service is, and how patient to be with it."""

    _kind: Callable[..., H]

    def __init__(
        self,
        address: str,
        key: str | None = None,
        timeout: float = 5.0,
        retries: int = 5,
        transport: Any = None,
    ) -> None:
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            raise InvalidParameter(
                f"address must begin with http:// or https://; got {address!r:.100}."
            )
        self._address, self._timeout, self._retries = address.rstrip("/"), timeout, retries
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("ARMRACE_KEY") if key is None else key:
            if not re.fullmatch("[!-~]+", key):  # not shown: it may be a key with a line break
                raise InvalidParameter("key must be ASCII characters without spaces or breaks.")
            headers["Authorization"] = f"Bearer {key}"
        self._http = self._kind(
            base_url=self._address, headers=headers, timeout=timeout, transport=transport
        )


class Client(_Connection[httpx2.Client], Calls):
    """A client that waits for answers. Requests that get none are sent again, without harm.

    Rulings, exports and backups may take minutes, and so may the first experiment with a policy,
    which is compiled. They are waited for without a limit, and not sent again once the service may
    have begun with them.

    Args:
        address: where the service is, as in ``http://localhost:8380``.
        key: an API key, if the service has any; by default the environment variable
            ``ARMRACE_KEY``.
        timeout: how many seconds to wait for a connection and for other answers.
        retries: how often to try again.
        transport: how requests are sent, for tests.
    """

    _kind = httpx2.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, operation: Operation[Any], pick: Callable[[Any], Any] | None = None) -> Any:
        conversation = _converse(self._address, operation, self._timeout, self._retries)
        outcome = None
        while True:
            try:
                step = conversation.send(outcome)
            except StopIteration as end:
                return end.value if pick is None else pick(end.value)
            outcome = self._take(step)

    def _take(self, step: _Request | float) -> _Outcome:
        if not isinstance(step, _Request):
            time.sleep(step)
            return None
        try:
            return self._http.request(**step._asdict())
        except httpx2.TransportError as error:
            return error

    def events(self, name: str) -> Iterator[ExperimentView]:
        """Yield the state of an experiment whenever it has changed, until the service stops.

        Args:
            name: the experiment.
        """
        url = _fill(_EVENTS.path, {"name": name})
        with (
            _streaming(self._address),
            self._http.sse(url, timeout=_SILENCE, max_event_size=None) as events,
        ):
            if events.response.status_code != 200:
                events.response.read()
                _refuse_stream(self._address, events.response)
            yield from map(_view, events)

    def queue(self, room: int = 10_000, when_full: WhenFull = "block") -> RewardQueue:
        """Return a queue that sends rewards in the background and drops none.

        Args:
            room: how many rewards may wait.
            when_full: whether to wait or to raise when there is no room.
        """
        return RewardQueue(self.reward_many, room, when_full)


class AsyncClient(_Connection[httpx2.AsyncClient], AwaitedCalls):
    """A client for an event loop; otherwise as :class:`Client`."""

    _kind = httpx2.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(
        self, operation: Operation[Any], pick: Callable[[Any], Any] | None = None
    ) -> Any:
        conversation = _converse(self._address, operation, self._timeout, self._retries)
        outcome = None
        while True:
            try:
                step = conversation.send(outcome)
            except StopIteration as end:
                return end.value if pick is None else pick(end.value)
            outcome = await self._take(step)

    async def _take(self, step: _Request | float) -> _Outcome:
        if not isinstance(step, _Request):
            await asyncio.sleep(step)
            return None
        try:
            return await self._http.request(**step._asdict())
        except httpx2.TransportError as error:
            return error

    async def events(self, name: str) -> AsyncIterator[ExperimentView]:
        """Yield the state of an experiment whenever it changes; as :meth:`Client.events`."""
        url = _fill(_EVENTS.path, {"name": name})
        with _streaming(self._address):
            async with self._http.sse(url, timeout=_SILENCE, max_event_size=None) as events:
                if events.response.status_code != 200:
                    await events.response.aread()
                    _refuse_stream(self._address, events.response)
                async for event in events:
                    yield _view(event)

    def queue(self, room: int = 10_000, when_full: WhenFull = "block") -> AsyncRewardQueue:
        """Return a queue that sends rewards in the background; as :meth:`Client.queue`."""
        return AsyncRewardQueue(self.reward_many, room, when_full)
