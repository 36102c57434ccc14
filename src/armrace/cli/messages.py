"""Messages that carry rewards and verdicts, and the TOML file that says what their columns mean."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from armrace.errors import InvalidParameter
from armrace.files import read_toml
from armrace.offline.identifiers import longest_of, selector_of
from armrace_client.calls import RewardItem, check_reward

LARGEST = 2**20
"""The most bytes that a message may have."""
_SCORED = ("decision", "unit")
"""What a suspicion can name."""


class _Kind(msgspec.Struct, tag_field="do", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Messages of one kind: those whose columns have certain values, by default all."""

    when: dict[str, str | int | float | bool] = {}


class Reward(_Kind, tag="reward", frozen=True, kw_only=True):
    """The columns of a reward; ``value`` may also be one number for all."""

    decision: str
    value: str | float
    source: str | None = None
    suspicion: str | None = None
    labels: dict[str, str] = {}


class _Ruling(_Kind, frozen=True, kw_only=True):
    """The columns of a verdict, and what its names are of."""

    by: str
    name: str
    reason: str | None = None
    experiment: str | None = None


class Void(_Ruling, tag="void", frozen=True, kw_only=True):
    """Visits are taken back."""


class Retract(_Ruling, tag="retract", frozen=True, kw_only=True):
    """Rewards are taken back."""


class Hold(_Ruling, tag="hold", frozen=True, kw_only=True):
    """Rewards are held."""


class Release(_Ruling, tag="release", frozen=True, kw_only=True):
    """Visits and rewards count again."""


class Suspect(_Ruling, tag="suspect", frozen=True, kw_only=True):
    """A score comes after its decision."""

    score: str


class Verdict(NamedTuple):
    """What a message says of one name."""

    do: str
    experiment: str
    by: str
    name: str
    reason: str
    score: float = 0.0


class Mapping(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the columns of messages mean, and the stream of NATS that they come from, if any."""

    messages: list[Reward | Void | Retract | Hold | Release | Suspect]
    experiment: str | None = None
    stream: str | None = None
    subject: str = ">"
    durable: str = "armrace"

    @classmethod
    def load(cls, path: Path) -> Mapping:
        """Read a mapping from a TOML file."""
        try:
            found = msgspec.convert(read_toml(path), cls)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"{path}: {str(error).replace('$.', '')}.") from None
        for number, each in enumerate(found.messages, 1):
            if isinstance(each, Reward):
                continue
            selector_of(each.by)
            if isinstance(each, Suspect) and each.by not in _SCORED:
                raise InvalidParameter(
                    f"by of scores must be {' or '.join(_SCORED)}; got {each.by!r:.100}."
                )
            if not (each.experiment or found.experiment):
                raise InvalidParameter(
                    f"{path}: the {each.by}s of messages {number} need an experiment."
                )
        return found

    def read(self, content: bytes) -> RewardItem | Verdict | None:
        """Return what a message asks for; nothing if it is of no kind that is declared.

        Raises:
            InvalidParameter: the message cannot be used.
        """
        if len(content) > LARGEST:
            raise InvalidParameter(f"the message has more than {LARGEST:,} bytes")
        try:
            message = msgspec.json.decode(content)
        except (ValueError, RecursionError):  # what is not UTF-8 is a ValueError too
            message = None
        if not isinstance(message, dict):
            raise InvalidParameter("the message is not a JSON object")
        for kind in self.messages:
            if all(_value(message, column) == value for column, value in kind.when.items()):
                return self._as(kind, message)
        return None

    def _as(self, kind: Reward | _Ruling, message: dict[str, Any]) -> RewardItem | Verdict:
        if isinstance(kind, Reward):
            value, labels = kind.value, {}
            for label, column in kind.labels.items():
                if (found := _text("label", message, column)) is not None:
                    labels[label] = found
            made = check_reward(
                _needed("decision", message, kind.decision),
                _number("value", message, value) if isinstance(value, str) else value,
                _text("source", message, kind.source),
                None if kind.suspicion is None else _score(message, kind.suspicion),
                labels or None,
            )
            return RewardItem(made.decision, made.value, made.source, made.suspicion, made.labels)
        experiment = kind.experiment or self.experiment or ""
        name, (most, unit) = _needed(kind.by, message, kind.name), longest_of(kind.by)
        if len(name.encode("utf-8", "replace") if unit == "bytes" else name) > most:
            raise InvalidParameter(f"the {kind.by} has more than {most} {unit}")
        score = _number("score", message, kind.score) if isinstance(kind, Suspect) else 0.0
        reason = _text("reason", message, kind.reason) or ""
        do = str(type(kind).__struct_config__.tag)
        return Verdict(do, experiment, kind.by, name, reason, score)


def _value(message: dict[str, Any], column: str) -> Any:
    """Return the value of a column; ``a.b`` is also that of ``b`` within ``a``."""
    found: Any = message
    if column in message:
        return message[column]
    for name in column.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _text(role: str, message: dict[str, Any], column: str | None) -> str | None:
    """Return a text, or a whole number as one; nothing if it is missing."""
    value = None if column is None else _value(message, column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not (value is None or isinstance(value, str)):
        raise InvalidParameter(f"the {role} is neither text nor a whole number")
    return (value or "").strip() or None


def _needed(role: str, message: dict[str, Any], column: str) -> str:
    found = _text(role, message, column)
    if found is None:
        raise InvalidParameter(f"the {role} is missing")
    return found


def _number(role: str, message: dict[str, Any], column: str) -> float:
    value = _value(message, column)
    if value is None:
        raise InvalidParameter(f"the {role} is missing")
    with suppress(TypeError, ValueError, OverflowError):
        return float(value)
    raise InvalidParameter(f"the {role} is not a number")


def _score(message: dict[str, Any], column: str) -> float | None:
    """Return how suspicious a reward is; nothing if it was not scored."""
    missing = _value(message, column) in (None, "")
    return None if missing else _number("suspicion", message, column)
