"""What a client makes of a response: an answer, a refusal, or another attempt and when."""

from __future__ import annotations

import random
from typing import Any, NamedTuple, TypeVar

import msgspec

from armrace import errors
from armrace.errors import ArmraceError, ServiceUnreachable
from armrace.service.answers import ExperimentView
from armrace.service.client.exchanges import Exchange
from armrace.service.http import problems

__all__ = ["EventReader", "Retry", "judge", "lost", "pause_before"]

T = TypeVar("T")
_LONGEST_PAUSE = 5.0
_TRY_AGAIN = (408, 429, 502, 503, 504)
_OF_A_PROXY = (502, 504)
"""A proxy answers these while the service may be at work."""
_ERRORS = {
    kind.code: kind
    for kind in (*vars(errors).values(), *vars(problems).values())
    if isinstance(kind, type) and issubclass(kind, ArmraceError)
}


class Retry(NamedTuple):
    """The request must be sent again."""

    reason: str
    seconds: float | None
    """How long to wait, if the service says so."""


def judge(exchange: Exchange[T], status: int, content: bytes, retry_after: str | None) -> T | Retry:
    """Return the answer, or that the request must be sent again; raise a refusal.

    Args:
        exchange: the request.
        status: the status of the response.
        content: its body.
        retry_after: its header ``Retry-After``, if it has one.
    """
    if exchange.takes_long and status in _OF_A_PROXY:
        raise lost(exchange, f"a proxy answers {status}")
    if status in _TRY_AGAIN:
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
        return Retry(f"it answers {status}", seconds)
    try:
        if status < 300:
            raw = exchange.answer is bytes
            found: Any = content if raw else msgspec.json.decode(content, type=exchange.answer)
            answer: T = found if exchange.pick is None else exchange.pick(found)
            return answer
        problem = msgspec.json.decode(content, type=dict[str, str])
        raise _ERRORS.get(problem["code"], ArmraceError)(problem["message"])
    except (msgspec.MsgspecError, KeyError):
        raise ServiceUnreachable(
            f"what answers with status {status} is not a service of armrace."
        ) from None


def lost(exchange: Exchange[Any], reason: str) -> ServiceUnreachable:
    """Return the error of a request of which it is not known whether it was performed.

    Args:
        exchange: the request.
        reason: why there is no answer.
    """
    return ServiceUnreachable(
        f"{exchange.path} was not answered, so that it may have been done or not: {reason}."
    )


def pause_before(attempt: int, retry: Retry) -> float:
    """Return how many seconds to wait before trying for the n-th time again.

    Args:
        attempt: how many attempts were made, minus one.
        retry: why the last one failed.
    """
    backoff: float = min(_LONGEST_PAUSE, 0.05 * 2**attempt) * random.uniform(0.5, 1.0)
    return max(backoff, retry.seconds or 0.0)


class EventReader:
    """Reads the lines of a stream of server-sent events."""

    def __init__(self) -> None:
        self._kind = ""

    def read(self, line: str) -> ExperimentView | None:
        """Return the state that a line ends, if it ends one; raise the refusal that ends all."""
        field, _, value = line.partition(": ")
        if field == "event":
            self._kind = value
        elif field == "data" and self._kind == "state":
            return msgspec.json.decode(value, type=ExperimentView)
        elif field == "data":
            code = msgspec.json.decode(value, type=dict[str, str])["code"]
            raise _ERRORS.get(code, ArmraceError)(f"the stream has ended: {code}.")
        return None
