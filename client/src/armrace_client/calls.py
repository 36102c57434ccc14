"""The methods that clients and the service share: one for each operation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from types import MethodType
from typing import (
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from armrace_client import answers, operations
from armrace_client.answers import DecisionAnswer, DecisionList
from armrace_client.errors import InvalidParameter, by_code
from armrace_client.operations import Labels, Operation, Reward, check_count

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Decisions = Iterable[DecisionAnswer | str | int] | DecisionAnswer | str | int | Path | None
Names = Iterable[str] | Path | None


class Method(Generic[P, T]):
    """A method that makes an operation of its arguments and sends it.

    ``pick`` returns what a caller wants of the answer; ``described`` has the docstring.
    """

    @overload
    def __init__(self, make: Callable[P, Operation[T]]) -> None: ...
    @overload
    def __init__(
        self, make: Callable[P, Operation[S]], pick: Callable[[S], T], described: Any = None
    ) -> None: ...
    def __init__(self, make: Any, pick: Any = None, described: Any = None) -> None:
        def call(client: Any, /, *arguments: Any, **more: Any) -> Any:
            return client._send(make(*arguments, **more), pick)

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = [own, *inspect.signature(make).parameters.values()]
        call.__doc__ = self.__doc__ = (described or make).__doc__
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self._call = call

    def __set_name__(self, owner: type, name: str) -> None:
        self._call.__name__, self._call.__qualname__ = name, f"{owner.__name__}.{name}"

    @overload
    def __get__(self, client: None, owner: Any) -> Callable[P, Operation[Any]]: ...
    @overload
    def __get__(self, client: Calls, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AwaitedCalls, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        return self._call if client is None else MethodType(self._call, client)


class RewardItem(NamedTuple):
    """A reward of several that are said at once."""

    decision: DecisionAnswer | str
    value: float
    source: str | None = None
    suspicion: float | None = None
    labels: Labels | None = None
    metrics: dict[str, float] | None = None
    part: str | None = None


def check_reward(
    decision: DecisionAnswer | str,
    value: float,
    source: str | None = None,
    suspicion: float | None = None,
    labels: Labels | None = None,
    metrics: dict[str, float] | None = None,
    part: str | None = None,
) -> Reward:
    """Return a reward with plain numbers; refuse what would make the service refuse its batch."""
    if not isinstance(decision, (DecisionAnswer, str)):
        raise InvalidParameter(f"decision must be a decision or its name; got {decision!r:.100}.")
    for name, text in (("source", source), ("part", part)):
        if text is not None and not isinstance(text, str):
            raise InvalidParameter(f"{name} must be text; got {text!r:.100}.")
    number = _finite("reward", value)
    if suspicion is not None:
        suspicion = _finite("suspicion", suspicion)
    if metrics is not None:
        if not isinstance(metrics, dict):
            raise InvalidParameter(f"metrics must give numbers by name; got {metrics!r:.100}.")
        metrics = {name: _finite(f"metric {name!r:.100}", each) for name, each in metrics.items()}
    return Reward(cast("str", decision), number, source, suspicion, labels, metrics, part)


def _finite(name: str, value: Any) -> float:
    """Return a number, which may be of NumPy, as a plain one."""
    number = math.nan
    if hasattr(value, "__float__") and not isinstance(value, str):
        with suppress(OverflowError, TypeError, ValueError):  # of a huge fraction, or an array
            number = float(value)
    if not math.isfinite(number):  # JSON has no other numbers
        try:
            given = repr(value)
        except ValueError:  # Python does not write numbers of thousands of digits
            given = "a larger one"
        raise InvalidParameter(f"{name} must be a finite number; got {given:.100}.")
    return number


def _reward_many(
    rewards: Iterable[tuple[DecisionAnswer | str, float] | RewardItem],
    source: str | None = None,
    suspicion: float | None = None,
) -> operations.RewardBatch:
    """Say what several decisions earned, at most 1,000 over HTTP; each has its own answer.

    Args:
        rewards: pairs of a decision and its reward; a :class:`RewardItem` may have a source, a
            suspicion and labels of its own.
        source: where the other rewards come from.
        suspicion: how suspicious they are.
    """
    members = "pairs of a decision and its reward"
    given: Any = rewards
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidParameter(f"rewards must be a list of {members}; got {given!r:.100}.")
    made = []
    for each in given:
        try:
            item = RewardItem(*each)
        except TypeError:
            raise InvalidParameter(f"rewards must be {members}; got {each!r:.100}.") from None
        own_source = source if item.source is None else item.source
        own_suspicion = suspicion if item.suspicion is None else item.suspicion
        own = own_source, own_suspicion, item.labels, item.metrics, item.part
        made.append(check_reward(item.decision, item.value, *own))
    return operations.RewardBatch(made)


def _decide_many(name: str, count: int) -> operations.DecideBatch:
    """Make a number of decisions at once, at most 1,000 over HTTP.

    Args:
        name: the experiment.
        count: how many decisions to make.

    Returns:
        The decisions; fewer than ``count`` if more would have been open than may be.

    Raises:
        ArmraceError: none was made.
    """
    return operations.DecideBatch(name, [operations.Visit()] * check_count(count))


def _made(answer: DecisionList) -> list[DecisionAnswer]:
    made = answer.made()
    if answer.refusals and not made:
        raise by_code(answer.refusals[0].code, answer.refusals[0].message)
    return made


class _Selection(TypedDict, total=False):
    requests: Names
    units: Names
    sources: Names
    labels: dict[str, str | list[str]] | None
    since: int | None
    until: int | None
    reason: str
    reasons: list[str] | None
    ruled: int | None
    listed: int
    preview: bool
    head: str | None


class _StandingSelection(_Selection, total=False):
    standing: bool
    early: bool


class _Ruling(Protocol):
    """Rulings take more in Python than their fields say: decisions, or one alone."""

    def __call__(
        self, name: str, decisions: Decisions = None, **more: Unpack[_Selection]
    ) -> Operation[answers.RulingAnswer]: ...


class _StandingRuling(Protocol):
    def __call__(
        self, name: str, decisions: Decisions = None, **more: Unpack[_StandingSelection]
    ) -> Operation[answers.RulingAnswer]: ...


class Methods:
    """All operations as methods; arguments and answers are those of :mod:`.operations`."""

    decide = Method(operations.Decide)
    decide_batch = Method(operations.DecideBatch)
    decide_many = Method(_decide_many, _made)
    record = Method(operations.RecordDecision)
    reward = Method(check_reward, lambda answer: answer.status, Reward)
    reward_batch = Method(operations.RewardBatch)
    reward_many = Method(_reward_many, lambda answer: answer.rewards)
    lease = Method(operations.TakeLease)
    report = Method(operations.Report, lambda answer: answer.visits)

    retract = Method(cast("_Ruling", operations.Retract))
    void = Method(cast("_Ruling", operations.Void))
    hold = Method(cast("_StandingRuling", operations.Hold))
    suspect = Method(operations.Suspect)
    release = Method(cast("_StandingRuling", operations.Release))
    quarantine = Method(operations.ListQuarantine)

    create = Method(operations.Create)
    names = Method(operations.ListNames, lambda answer: answer.experiments)
    describe = Method(operations.Describe)
    pause = Method(operations.Pause)
    resume = Method(operations.Resume)
    finish = Method(operations.Finish)
    start_afresh = Method(operations.StartAfresh)
    delete = Method(operations.Delete, lambda answer: answer.experiments)

    add_arm = Method(operations.AddArm)
    pause_arm = Method(operations.PauseArm)
    resume_arm = Method(operations.ResumeArm)
    retire_arm = Method(operations.RetireArm)

    audit = Method(operations.RunAudit)
    check_ratio = Method(operations.CheckRatio)
    health = Method(operations.ReadHealth)
    history = Method(operations.ReadHistory)
    sources = Method(operations.ListSources)
    groups = Method(operations.ListGroups)
    actions = Method(operations.ListActions)
    export = Method(operations.Export)
    back_up = Method(operations.BackUp)


class Calls(Methods):
    """Methods that wait for their answers."""

    def _send(self, operation: Operation[Any], pick: Callable[[Any], Any] | None) -> Any:
        raise NotImplementedError


class AwaitedCalls(Methods):
    """Methods that are awaited."""

    async def _send(self, operation: Operation[Any], pick: Callable[[Any], Any] | None) -> Any:
        raise NotImplementedError
