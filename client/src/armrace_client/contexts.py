"""How the features of a visitor are encoded: by the service, and by whoever draws under a lease.

A schema is declared when an experiment is created. Nothing about it is learned: a mean or a
variance of past contexts could be moved by whoever sends forged visits, and a retraction would
have to move it back.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import msgspec

from armrace_client.errors import (
    ArmraceError,
    BadFeature,
    InvalidParameter,
    MissingFeature,
    UnknownFeature,
)

MOST_FEATURES = 64
MOST_COORDINATES = 128
MOST_LEAVES = 256
LONGEST_TEXT = 200
GRID = 4096
"""A number is rounded to a multiple of 1/4096 of half its range."""
LARGEST_END = 1e15
"""The farthest end of a number's range from 0."""
MISSING = -32768
"""The code of a feature that was not given, where that is allowed."""
ABSENT = -32767
"""The code of a feature that an arm does not have by itself: decisions must give it."""

Value = str | bool | int | float | None


class Code(NamedTuple):
    """A context as the log keeps it."""

    features: bytes
    """A little-endian 16-bit number for each feature, in the order of the schema."""
    leaf: int


def code_from(numbers: Sequence[int], leaf: int) -> Code:
    """The code of a visitor.

    Args:
        numbers: the number of each feature, in the order of the schema.
        leaf: the number of the leaf.
    """
    return Code(struct.pack(f"<{len(numbers)}h", *numbers), leaf)


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
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadFeature(
                f"the feature {name!r} must be valid Unicode; got {value!r}."
            ) from None
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


class ContextSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The features of an experiment's contexts, in order, and the leaves that they fall into."""

    features: dict[str, Feature]
    leaves: dict[str, bool | tuple[float, ...]] = {}
    missing: Literal["refuse", "bucket"] = "refuse"
    arm_features: dict[str, Feature] = {}
    """What is known about each arm, such as its price; all arms then share one model."""
    cross: tuple[tuple[str, str], ...] = ()
    """Pairs of a visitor's and an arm's feature whose products the model sees as well."""

    @classmethod
    def declare(
        cls,
        features: Mapping[str, Any],
        leaves: Mapping[str, Any] | None = None,
        missing: str = "refuse",
        arm_features: Mapping[str, Any] | None = None,
        cross: Sequence[Sequence[str]] = (),
    ) -> Self:
        """Make a schema of plain data, and refuse what cannot be encoded.

        Args:
            features: the features by name: ``{"type": "number", "low": ..., "high": ...}``,
                ``{"type": "boolean"}`` or ``{"type": "category"}`` with ``values`` or ``buckets``.
            leaves: the features that tell leaves apart: ``True`` for a category or a boolean, cut
                points in increasing order for a number.
            missing: whether a context that lacks a feature is refused (``refuse``) or being
                without it counts as a value (``bucket``).
            arm_features: the features of arms by name, declared as those of visitors.
            cross: pairs of a visitor's and an arm's feature that matter together.
        """
        given: dict[str, Any] = {"features": features, "leaves": leaves or {}, "missing": missing}
        given |= {"arm_features": arm_features or {}, "cross": [*cross]}
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, ArmraceError):
                raise error.__cause__ from None
            raise InvalidParameter(f"the schema cannot be read: {error}.") from None

    def __post_init__(self) -> None:
        _require_at_most("features", len(self.features) + len(self.arm_features), MOST_FEATURES)
        if both := self.features.keys() & self.arm_features.keys():
            raise InvalidParameter(
                f"features of arms and of visitors must have other names; got {min(both)!r} twice."
            )
        for name, feature in (*self.features.items(), *self.arm_features.items()):
            if not 0 < len(name) <= LONGEST_TEXT:
                raise InvalidParameter(
                    f"the name of a feature must have 1 to {LONGEST_TEXT} characters; "
                    f"got {len(name)}."
                )
            feature.check(name)
        for name, cuts in self.leaves.items():
            self._check_leaves(name, cuts)
        for one, other in self.cross:
            if one not in self.features or other not in self.arm_features:
                raise UnknownFeature(
                    "cross must name a feature of visitors and one of arms; "
                    f"got {one!r} and {other!r}."
                )
        if len(set(self.cross)) < len(self.cross):
            raise InvalidParameter("the pairs of cross must differ.")
        _require_at_most("coordinates of its vectors", self.dimension, MOST_COORDINATES)
        _require_at_most("leaves", self.leaf_count, MOST_LEAVES)

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
    def dimension(self) -> int:
        """The number of coordinates of a vector, or of an arm's, the constant included."""
        declared = self.features | self.arm_features
        width = {name: self._width(feature) for name, feature in declared.items()}
        return 1 + sum(width.values()) + sum(width[one] * width[other] for one, other in self.cross)

    @property
    def scale(self) -> float:
        """What coordinates are divided by, so that no vector is longer than 1.

        Every feature and every product adds at most 1 to the squared length, and so does the
        constant.
        """
        return math.sqrt(1.0 + len(self.features) + len(self.arm_features) + len(self.cross))

    @property
    def leaf_count(self) -> int:
        """The number of leaves; 1 if no feature tells leaves apart."""
        return math.prod(self._branches(name) for name in self.leaves)

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

    def needs_key(self) -> bool:
        """Whether leaves depend on the secret key of the experiment."""
        return any(getattr(self.features[name], "buckets", 0) for name in self.leaves)

    def encode(self, context: Mapping[str, Value], key: bytes = b"") -> Code:
        """Encode the features of a visit.

        Args:
            context: the value of each feature; ``None`` is as good as none.
            key: the secret key of the experiment, by which texts fall into buckets.
        """
        _refuse_unknown(context, self.features)
        parts = {name: self.encode_value(name, context.get(name), key) for name in self.features}
        leaf = self.leaf({name: part[1] for name, part in parts.items()})
        return code_from([code for code, _ in parts.values()], leaf)

    def encode_arm(
        self, values: Mapping[str, Value], key: bytes = b"", before: bytes = b""
    ) -> bytes:
        """Encode the features of an arm; those that are not given are as before, or absent.

        Args:
            values: the value of each feature; ``None`` is as good as none.
            key: the secret key of the experiment.
            before: the code of the arm without these values, if it has one.
        """
        _refuse_unknown(values, self.arm_features)
        count = len(self.arm_features)
        codes = struct.unpack(f"<{count}h", before) if before else (ABSENT,) * count
        found = (
            code if values.get(name) is None else feature.encode(name, values[name], key)
            for (name, feature), code in zip(self.arm_features.items(), codes, strict=True)
        )
        return struct.pack(f"<{count}h", *found)

    def require_arm(self, arm: str, code: bytes) -> None:
        """Refuse an arm that lacks a feature, where that is not a value.

        Args:
            arm: the name of the arm.
            code: the code of its features.
        """
        codes = struct.unpack(f"<{len(self.arm_features)}h", code)
        if self.missing == "refuse" and ABSENT in codes:
            name = [*self.arm_features][codes.index(ABSENT)]
            raise MissingFeature(f"the arm {arm!r:.100} lacks the feature {name!r}.")

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

    def numbers(self, features: bytes) -> dict[str, int]:
        """The number of each feature of a visitor's code.

        Args:
            features: the features of a :class:`Code`; what it says of arms is left out.
        """
        codes = struct.unpack_from(f"<{len(self.features)}h", features)
        return dict(zip(self.features, codes, strict=True))

    def code_of(self, numbers: Mapping[str, int], leaf: str) -> Code:
        """The code of numbers that an export shows; refuse what no visitor has.

        Args:
            numbers: the number of each feature.
            leaf: the name of the leaf, which the numbers do not determine.
        """
        _refuse_unknown(numbers, self.features)
        for name, feature in self.features.items():
            if getattr(feature, "buckets", 0):
                raise InvalidParameter(
                    f"the feature {name!r} falls into buckets by a key that stays with its "
                    "experiment; leave it out of the schema."
                )
            if numbers.get(name) is None:
                raise MissingFeature(f"the visit lacks the feature {name!r}.")
            number, missing = numbers[name], self._may_lack and numbers[name] == MISSING
            if isinstance(feature, Number):
                fits = -GRID <= number <= GRID
            elif isinstance(feature, Boolean):
                fits = number in (-GRID, GRID)
            else:
                fits = 0 <= number <= len(feature.values)
            if not (fits or missing):
                raise BadFeature(f"the feature {name!r} cannot have the code {number}.")
        leaves = self.leaf_names()
        if leaf not in leaves:
            raise BadFeature(f"no visitor is in the leaf {leaf!r:.200}.")
        return code_from([numbers[name] for name in self.features], leaves.index(leaf))

    def coordinate_names(self) -> list[str]:
        """What each coordinate of a vector stands for, such as ``device=ios``."""
        names = {}
        for name, feature in (self.features | self.arm_features).items():
            if isinstance(feature, Category):
                names[name] = [f"{name}={value}" for value in feature.names(self._may_lack)]
            else:
                names[name] = [name] + ([f"{name} missing"] if self._may_lack else [])
        pairs = (itertools.product(names[one], names[other]) for one, other in self.cross)
        products = [f"{one} x {other}" for pair in pairs for one, other in pair]
        return ["1", *itertools.chain(*names.values()), *products]

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


def _refuse_unknown(given: Mapping[str, Value], declared: Mapping[str, Feature]) -> None:
    for name in given:
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise UnknownFeature(f"there is no feature {name!r:.200}; there are {known}.")


def _require_at_most(what: str, given: int, most: int) -> None:
    if given > most:
        raise InvalidParameter(f"a schema may have at most {most} {what}; got {given}.")
