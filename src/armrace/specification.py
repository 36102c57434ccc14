"""Specifications: frozen, validated, serialisable descriptions of policies and the like.

A parameter is declared once, as an annotated field; from that declaration come the check, the
message, the help text, the reference page and the JSON form. The check runs wherever a
specification is made, from Python, from JSON and from the command line alike.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from armrace.errors import ArmraceError, InvalidParameter
from armrace.limits import Limits, check_number

MAXIMAL_HORIZON = 10**15
"""The longest run that can be asked for; round numbers have 52 bits."""


Confidence = Annotated[
    float,
    Limits("probability with which the guarantee may fail", 0, 1, low_open=True, high_open=True),
]


SubGaussian = Annotated[
    float,
    Limits(
        "sub-Gaussian parameter of honest rewards; 1/2 for any in [0, 1]", 0, 1e6, low_open=True
    ),
]


def is_list(value: Any) -> bool:
    """True for collections other than str, bytes, mappings and sets.

    >>> is_list(["ucb1"]), is_list("ucb1"), is_list({"name": "ucb1"}), is_list(5)
    (True, False, False, False)
    """
    # The order of a set of texts differs from process to process, and so would all figures.
    others = (str, bytes, Mapping, set, frozenset)
    return isinstance(value, Collection) and not isinstance(value, others)


class Parameter(msgspec.Struct, frozen=True):
    """A parameter as the catalogue shows it."""

    name: str
    type: str
    default: Any
    limits: str
    meaning: str


@cache
def declarations(owner: type[msgspec.Struct]) -> dict[str, tuple[Any, Limits | str | None]]:
    """Return for each field its bare type and what its annotation says of it."""
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


_DEFINED: WeakValueDictionary[str, type[Specification]] = WeakValueDictionary()
"""All classes of specifications by path. A class of a notebook or inside a function cannot be
imported, but the process that defined it can look it up here."""


def defined_class(path: str) -> type[Specification] | None:
    """Return the class with this path as ``module:Class``, if this process has defined it."""
    return _DEFINED.get(path)


def display_name(name: str) -> str:
    """Return what to show for a ``name`` in plain data: the tag of a class given by its path.

    >>> display_name("ucb1"), display_name("no_such_module:Mine")
    ('ucb1', 'no_such_module:Mine')
    """
    found = defined_class(name)
    return name if found is None else found.tag()


class SpecificationMeta(msgspec.StructMeta):
    """Checks the fields of a class of specifications when the class is defined."""

    def __new__(
        metaclass,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,
    ) -> SpecificationMeta:
        """Make the class, or refuse a field that hides an attribute of a base class."""
        made = super().__new__(metaclass, name, bases, namespace, **options)
        for field in made.__struct_fields__:
            for base in made.__mro__[1:]:
                if field in vars(base) and field not in getattr(base, "__struct_fields__", ()):
                    raise InvalidParameter(
                        f"{name} must not have a parameter {field!r}: {base.__name__} uses this "
                        "name itself; choose another."
                    )
        _DEFINED[made.path()] = made  # type: ignore[attr-defined, assignment]
        return made


class Specification(
    msgspec.Struct,
    metaclass=SpecificationMeta,
    frozen=True,
    tag_field="name",
    forbid_unknown_fields=True,
):
    """The base of policies, environments and adversaries: parameters and nothing else."""

    kind: ClassVar[str] = "specification"
    reference: ClassVar[str] = ""
    source_kind: ClassVar[str] = "ours"
    """Where rules and constants come from, and how sure that is: "print" if the paper itself was
    read, "restated" if another paper or a formal restatement was, "code" if the authors' or others'
    programs were, "derived" if the proof is on the theory page or follows from a formula that was
    checked, "memory" if nothing could be read, "ours" if it comes from no paper."""
    source_note: ClassVar[str] = ""
    """What rules and constants were compared with, in a sentence for the reference."""
    family: ClassVar[str] = ""
    """The group under which the catalogue lists the class."""
    families: ClassVar[tuple[str, ...]] = ()
    """The groups in the order in which the catalogue lists them."""
    catalogue: ClassVar[Any] = None
    """The :class:`armrace.catalogue.Catalogue` of this kind, once there is one."""

    def __post_init__(self) -> None:
        for name, (hint, note) in declarations(type(self)).items():
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
        """Return the name under which the catalogue lists it."""
        return str(cls.__struct_config__.tag)

    @classmethod
    def path(cls) -> str:
        """Return where the class is defined, as ``module:Class``."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    def identifier(cls) -> str:
        """Return the name by which any process finds the class: its tag, or else its path."""
        known = cls.catalogue is None or cls.catalogue.is_permanent(cls)
        return cls.tag() if known else cls.path()

    @classmethod
    def summary(cls) -> str:
        """Return the first sentence of its documentation."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Return its parameters, as declared."""
        declared = declarations(cls)
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
        """Return it as plain data for JSON; a class outside the catalogue is named by its path."""
        written = msgspec.json.encode(self, enc_hook=encode_special)
        data: dict[str, Any] = msgspec.json.decode(written)
        _write_identifiers(self, data)
        return data

    @classmethod
    def from_parameters(cls, values: Mapping[str, Any]) -> Self:
        """Make one from parameters by name; text is read as the parameter's type.

        Args:
            values: the parameters by name.
        """
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
        """Turn a refusal by msgspec into an error of this package."""
        if isinstance(error.__cause__, ArmraceError):
            return error.__cause__
        # msgspec names the field in its message only, so that it is read from there.
        missing = re.search("missing required field `(.*?)`", str(error))
        if missing:
            return InvalidParameter(f"{cls.tag()} needs the parameter {missing[1]!r}.")
        place = re.search(r"at `\$\.(\w+)", str(error))
        if place:
            kind = _kind_in_words(declarations(cls)[place[1]][0])
            return InvalidParameter(f"{place[1]} must be {kind}; got {values[place[1]]!r:.100}.")
        return InvalidParameter(f"{cls.tag()}: {error}.")


def _write_identifiers(value: Any, data: Any) -> None:
    """Replace the tags in ``data``, which msgspec wrote for ``value``, by identifiers."""
    if isinstance(value, Specification):
        data["name"] = value.identifier()
        for field in value.__struct_fields__:
            _write_identifiers(getattr(value, field), data[field])
    elif isinstance(value, (tuple, list)):
        for item, written in zip(value, data, strict=True):
            if isinstance(item, (Specification, tuple, list)):
                _write_identifiers(item, written)


def with_nested(value: Any) -> Iterator[Specification]:
    """Yield a specification and all those within it, in its fields and in lists of them."""
    if isinstance(value, Specification):
        yield value
        for field in value.__struct_fields__:
            yield from with_nested(getattr(value, field))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from with_nested(item)


def is_importable(specification: Specification) -> bool:
    """Whether another process can import the classes of a specification and of those within it.

    It cannot import what a script, a notebook or a function itself defines.
    """
    kinds = (type(each) for each in with_nested(specification))
    return all(k.__module__ != "__main__" and "<locals>" not in k.__qualname__ for k in kinds)


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(map(str, typing.get_args(hint)))
    return getattr(hint, "__name__", str(hint)) if not typing.get_args(hint) else str(hint)


def _kind_in_words(hint: Any) -> str:
    """Return what a parameter of this type must be, for a message."""
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
            if not {"shape", "float64"} <= value.keys():
                raise ValueError("an array is written as its shape and its float64")
            numbers = np.frombuffer(msgspec.convert(value["float64"], bytes), dtype="<f8")
            return numbers.reshape(value["shape"]).astype(np.float64)
        return np.asarray(value, dtype=np.float64)
    raise NotImplementedError(f"cannot read a {kind}")
