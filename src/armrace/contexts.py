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
import math
import tomllib
from collections.abc import Mapping
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
        return ContextShape(self.dimension, self.leaf_count)

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
