"""Specifications: frozen, validated, serialisable descriptions of policies and the like.

A parameter is declared once, as an annotated field; from that declaration come the check, the
message, the help text, the reference page and the JSON form. The check runs wherever a
specification is made, from Python, from JSON and from the command line alike.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
import numpy as np

from armrace.errors import ArmraceError, InvalidParameter, UnknownName
from armrace.limits import Limits, check_number

__all__ = [
    "MAXIMAL_HORIZON",
    "Catalogue",
    "Confidence",
    "Limits",
    "Parameter",
    "Specification",
    "check_number",
    "is_list",
]

MAXIMAL_HORIZON = 10**15
"""The longest run that can be asked for; round numbers have 52 bits."""


Confidence = Annotated[
    float,
    Limits("probability with which the guarantee may fail", 0, 1, low_open=True, high_open=True),
]


def is_list(value: Any) -> bool:
    """Whether it has members, other than a text, which has letters, or one thing by itself.

    >>> is_list(["ucb1"]), is_list("ucb1"), is_list({"name": "ucb1"}), is_list(5)
    (True, False, False, False)
    """
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


class Parameter(msgspec.Struct, frozen=True):
    """A parameter as the catalogue shows it."""

    name: str
    type: str
    default: Any
    limits: str
    meaning: str


@cache
def _declarations(owner: type[msgspec.Struct]) -> dict[str, tuple[Any, Limits | str | None]]:
    """For each field its bare type and what its annotation says of it."""
    found: dict[str, tuple[Any, Limits | str | None]] = {}
    hints = typing.get_type_hints(owner, include_extras=True)
    for field in msgspec.structs.fields(owner):
        hint = hints[field.name]
        if typing.get_origin(hint) is Annotated:
            bare, *notes = typing.get_args(hint)
            note = next((n for n in notes if isinstance(n, (Limits, str))), None)
            found[field.name] = bare, note
        else:
            found[field.name] = hint, None
    return found


class Specification(msgspec.Struct, frozen=True, tag_field="name", forbid_unknown_fields=True):
    """The base of policies, environments and adversaries: parameters and nothing else."""

    kind: ClassVar[str] = "specification"
    reference: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, (hint, note) in _declarations(type(self)).items():
            value = getattr(self, name)
            if typing.get_origin(hint) is typing.Literal:
                self._check_choice(name, value, typing.get_args(hint))
            elif hint is bool and not isinstance(value, (bool, np.bool_)):
                raise InvalidParameter(f"{name} must be true or false; got {value!r}.")
            elif isinstance(note, Limits):
                self._check_limits(name, value, hint, note)
        self.validate()

    def validate(self) -> None:
        """Check what concerns several parameters at once."""

    @staticmethod
    def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
        if value not in choices:
            listed = ", ".join(map(str, choices))
            raise InvalidParameter(f"{name} must be one of {listed}; got {value!r}.")

    @staticmethod
    def _check_limits(name: str, value: Any, hint: Any, limits: Limits) -> None:
        kinds = typing.get_args(hint) or (hint,)
        if value is None and type(None) in kinds:
            return
        if typing.get_origin(hint) is tuple and isinstance(value, (int, float, np.number)):
            raise InvalidParameter(f"{name} must be a list of numbers; got {value!r}.")
        if isinstance(value, (tuple, list, np.ndarray)):
            for item in value:
                check_number(f"each of {name}", item, limits)
        else:
            check_number(name, value, limits, whole=int in kinds and float not in kinds)

    @classmethod
    def tag(cls) -> str:
        """The name under which the catalogue lists it."""
        return str(cls.__struct_config__.tag)

    @classmethod
    def summary(cls) -> str:
        """The first sentence of its documentation."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Its parameters, as declared."""
        declared = _declarations(cls)
        shown = []
        for field in msgspec.structs.fields(cls):
            hint, note = declared[field.name]
            shown.append(
                Parameter(
                    name=field.name,
                    type=_type_name(hint),
                    default="required" if field.required else field.default,
                    limits=str(note) if isinstance(note, Limits) else "",
                    meaning=note.meaning if isinstance(note, Limits) else (note or ""),
                )
            )
        return shown

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        written = msgspec.json.encode(self, enc_hook=encode_special)
        data: dict[str, Any] = msgspec.json.decode(written)
        return data

    @classmethod
    def from_parameters(cls, values: Mapping[str, Any]) -> Self:
        """Make one from parameters by name; text is read as the parameter's type."""
        for name in values:
            if name not in cls.__struct_fields__:
                known = ", ".join(cls.__struct_fields__) or "none"
                raise InvalidParameter(
                    f"{cls.tag()} has no parameter {name!r}; its parameters are {known}."
                )
        try:
            plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
            return msgspec.convert(plain, cls, strict=False, dec_hook=decode_special)
        except msgspec.ValidationError as error:
            raise cls._refusal(error, values) from None

    @classmethod
    def _refusal(cls, error: msgspec.ValidationError, values: Mapping[str, Any]) -> ArmraceError:
        """What msgspec refuses, in our words."""
        if isinstance(error.__cause__, ArmraceError):
            return error.__cause__
        missing = re.search("missing required field `(.*?)`", str(error))
        if missing:
            return InvalidParameter(f"{cls.tag()} needs the parameter {missing[1]!r}.")
        place = re.search(r"at `\$\.(\w+)", str(error))
        if place:
            kind = _kind_in_words(_declarations(cls)[place[1]][0])
            return InvalidParameter(f"{place[1]} must be {kind}; got {values[place[1]]!r}.")
        return InvalidParameter(f"{cls.tag()}: {error}.")


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(map(str, typing.get_args(hint)))
    return getattr(hint, "__name__", str(hint)) if not typing.get_args(hint) else str(hint)


def _kind_in_words(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(hint)))}"
    if typing.get_origin(hint) is tuple:
        return "a list of numbers"
    kinds = typing.get_args(hint) or (hint,)
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
    return next((words[kind] for kind in kinds if kind in words), f"of the type {_type_name(hint)}")


def encode_special(value: Any) -> Any:
    """Write a number of NumPy's as such, an array as its shape and its numbers in base64."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        numbers = np.ascontiguousarray(value, dtype="<f8")
        return {"shape": list(numbers.shape), "float64": msgspec.to_builtins(numbers.tobytes())}
    raise NotImplementedError(f"cannot write a {type(value).__name__}")


def decode_special(kind: type, value: Any) -> Any:
    """Read an array back, or take one as it is."""
    if kind is np.ndarray or typing.get_origin(kind) is np.ndarray:
        if isinstance(value, dict):
            numbers = np.frombuffer(msgspec.convert(value["float64"], bytes), dtype="<f8")
            return numbers.reshape(value["shape"]).astype(np.float64)
        return np.asarray(value, dtype=np.float64)
    raise NotImplementedError(f"cannot read a {kind}")


S = TypeVar("S", bound=Specification)


class Catalogue(dict[str, type[S]]):
    """Specifications of one kind by name."""

    def __init__(self, kind: str, members: Iterable[type[S]]) -> None:
        super().__init__({member.tag(): member for member in members})
        self.kind = kind

    def find(self, name: str) -> type[S]:
        """The member of this name, or an error that suggests the nearest."""
        if name not in self:
            raise UnknownName.among(self.kind, name, self)
        return self[name]

    def make(self, description: S | str | Mapping[str, Any]) -> S:
        """A specification from itself, from a name, or from plain data with a ``name``."""
        if isinstance(description, Specification) and description.kind == self.kind:
            return description
        if isinstance(description, str):
            return self.find(description).from_parameters({})
        if not isinstance(description, Mapping):
            raise InvalidParameter(
                f"{self.kind} must be a name, a specification or plain data with a name; "
                f"got {description!r}."
            )
        values = dict(description)
        return self.find(str(values.pop("name", ""))).from_parameters(values)
