"""What a visitor looks like to a policy: declared features, and the numbers that stand for them.

A :class:`Schema` declares features and leaves when an experiment is created. Nothing about it is
learned: a mean or a variance of past contexts could be moved by whoever sends forged visits, and
a retraction would have to move it back.

:meth:`Schema.encode` turns the features of a visit into a :class:`Code`, two bytes a feature and
the number of a leaf. A log keeps the code alone; :meth:`Schema.vector` is a pure function of it,
the same on every machine.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import math
import struct
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.errors import (
    ArmraceError,
    BadFeature,
    InvalidParameter,
    MissingFeature,
    UnknownFeature,
    UnknownName,
)
from armrace.kernels.generics import ContextShape

MOST_FEATURES = 64
MOST_COORDINATES = 128
MOST_LEAVES = 256
LONGEST_TEXT = 200
GRID = 4096
"""A number is rounded to a multiple of 1/4096 of half its range."""
LARGEST_END = 1e15
"""The farthest end of a number's range from 0."""
LEAST_ROUNDS = 50
"""A leaf needs as many rounds for each arm before its own policy earns what it costs."""
MISSING = -32768
"""The code of a feature that was not given, where that is allowed."""

Value = str | bool | int | float | None


class Code(NamedTuple):
    """A context as the log keeps it."""

    features: bytes
    """A little-endian 16-bit number for each feature, in the order of the schema."""
    leaf: int


class Number(msgspec.Struct, frozen=True, tag="number", forbid_unknown_fields=True):
    """A number; what lies outside its range counts as the nearest end."""

    low: float
    high: float

    def check(self, name: str) -> None:
        """Refuse a range that is empty or beyond what a float can scale."""
        if not -LARGEST_END <= self.low < self.high <= LARGEST_END:
            raise InvalidParameter(
                f"the feature {name!r} must have a low below its high, both within "
                f"{LARGEST_END:g}; got {self.low:g} and {self.high:g}."
            )

    def encode(self, name: str, value: Value, key: bytes) -> int:
        """Place the number on the grid between its ends."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadFeature(f"the feature {name!r} must be a number; got {value!r:.100}.")
        # Clipped before it is scaled, so that nothing overflows.
        clipped = min(max(_finite(name, value), self.low), self.high)
        place = (2.0 * clipped - self.low - self.high) / (self.high - self.low)
        return round(GRID * min(max(place, -1.0), 1.0))


class Boolean(msgspec.Struct, frozen=True, tag="boolean", forbid_unknown_fields=True):
    """True or false."""

    def check(self, name: str) -> None:
        """Every declaration is fine."""

    def encode(self, name: str, value: Value, key: bytes) -> int:
        """An end of the grid for each of the two values."""
        if not isinstance(value, bool):
            raise BadFeature(f"the feature {name!r} must be true or false; got {value!r:.100}.")
        return GRID if value else -GRID


class Category(
    msgspec.Struct, frozen=True, tag="category", forbid_unknown_fields=True, omit_defaults=True
):
    """One of a few texts, with any other as one more; or any text, by the bucket it falls into.

    Which bucket a text falls into depends on the secret key of the experiment, so that nobody
    outside can choose texts that share one.
    """

    values: tuple[str, ...] = ()
    buckets: int = 0

    def check(self, name: str) -> None:
        """Refuse values and buckets together, repeated values, and too many."""
        if bool(self.values) == bool(self.buckets):
            raise InvalidParameter(f"the feature {name!r} must have either values or buckets.")
        if len(set(self.values)) < len(self.values):
            raise InvalidParameter(f"the values of the feature {name!r} must differ.")
        if self.buckets and not 2 <= self.buckets <= MOST_COORDINATES:
            raise InvalidParameter(
                f"the buckets of the feature {name!r} must be in [2, {MOST_COORDINATES}]; "
                f"got {self.buckets}."
            )

    def names(self, missing: bool) -> list[str]:
        """The values that are told apart; to be missing is one of them, or counts as other."""
        if self.buckets:
            return [f"#{place}" for place in range(self.buckets)] + ["missing"] * missing
        return [*self.values, "other"]

    def encode(self, name: str, value: Value, key: bytes) -> int:
        """The position of the value or the number of its bucket."""
        if not isinstance(value, str):
            raise BadFeature(f"the feature {name!r} must be a text; got {value!r:.100}.")
        if len(value) > LONGEST_TEXT:
            raise BadFeature(
                f"the feature {name!r} must have at most {LONGEST_TEXT} characters; "
                f"got {len(value)}."
            )
        if not self.buckets:
            return self.values.index(value) if value in self.values else len(self.values)
        text = f"{name}\x1f{value}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, key=key, digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets


Feature = Number | Boolean | Category


def _finite(name: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadFeature(f"the feature {name!r} must be a finite number; got {value!r:.40}.")
    return number


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features of an experiment's contexts, in order, and the leaves that they fall into.

    >>> schema = Schema.declare(
    ...     {
    ...         "age": {"type": "number", "low": 18, "high": 80},
    ...         "member": {"type": "boolean"},
    ...         "device": {"type": "category", "values": ["ios", "android"]},
    ...     },
    ...     leaves={"device": True, "age": [30, 50]},
    ... )
    >>> code = schema.encode({"age": 49, "member": True, "device": "web"})
    >>> schema.vector(code.features), code.leaf
    (array([0.5, 0. , 0.5, 0. , 0. , 0.5]), 7)
    """

    features: dict[str, Feature]
    leaves: dict[str, bool | tuple[float, ...]] = {}
    missing: Literal["refuse", "bucket"] = "refuse"

    @classmethod
    def declare(
        cls,
        features: Mapping[str, Any],
        leaves: Mapping[str, Any] | None = None,
        missing: str = "refuse",
    ) -> Schema:
        """Make a schema of plain data, and refuse what cannot be encoded.

        Args:
            features: the features by name: ``{"type": "number", "low": ..., "high": ...}``,
                ``{"type": "boolean"}`` or ``{"type": "category"}`` with ``values`` or ``buckets``.
            leaves: the features that tell leaves apart: ``True`` for a category or a boolean, cut
                points in increasing order for a number.
            missing: whether a context that lacks a feature is refused (``refuse``) or being
                without it counts as a value (``bucket``).
        """
        given = {"features": features, "leaves": leaves or {}, "missing": missing}
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, ArmraceError):
                raise error.__cause__ from None
            raise InvalidParameter(f"the schema cannot be read: {error}.") from None

    def __post_init__(self) -> None:
        _require_at_most("features", len(self.features), MOST_FEATURES)
        for name, feature in self.features.items():
            if not 0 < len(name) <= LONGEST_TEXT:
                raise InvalidParameter(
                    f"the name of a feature must have 1 to {LONGEST_TEXT} characters; "
                    f"got {len(name)}."
                )
            feature.check(name)
        for name, cuts in self.leaves.items():
            self._check_leaves(name, cuts)
        _require_at_most("coordinates of its vectors", self.shape.dimension, MOST_COORDINATES)
        _require_at_most("leaves", self.shape.leaves, MOST_LEAVES)

    def _check_leaves(self, name: str, cuts: bool | tuple[float, ...]) -> None:
        feature = self.features.get(name)
        if feature is None:
            raise UnknownFeature(f"leaves name the feature {name!r}, which is not declared.")
        if not isinstance(feature, Number):
            if cuts is not True:
                raise InvalidParameter(f"leaves must say true for the feature {name!r}.")
            return
        if isinstance(cuts, bool) or not cuts or not all(map(math.isfinite, cuts)):
            raise InvalidParameter(f"leaves must list finite cut points for the number {name!r}.")
        if any(one >= other for one, other in itertools.pairwise(cuts)):
            raise InvalidParameter(f"the cut points of the number {name!r} must increase.")

    @property
    def shape(self) -> ContextShape:
        """The size of vectors and the number of leaves."""
        width = 1 + sum(self._width(feature) for feature in self.features.values())
        return ContextShape(width, math.prod(self._branches(name) for name in self.leaves))

    @property
    def _may_lack(self) -> bool:
        return self.missing == "bucket"

    def _width(self, feature: Feature) -> int:
        if isinstance(feature, Category):
            return len(feature.names(self._may_lack))
        return 2 if self._may_lack else 1

    def _branches(self, name: str) -> int:
        """How many values of a feature leaves tell apart; to be missing is one of them."""
        feature, cuts = self.features[name], self.leaves[name]
        if isinstance(feature, Category):
            return self._width(feature)
        known = 1 + len(cuts) if isinstance(cuts, tuple) else 2
        return known + self._may_lack

    def encode(self, context: Mapping[str, Value], key: bytes = b"") -> Code:
        """Encode the features of a visit.

        Args:
            context: the value of each feature; ``None`` is as good as none.
            key: the secret key of the experiment, by which texts fall into buckets.
        """
        for name in context:
            if name not in self.features:
                known = ", ".join(self.features) or "none"
                raise UnknownFeature(f"there is no feature {name!r:.200}; there are {known}.")
        parts = {name: self.encode_value(name, context.get(name), key) for name in self.features}
        leaf = self.leaf({name: part[1] for name, part in parts.items()})
        return Code(struct.pack(f"<{len(parts)}h", *(code for code, _ in parts.values())), leaf)

    def encode_value(self, name: str, value: Value, key: bytes = b"") -> tuple[int, int]:
        """Encode one feature: its code, and the branch that it takes on the way to a leaf.

        Args:
            name: the name of the feature.
            value: its value; ``None`` if it is missing.
            key: the secret key of the experiment.
        """
        if value is not None:
            code = self.features[name].encode(name, value, key)
        elif self.missing == "refuse":
            raise MissingFeature(f"the context lacks the feature {name!r}.")
        else:
            code = MISSING
        return code, self._branch(name, value, code) if name in self.leaves else 0

    def leaf(self, branches: Mapping[str, Any]) -> Any:
        """The number of the leaf, or an array of them, at the end of branches.

        Args:
            branches: the branch of each feature that tells leaves apart, or an array of them.
        """
        leaf = 0
        for name in self.leaves:
            leaf = leaf * self._branches(name) + branches[name]
        return leaf

    def _branch(self, name: str, value: Value, code: int) -> int:
        """The part of a leaf that one feature decides."""
        feature, cuts = self.features[name], self.leaves[name]
        if code == MISSING:
            # The last branch: of a category, that of all values that are not listed.
            return self._branches(name) - 1
        if isinstance(feature, Category):
            return code
        if isinstance(cuts, tuple):
            # The number as it was given: the grid is coarser than a cut point may be.
            return bisect.bisect_right(cuts, float(value))  # type: ignore[arg-type]
        return int(code == GRID)

    def vector(self, features: bytes) -> npt.NDArray[np.float64]:
        """The vector of a code: a 1 and the coordinates of all features, of length at most 1.

        Args:
            features: the features of a :class:`Code`.
        """
        (vector,) = self.vectors(np.frombuffer(features, dtype="<i2")[np.newaxis])
        return np.asarray(vector)

    def vectors(self, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
        """The vectors of many codes, one row each.

        Args:
            codes: the features of each code as numbers, one row a code.
        """
        widths = [self._width(feature) for feature in self.features.values()]
        found = np.zeros((len(codes), 1 + sum(widths)))
        found[:, 0] = 1.0
        place = 1
        for feature, width, column in zip(self.features.values(), widths, codes.T, strict=True):
            missing = column == MISSING
            if isinstance(feature, Category):
                chosen = np.where(missing, width - 1, column)
                found[np.arange(len(codes)), place + chosen] = 1.0
            else:
                found[:, place] = np.where(missing, 0.0, column / GRID)
                if self._may_lack:
                    found[:, place + 1] = missing
            place += width
        # Every feature adds at most 1 to the squared length, and so does the constant.
        scaled: npt.NDArray[np.float64] = found / math.sqrt(1.0 + len(self.features))
        return scaled

    def coordinate_names(self) -> list[str]:
        """What each coordinate of a vector stands for, such as ``device=ios``."""
        names = ["1"]
        for name, feature in self.features.items():
            if isinstance(feature, Category):
                names += [f"{name}={value}" for value in feature.names(self._may_lack)]
            else:
                names += [name] + ([f"{name} missing"] if self._may_lack else [])
        return names

    def leaf_names(self) -> list[str]:
        """What each leaf stands for, such as ``device=ios, 30 <= age < 50``."""
        names = [""]
        for name in self.leaves:
            branches = self._branch_names(name)
            names = [f"{one}, {other}" if one else other for one in names for other in branches]
        return [name or "all" for name in names]

    def _branch_names(self, name: str) -> list[str]:
        feature, cuts = self.features[name], self.leaves[name]
        if isinstance(feature, Category):
            return [f"{name}={value}" for value in feature.names(self._may_lack)]
        if isinstance(cuts, tuple):
            middle = [f"{a:g} <= {name} < {b:g}" for a, b in itertools.pairwise(cuts)]
            known = [f"{name} < {cuts[0]:g}", *middle, f"{name} >= {cuts[-1]:g}"]
        else:
            known = [f"{name}=no", f"{name}=yes"]
        return known + ([f"{name} missing"] if self._may_lack else [])


def _require_at_most(what: str, given: int, most: int) -> None:
    if given > most:
        raise InvalidParameter(f"a schema may have at most {most} {what}; got {given}.")


def read_schema(given: Schema | Mapping[str, Any] | Path | str | None) -> Schema | None:
    """Read a schema: plain data of one, or a file of JSON or TOML; ``None`` for none.

    Args:
        given: the schema, ``{"features": ..., "leaves": ..., "missing": ...}``, or the file of it.
    """
    if given is None or isinstance(given, Schema):
        return given
    if isinstance(given, (str, Path)):
        given = _read_file(Path(given))
    elif not isinstance(given, Mapping):
        raise InvalidParameter(f"schema must be a file or plain data; got {type(given).__name__}.")
    for name in given:
        if name not in Schema.__struct_fields__:
            raise UnknownName.among("part of a schema", str(name), Schema.__struct_fields__)
    return Schema.declare(**{"features": {}, **given})


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path} is neither JSON nor TOML: {error}.") from None
    return dict(found)
