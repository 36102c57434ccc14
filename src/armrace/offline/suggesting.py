"""A schema for the visitors of a log: kinds of features, their ranges, and leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from armrace.contexts import (
    LARGEST_END,
    LONGEST_TEXT,
    MOST_COORDINATES,
    MOST_FEATURES,
    Boolean,
    Category,
    Feature,
    Number,
    Schema,
    plain_schema,
)
from armrace.errors import InvalidParameter
from armrace.limits import check_number
from armrace.offline.log import open_log
from armrace.offline.readers import EVERY, FEATURE, Columns, make_columns, pieces_of
from armrace.offline.rows import are_missing, is_structured, read_names, read_numbers
from armrace.offline.visitors import HORIZON, ChosenLeaves, choose_leaves

_MOST_ROWS = 1_000_000
_LEAST_SHARE = 0.01
"""A value with a smaller share of the rows is not told apart."""
_MOST_VALUES, _COVERED, _BUCKETS = 16, 0.9, 16
"""At most so many values, if they cover this share of the rows; else so many buckets."""
_DISTINCT = 0.5
"""A column with more different values than this share of its rows names each row."""


class Suggestion(NamedTuple):
    """A schema that a log suggests, and why it is as it is."""

    schema: Schema
    notes: list[str]
    """What was left out, and why; and what the leaves are worth."""
    leaves: ChosenLeaves

    def to_builtins(self) -> dict[str, Any]:
        """The schema as plain data, ready for JSON, or to create an experiment with."""
        return plain_schema(self.schema)

    def to_toml(self) -> str:
        """The schema as TOML, with the notes as comments."""
        plain = self.to_builtins()
        lines = [f"# {''.join(filter(str.isprintable, note))}" for note in self.notes]
        lines.append(f"missing_feature = {_toml(plain['missing_feature'])}")
        for table in ("context", "leaves"):
            lines += ["", f"[{table}]"]
            lines += [f"{_toml(name)} = {_toml(value)}" for name, value in plain[table].items()]
        return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    # As in JSON, except that TOML takes no pair of escapes for one character, as of an emoji.
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)


def suggest_schema(
    log: Any,
    columns: Columns | Mapping[str, str] | Path | str | None = None,
    *,
    rewards: Sequence[float] = (0.0, 1.0),
    features: Sequence[str] | None = None,
    horizon: int | None = None,
    **given: str | None,
) -> Suggestion:
    """Suggest a schema for the visitors of a log.

    Numbers range from their 1% to their 99% quantile; texts are told apart if they have a hundredth
    of the rows each and cover nearly all, and fall into buckets otherwise. Leaves are those that
    the traffic can carry and that tell visitors apart who are best shown different arms; see
    :func:`armrace.offline.visitors.choose_leaves`.

    Args:
        log: a file or a data frame, as for :func:`armrace.offline.open_log`.
        columns: which columns are read, as there.
        rewards: the smallest and the largest reward.
        features: the columns that may be features; by default all that have no role.
        horizon: the decisions that leaves must carry; by default as many as the log has rows.
        given: single columns by role.
    """
    if horizon is not None:
        check_number("horizon", horizon, HORIZON, whole=True)
    if features is not None and not features:
        raise InvalidParameter("features must name at least one column; got none.")
    chosen = make_columns(columns, **given)
    wanted = EVERY if features is None else tuple(features)
    frame = _sample(log, msgspec.structs.replace(chosen, features=wanted))
    found, notes, width = dict[str, Feature](), [], 1
    lacking = False
    for raw in frame.get_columns():
        feature = _feature_of(raw)
        size = 1 if not isinstance(feature, Category) else len(feature.names(missing=True))
        if isinstance(feature, str):
            notes.append(f"{raw.name} is left out: {feature}.")
        elif len(found) == MOST_FEATURES or width + size + 1 > MOST_COORDINATES:
            notes.append(
                f"{raw.name} is left out: a schema has at most {MOST_FEATURES} features and "
                f"{MOST_COORDINATES} coordinates; name those that matter with --features."
            )
        else:
            found[raw.name], width = feature, width + size + 1
            lacking |= bool(are_missing(raw).any())
    if not found:
        raise InvalidParameter(f"the log has no column that can be a feature. {' '.join(notes)}")
    schema = Schema(features=found, missing="bucket" if lacking else "refuse")
    opened = open_log(log, chosen, rewards=rewards, schema=schema)
    leaves = choose_leaves(opened, opened.rows if horizon is None else horizon)
    return Suggestion(leaves.schema, [*notes, *leaves.sentences()], leaves)


def _sample(log: Any, columns: Columns) -> pl.DataFrame:
    """Every n-th row of a log's features, as they are written."""
    parts: list[pl.DataFrame] = []
    stride = rows = 1
    for piece in pieces_of(log, columns):
        features = [name for name in piece.frame.columns if name.startswith(FEATURE)]
        part = piece.frame.gather_every(stride, (1 - piece.first) % stride).select(features)
        parts.append(part.rename(lambda name: name.removeprefix(FEATURE)))
        rows += part.height
        if rows > _MOST_ROWS:
            parts, stride = [pl.concat(parts, how="vertical_relaxed").gather_every(2)], 2 * stride
            rows = parts[0].height
    return pl.concat(parts, how="vertical_relaxed")


def _feature_of(raw: pl.Series) -> Feature | str:
    """Return the kind of feature that a column is, or why it is none."""
    if is_structured(raw):
        return "a list or an object"
    if raw.dtype.is_temporal():
        return "a time"
    texts = read_names(raw)
    known, different = len(texts) - texts.null_count(), texts.drop_nulls().n_unique()
    if different < 2:
        return "it has no two different values"
    numbers = read_numbers(raw).fill_nan(None)
    is_text = numbers.null_count() > texts.null_count()
    if set(texts.drop_nulls().str.to_lowercase().unique()) <= {"true", "false"} or (
        not is_text and set(numbers.drop_nulls().unique()) == {0.0, 1.0}
    ):
        return Boolean()
    names_rows = different > _DISTINCT * known
    if is_text:
        return _category(texts.drop_nulls()) if not names_rows else "nearly every row has its own"
    if names_rows and bool((numbers.drop_nulls() % 1 == 0).all()):
        return "nearly every row has its own whole number"
    return _number(numbers.drop_nulls())


def _category(texts: pl.Series) -> Feature | str:
    if (texts.str.len_chars() > LONGEST_TEXT).any():
        return f"it has texts of more than {LONGEST_TEXT} characters"
    shares = texts.value_counts(sort=True, normalize=True, name="share")
    # Of equal shares the first in the alphabet comes first, so that a log has one suggestion.
    shares = shares.sort(pl.col("share"), pl.col(texts.name), descending=[True, False])
    common = shares.filter(pl.col("share") >= _LEAST_SHARE)
    if common.height <= _MOST_VALUES and float(common["share"].sum()) >= _COVERED:
        return Category(values=tuple(common[texts.name]))
    return Category(buckets=_BUCKETS)


def _number(numbers: pl.Series) -> Feature | str:
    low, high = (float(numbers.quantile(at, "nearest") or 0.0) for at in (0.01, 0.99))
    if low == high:  # nearly all are equal: the others must not be clipped to the same
        low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    low, high = float(f"{low:.6g}"), float(f"{high:.6g}")
    if not -LARGEST_END <= low < high <= LARGEST_END:
        return f"its range, {low:g} to {high:g}, is too large or too narrow"
    return Number(low, high)
