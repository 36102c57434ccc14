"""Checks of what a result file contains, which do not trust its writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.policies import ArmView
from armrace.simulation.experiment import MAXIMAL_REPLICATIONS, checkpoints_for
from armrace.simulation.results import FIGURES_OF_A_RUN
from armrace.specification import MAXIMAL_HORIZON

_MOST_LAYERS = 1000
"""Layers that a view may have: far more than any policy has."""
_ARM_COLUMNS = {"pulls": pl.Int64, "arm_corruption": pl.Float64}


class _Part(msgspec.Struct):
    """A policy, an environment or an attack; only its name matters here."""

    name: str


class _Spec(msgspec.Struct):
    """The fields that every specification has, even if its classes are unknown here."""

    policy: _Part
    environment: _Part
    adversary: _Part
    budget: Annotated[float, msgspec.Meta(ge=0)]
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MAXIMAL_HORIZON)]
    replications: Annotated[int, msgspec.Meta(ge=1, le=MAXIMAL_REPLICATIONS)]
    seed: Annotated[int, msgspec.Meta(ge=0)]


def most_rows(spec: Mapping[str, Any]) -> int:
    """Return how many rows a whole result of this specification has."""
    read = msgspec.convert(spec, _Spec)
    return read.replications * checkpoints_for(read.horizon).size


def row_bytes(schema: pl.Schema) -> int:
    """Return the bytes of a row, or raise a ValueError if these are not a result's columns."""
    _check_schema(schema)
    numbers = (kind.shape[0] if isinstance(kind, pl.Array) else 1 for kind in schema.values())
    return 8 * sum(numbers)


def check_contents(
    spec: Mapping[str, Any],
    rows: pl.DataFrame,
    audits: int,
    means: npt.NDArray[np.float64],
    views: Sequence[ArmView],
) -> None:
    """Raise a ValueError unless all contents fit the specification and each other."""
    read = msgspec.convert(spec, _Spec)
    arms = _check_schema(rows.schema)
    _require(means.size == arms, "means")
    _require(bool(np.isfinite(means).all()), "means")
    _require(rows.height > 0, "rows")
    _check_numbers(rows)
    _check_rounds(rows, read)
    _check_plays(rows)
    for view in views:
        _check_view(view, arms)
    replications = rows["replication"].n_unique()
    _require(audits in {0, replications}, "audits")


def _check_schema(schema: pl.Schema) -> int:
    """Check names and types of all columns, and return the number of arms."""
    whole = ("replication", "round", "refused", "leapt")
    plain: dict[str, Any] = dict.fromkeys(whole, pl.Int64)
    plain |= dict.fromkeys(FIGURES_OF_A_RUN, pl.Float64)
    _require(set(schema) == {*plain, *_ARM_COLUMNS, "layer_corruption"}, "columns")
    for name, kind in plain.items():
        _require(schema[name] == kind, name)
    arms = _width(schema["pulls"], pl.Int64)
    _require(arms >= 2, "pulls")
    _require(_width(schema["arm_corruption"], pl.Float64) == arms, "arm_corruption")
    _require(_width(schema["layer_corruption"], pl.Float64) >= 0, "layer_corruption")
    return arms


def _width(kind: pl.DataType, inner: Any) -> int:
    if not isinstance(kind, pl.Array) or kind.inner != inner or len(kind.shape) != 1:
        raise ValueError(f"{kind} is not an array of {inner}")
    return kind.shape[0]


def _check_numbers(rows: pl.DataFrame) -> None:
    """Check that numbers are finite and present; only ``leapt`` may be missing."""
    for name in rows.columns:
        column = rows[name]
        _require(name == "leapt" or column.null_count() == 0, name)
        if isinstance(column.dtype, pl.Array):
            column = column.explode()
            _require(column.null_count() == 0, name)
        if column.dtype == pl.Float64:
            _require(bool(column.is_finite().all()), name)


def _check_rounds(rows: pl.DataFrame, spec: _Spec) -> None:
    """Check that every replication has the same checkpoints, each once, and ends at the horizon."""
    numbers = rows["replication"]
    _require(bool(((numbers >= 0) & (numbers < spec.replications)).all()), "replication")
    rounds = rows["round"].unique().sort().to_list()
    _require(rounds[-1] == spec.horizon, "round")
    _require(set(rounds) <= set(checkpoints_for(spec.horizon).tolist()), "round")
    _require(rows.height == len(rounds) * numbers.n_unique(), "rows")
    _require(rows.select("replication", "round").is_unique().all(), "rows")


def _check_plays(rows: pl.DataFrame) -> None:
    """Check that the plays of all arms add up to the rounds, and that no count is negative."""
    plays = np.asarray(rows["pulls"].to_list(), dtype=np.int64)
    rounds = rows["round"].to_numpy()
    _require(bool(((plays >= 0) & (plays <= rounds[:, None])).all()), "pulls")
    _require(bool((plays.sum(axis=1) == rounds).all()), "pulls")
    for name in ("refused", "leapt"):
        _require(bool((rows[name].fill_null(0) >= 0).all()), name)


def _check_view(view: ArmView, arms: int) -> None:
    """Check that a view names an arm and a layer, and that a table can hold its counts."""
    _require(0 <= view.arm < arms, "view")
    _require(0 <= view.layer < _MOST_LAYERS, "view")
    counts = (view.assigned, view.pulls, view.evidence, view.eliminated_at, view.eliminated_by)
    _require(all(-1 <= count <= MAXIMAL_HORIZON for count in counts if count is not None), "view")


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} cannot be those of a result")
