"""Messages that carry rewards and verdicts, and the TOML file that says what their columns mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from armrace.errors import InvalidParameter
from armrace.files import read_toml
from armrace.offline.identifiers import selector_of
from armrace_client.calls import RewardItem
from armrace_client.operations import Label, Reward

LARGEST = 2**20
"""The most bytes that a message may have."""
_COLUMNS = {"reward": ("decision", "value"), "suspect": ("by", "name", "score")}
"""What must be given, of what is not a verdict."""


class MessageVerdict(msgspec.Struct, frozen=True):
    """What a message says of one name."""

    do: str
    experiment: str
    by: str
    name: Label
    reason: str = ""
    score: float | None = None


class Kind(msgspec.Struct, forbid_unknown_fields=True):
    """Messages of one kind, those with the values ``when``, and which columns have what."""

    do: Literal["reward", "void", "retract", "hold", "release", "suspect"]
    when: dict[str, str | int | float | bool] = {}
    decision: str | None = None
    value: str | float | None = None
    """A column, or one number for all."""
    source: str | None = None
    suspicion: str | None = None
    labels: dict[str, str] = {}
    metrics: dict[str, str] = {}
    part: str | None = None
    experiment: str | None = None
    by: str | None = None
    """What names are of; not a column."""
    name: str | None = None
    reason: str | None = None
    score: str | None = None

    def __post_init__(self) -> None:
        for needed in _COLUMNS.get(self.do, ("by", "name")):
            if getattr(self, needed) is None:
                raise ValueError(f"{self.do} needs {needed}")
        if self.by is not None:
            selector_of(self.by)
            if self.do == "suspect" and self.by not in ("decision", "unit"):
                raise ValueError(f"scores are by decision or unit; got {self.by!r:.100}")

    def read(self, message: dict[str, Any], experiment: str | None) -> RewardItem | MessageVerdict:
        """Return what a message says."""
        if self.do != "reward":
            found = _values(message, name=self.name, reason=self.reason, score=self.score)
            found |= {"do": self.do, "by": self.by, "experiment": self.experiment or experiment}
            if self.do == "suspect" and "score" not in found:
                raise ValueError("Object missing required field `score`")
            return msgspec.convert(found, MessageVerdict, strict=False)
        roles = ("decision", "source", "suspicion", "part")
        columns = {role: getattr(self, role) for role in roles}
        found = {"value": self.value, "labels": _values(message, **self.labels) or None}
        found["metrics"] = _values(message, **self.metrics) or None
        if isinstance(self.value, str):
            columns["value"] = str(found.pop("value"))
        made = msgspec.convert(found | _values(message, **columns), Reward, strict=False)
        return RewardItem(*msgspec.structs.astuple(made))


class Mapping(msgspec.Struct, forbid_unknown_fields=True):
    """What the columns of messages mean, and the stream of NATS that they come from, if any."""

    messages: list[Kind]
    experiment: str | None = None
    stream: str | None = None
    subject: str = ">"
    durable: str = "armrace"

    def __post_init__(self) -> None:
        for each in self.messages:
            if each.do != "reward" and not (each.experiment or self.experiment):
                raise ValueError(f"{each.do} needs an experiment")

    @classmethod
    def load(cls, path: Path) -> Mapping:
        """Read a mapping from a TOML file."""
        try:
            return msgspec.convert(read_toml(path), cls)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"{path}: {_plain(error)}.") from None

    def read(self, content: bytes) -> RewardItem | MessageVerdict | None:
        """Return what a message asks for; nothing if it is of no kind that is declared.

        Raises:
            InvalidParameter: the message cannot be used.
        """
        if len(content) > LARGEST:
            raise InvalidParameter(f"the message has more than {LARGEST:,} bytes")
        try:
            message = msgspec.json.decode(content, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise InvalidParameter("the message is not a JSON object") from None
        for kind in self.messages:
            if all(_value(message, column) == value for column, value in kind.when.items()):
                try:
                    return kind.read(message, self.experiment)
                except (
                    msgspec.ValidationError,
                    ValueError,
                ) as error:  # perhaps an integer of thousands of digits
                    raise InvalidParameter(_plain(error)) from None
        return None


def _plain(error: Exception) -> str:
    """Return what is wrong, and in which member."""
    return str(error).replace("$.", "").rstrip(".")


def _value(message: dict[str, Any], column: str) -> Any:
    """Return the value of a column; ``a.b`` is also that of ``b`` within ``a``."""
    found: Any = message
    if column in message:
        return message[column]
    for name in column.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _values(message: dict[str, Any], **columns: str | None) -> dict[str, Any]:
    """Return the values that there are, whole numbers as text as identifiers are."""
    found = {role: _value(message, column) for role, column in columns.items() if column}
    found = {r: v.strip() if isinstance(v, str) else v for r, v in found.items()}
    found = {r: str(v) if type(v) is int else v for r, v in found.items()}
    return {role: value for role, value in found.items() if value not in (None, "")}
