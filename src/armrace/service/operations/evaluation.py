"""Decisions as flags of OpenFeature: a flag is an experiment, its variants are the arms.

An application evaluates a flag as often as it likes, so that a flag is evaluated for a unit alone:
as long as its decision is open, it is returned again. A bulk evaluation comes before anything is
shown. It decides for the experiments that its context names and for no others, and labels what it
makes, so that visits that nobody saw can be found, and voided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from armrace.errors import ArmraceError, InvalidParameter, NotRunning, UnknownName
from armrace.service.operations.deciding import decide
from armrace.service.work import Target, Work, as_batch
from armrace_client.operations import Decide, Label, Labels, Operation, Route

_PATH, _LIMIT = "/ofrep/v1/evaluate/flags", 2**16
_MOST_FLAGS = 100
_BULK_LABEL = {"evaluation": "bulk"}
Value = str | bool | int | float


class TargetingKeyMissing(InvalidParameter):
    """An evaluation context names no unit."""


class Flag(msgspec.Struct, frozen=True):
    """An evaluated flag; without a value, the application's own default holds."""

    key: str
    reason: str
    variant: str = ""
    """The arm; empty rather than left out, since not every provider knows flags without."""
    value: Value | UnsetType = UNSET
    metadata: dict[str, Value] = {}


class FlagFailure(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why a flag was not evaluated, or none of several if there is no key."""

    error_code: str
    error_details: str
    key: str | None = None

    @classmethod
    def of(cls, error: ArmraceError, sentence: str, key: str | None) -> FlagFailure:
        """Return how the protocol says a refusal."""
        code = "INVALID_CONTEXT" if error.status == InvalidParameter.status else "GENERAL"
        if isinstance(error, UnknownName):
            code = "FLAG_NOT_FOUND"
        elif isinstance(error, TargetingKeyMissing):
            code = "TARGETING_KEY_MISSING"
        return cls(code, sentence, key)


class FlagList(msgspec.Struct, frozen=True):
    """The flags of a bulk evaluation."""

    flags: list[Flag | FlagFailure]


class _Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is taken from the attribute ``armrace`` of an evaluation context."""

    source: Label | None = None
    labels: Labels = {}
    experiments: Annotated[list[Label], Meta(max_length=_MOST_FLAGS)] = []

    @classmethod
    def of(cls, context: dict[str, Any]) -> _Origin:
        try:
            return msgspec.convert(context.get("armrace", {}), cls)
        except msgspec.ValidationError as error:
            sentence = f"the attribute armrace of the context is refused: {error}."
            raise InvalidParameter(sentence) from None


class Evaluate(Operation[Flag], frozen=True, forbid_unknown_fields=False):
    """Evaluate a flag."""

    name: str
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    route = Route("POST", f"{_PATH}/{{name}}", "decide", Flag, _LIMIT)


class EvaluateAll(Operation[FlagList], frozen=True, forbid_unknown_fields=False):
    """Evaluate the flags that the context names, each by itself."""

    context: dict[str, Any] = msgspec.field(default_factory=dict)
    route = Route("POST", _PATH, "decide", FlagList, _LIMIT)

    def events(self) -> int:
        """Return one event for each flag."""
        return len(_Origin.of(self.context).experiments)


def _target(name: str, context: dict[str, Any], origin: _Origin, labels: Labels) -> Target:
    unit = context.get("targetingKey")
    if unit is None or unit == "":
        raise TargetingKeyMissing("the context must have a targetingKey, which names the unit.")
    if not isinstance(unit, str):
        raise InvalidParameter(f"targetingKey must be text; got {unit!r:.100}.")
    visit = Decide(name, unit=unit, source=origin.source, labels={**origin.labels, **labels})
    return name, lambda work: _evaluate(work, visit, context)


def _evaluate(work: Work, visit: Decide, context: dict[str, Any]) -> Flag:
    """Return the decision for a unit as a flag; an experiment that makes none is disabled."""
    experiment = work.experiment
    if (schema := experiment.settings.schema) is not None:
        # An application gives all flags one context; each experiment takes what it declares.
        features = {name: context[name] for name in schema.features if name in context}
        visit = msgspec.structs.replace(visit, context=features)
    try:
        made = decide(work, visit)
    except NotRunning:
        return Flag(visit.name, "DISABLED")
    metadata: dict[str, Value] = {"decision": made.decision}
    if made.probability is not None:
        metadata["probability"] = made.probability
    if made.leaf is not None:
        metadata["leaf"] = made.leaf
    value = _values(tuple(experiment.arms))[experiment.index_of[made.arm]]
    return Flag(visit.name, "SPLIT", made.arm, value, metadata)


@lru_cache(256)
def _values(arms: tuple[str, ...]) -> Sequence[Value]:
    """Return what arms stand for: if all are true or false, or all numbers, then these."""
    try:
        values = [msgspec.json.decode(arm, type=bool | int | float) for arm in arms]
    except msgspec.MsgspecError:
        return arms
    truths = [isinstance(value, bool) for value in values]
    if any(truths):
        return values if all(truths) else arms
    # Numbers of one type: providers refuse another than that which the application asks for.
    return values if all(isinstance(value, int) for value in values) else [*map(float, values)]


as_batch(
    Evaluate,
    lambda session, asked: [_target(asked.name, asked.context, _Origin.of(asked.context), {})],
    lambda asked, outcomes: outcomes[0],
)


def _names(asked: EvaluateAll) -> list[str]:
    names = [*dict.fromkeys(_Origin.of(asked.context).experiments)]
    if not names:
        raise InvalidParameter(
            "a bulk evaluation decides for the experiments that its context names, as in "
            '"armrace": {"experiments": ["ads"]}; got none.'
        )
    return names


def _list_flags(asked: EvaluateAll, outcomes: list[Any]) -> FlagList:
    flags: list[Flag | FlagFailure] = []
    for name, each in zip(_names(asked), outcomes, strict=True):
        if isinstance(each, ArmraceError):
            sentence = getattr(each, "brief", None) or str(each)
            flags.append(FlagFailure.of(each, sentence, name))
        else:
            flags.append(each)
    return FlagList(flags)


as_batch(
    EvaluateAll,
    lambda session, asked: [
        _target(name, asked.context, _Origin.of(asked.context), _BULK_LABEL)
        for name in _names(asked)
    ],
    _list_flags,
)
