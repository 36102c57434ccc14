"""What clients send, what they make of answers, and when they try again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from armrace import errors
from armrace.errors import ArmraceError, InvalidParameter, ServiceUnreachable
from armrace.service.answers import Decision, ExperimentView, RewardAnswer, RulingAnswer

__all__ = ["Exchange", "Retry", "judge", "pause_before"]

T = TypeVar("T")
_LONGEST_PAUSE = 5.0
_TRY_AGAIN = (429, 502, 503, 504)
_ERRORS = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ArmraceError)
}


class Exchange(NamedTuple, Generic[T]):
    """A request, and the type of its answer. All of them may be sent again without harm."""

    method: str
    path: str
    body: Any
    answer: type[T]
    member: str | None = None
    """The member of the answer that is returned, if not the whole."""


class Retry(NamedTuple):
    """The request must be sent again."""

    reason: str
    seconds: float | None
    """How long to wait, if the service says so."""


def decide(
    name: str, eligible: Iterable[str] | None, unit: str | None, request: str | None
) -> Exchange[Decision]:
    """Ask for a decision; a request id is made up if none is given, so that retries are safe."""
    body = {
        "eligible": None if eligible is None else list(eligible),
        "unit": unit,
        "request": request or secrets.token_hex(16),
    }
    return Exchange("POST", f"{_experiment(name)}/decide", body, Decision)


def decide_many(name: str, count: int) -> Exchange[list[Decision]]:
    """Ask for several decisions."""
    body = {"decisions": [{"request": secrets.token_hex(16)} for _ in range(count)]}
    path = f"{_experiment(name)}/decide/batch"
    return Exchange("POST", path, body, dict[str, list[Decision]], "decisions")  # type: ignore[arg-type]


def reward(
    decision: Decision | str, value: float, source: str | None, suspicion: float | None
) -> Exchange[str]:
    """Say what a decision earned."""
    body = _reward(decision, value, source, suspicion)
    return Exchange("POST", "/v1/rewards", body, dict[str, str], "status")  # type: ignore[arg-type]


def reward_many(
    rewards: Iterable[tuple[Decision | str, float]], source: str | None, suspicion: float | None
) -> Exchange[list[RewardAnswer]]:
    """Say what several decisions earned."""
    body = {"rewards": [_reward(*each, source, suspicion) for each in rewards]}
    kind = dict[str, list[RewardAnswer]]
    return Exchange("POST", "/v1/rewards/batch", body, kind, "rewards")  # type: ignore[arg-type]


def _reward(
    decision: Decision | str, value: float, source: str | None, suspicion: float | None
) -> dict[str, Any]:
    token = decision.decision if isinstance(decision, Decision) else decision
    return {"decision": token, "value": value, "source": source, "suspicion": suspicion}


def create(name: str, arms: Sequence[str], missing: Any, more: Any) -> Exchange[ExperimentView]:
    """Create an experiment."""
    body = {"name": name, "arms": list(arms), "missing": missing, **more}
    return Exchange("POST", "/v1/experiments", body, ExperimentView)


def names() -> Exchange[list[str]]:
    """List experiments."""
    kind = dict[str, list[str]]
    return Exchange("GET", "/v1/experiments", None, kind, "experiments")  # type: ignore[arg-type]


def describe(name: str) -> Exchange[ExperimentView]:
    """Show the state of an experiment."""
    return Exchange("GET", _experiment(name), None, ExperimentView)


def rule(
    name: str, action: str, decisions: Iterable[Decision | str | int] | None, more: Any
) -> Exchange[RulingAnswer]:
    """Retract or release rewards."""
    chosen = None
    if decisions is not None:
        chosen = [each.decision if isinstance(each, Decision) else each for each in decisions]
    body = {"decisions": chosen, **more}
    return Exchange("POST", f"{_experiment(name)}/{action}", body, RulingAnswer)


def _experiment(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidParameter(f"name must be the name of an experiment; got {name!r:.100}.")
    return f"/v1/experiments/{quote(name, safe='')}"


def judge(exchange: Exchange[T], status: int, content: bytes, retry_after: str | None) -> T | Retry:
    """Return the answer, or that the request must be sent again; raise a refusal."""
    if status in _TRY_AGAIN:
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
        return Retry(f"it answers {status}", seconds)
    try:
        if status < 300:
            found: Any = msgspec.json.decode(content, type=exchange.answer)
            answer: T = found[exchange.member] if exchange.member else found
            return answer
        problem = msgspec.json.decode(content, type=dict[str, str])
        raise _ERRORS.get(problem["code"], ArmraceError)(problem["message"])
    except (msgspec.MsgspecError, KeyError):
        raise ServiceUnreachable(
            f"what answers with status {status} is no service of armrace."
        ) from None


def pause_before(attempt: int, retry: Retry) -> float:
    """Return how many seconds to wait before trying for the n-th time again."""
    backoff: float = min(_LONGEST_PAUSE, 0.05 * 2**attempt) * random.uniform(0.5, 1.0)
    return max(backoff, retry.seconds or 0.0)
