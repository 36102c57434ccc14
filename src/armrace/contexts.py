"""What a visitor looks like to a policy: declared features, and the numbers that stand for them.

A :class:`Schema` declares features and leaves when an experiment is created. Nothing about it is
learned: a mean or a variance of past contexts could be moved by whoever sends forged visits, and
a retraction would have to move it back.

:meth:`Schema.encode` turns the features of a visit into a :class:`Code`, two bytes a feature and
the number of a leaf. A log keeps the code alone; :meth:`Schema.vector` is a pure function of it,
the same on every machine.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.errors import (
    BadFeature,
    InvalidParameter,
    MissingFeature,
    UnknownFeature,
    UnknownName,
)
from armrace.kernels.generics import ContextShape
from armrace_client.contexts import (
    ABSENT,
    GRID,
    LARGEST_END,
    LONGEST_TEXT,
    MISSING,
    MOST_COORDINATES,
    MOST_FEATURES,
    MOST_LEAVES,
    Boolean,
    Category,
    Code,
    ContextSchema,
    Feature,
    Number,
)

__all__ = [
    "GRID",
    "LARGEST_END",
    "LEAST_ROUNDS",
    "LONGEST_TEXT",
    "MISSING",
    "MOST_COORDINATES",
    "MOST_FEATURES",
    "MOST_LEAVES",
    "BadFeature",
    "Boolean",
    "Category",
    "Code",
    "Feature",
    "MissingFeature",
    "Number",
    "Schema",
    "UnknownFeature",
    "plain_schema",
    "read_schema",
]

LEAST_ROUNDS = 50
"""A leaf needs as many rounds for each arm before its own policy earns what it costs."""


class Schema(ContextSchema, frozen=True, forbid_unknown_fields=True):
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

    @property
    def shape(self) -> ContextShape:
        """The size of vectors and the number of leaves."""
        return ContextShape(self.dimension, self.leaf_count, bool(self.arm_features))

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
        blocks = self._coordinates(self.features, codes)
        found: npt.NDArray[np.float64] = np.hstack([np.ones((len(codes), 1)), *blocks.values()])
        return found / self.scale

    def vector_of_arms(self, features: bytes, arms: Sequence[bytes]) -> npt.NDArray[np.float64]:
        """The vectors of all arms for a visitor, one after the other.

        Each has a 1, the visitor's coordinates, the arm's, and the products of ``cross``.

        Args:
            features: the code of the visitor's features.
            arms: the code of each arm's.
        """
        codes = np.frombuffer(b"".join(arms), dtype="<i2").reshape(len(arms), -1)
        visitor = np.frombuffer(features, dtype="<i2")[np.newaxis].repeat(len(arms), axis=0)
        blocks = self._coordinates(self.features, visitor)
        blocks |= self._coordinates(self.arm_features, codes)
        products = [
            (blocks[one][:, :, np.newaxis] * blocks[other][:, np.newaxis]).reshape(len(arms), -1)
            for one, other in self.cross
        ]
        found = np.hstack([np.ones((len(arms), 1)), *blocks.values(), *products])
        return (found / self.scale).ravel()

    def _coordinates(
        self, declared: Mapping[str, Feature], codes: npt.NDArray[np.int16]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """The coordinates of each feature, one row a code; all are exact."""
        blocks = {}
        for (name, feature), column in zip(declared.items(), codes.T, strict=True):
            block = blocks[name] = np.zeros((len(codes), self._width(feature)))
            missing = column <= ABSENT
            if isinstance(feature, Category):
                chosen = np.where(missing, block.shape[1] - 1, column)
                block[np.arange(len(codes)), chosen] = 1.0
            else:
                block[:, 0] = np.where(missing, 0.0, column / GRID)
                if self._may_lack:
                    block[:, 1] = missing
        return blocks


_PARTS = {"context": "features", "leaves": "leaves", "missing_feature": "missing"}
"""The parts of a schema in files, where they are called as the service calls them."""


def plain_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema as plain data, with which experiments of the service can be created.

    Args:
        schema: the schema.
    """
    return {name: msgspec.to_builtins(getattr(schema, part)) for name, part in _PARTS.items()}


def read_schema(given: Schema | Mapping[str, Any] | Path | str | None) -> Schema | None:
    """Read a schema: plain data of one, or a file of JSON or TOML; ``None`` for none.

    Args:
        given: the schema, ``{"context": ..., "leaves": ..., "missing_feature": ...}`` as for a new
            experiment of the service, or the file of it.
    """
    if given is None or isinstance(given, Schema):
        return given
    if isinstance(given, (str, Path)):
        given = _read_file(Path(given))
    elif not isinstance(given, Mapping):
        raise InvalidParameter(f"schema must be a file or plain data; got {type(given).__name__}.")
    for name in given:
        if name not in _PARTS:
            raise UnknownName.among("part of a schema", str(name), _PARTS)
    if not given.get("context"):
        raise InvalidParameter("a schema must declare at least one feature, in its context.")
    return Schema.declare(**{_PARTS[name]: part for name, part in given.items()})


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path} is neither JSON nor TOML: {error}.") from None
    return dict(found)
