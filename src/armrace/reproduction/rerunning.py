"""Running a saved result or comparison again, and comparing the ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from armrace.errors import InvalidParameter
from armrace.loading import load
from armrace.simulation import Comparison, Experiment, Result, make_experiment
from armrace.simulation.simulate import run_experiments

_IGNORED = ("name",)


class Rerun(NamedTuple):
    """A result of an archive, and the first place where it differs from a run of today."""

    label: str
    runs: int
    difference: str
    """Where they differ; empty if all figures are equal."""

    @property
    def equal(self) -> bool:
        """Whether every figure of the ledger is the same."""
        return not self.difference


def read_archive(path: str | Path) -> tuple[list[str], list[Result], list[Experiment]]:
    """Read an archive or a single result, and make its experiments, without running anything.

    A file may come from anyone: it may name policies, attacks and environments of the library
    only, since a class of its own would be imported.
    """
    found = load(path)
    compared = found if isinstance(found, Comparison) else Comparison([found])
    for result in compared.results.values():
        _refuse_own_classes(result.spec)
    experiments = [make_experiment(**_arguments(r)) for r in compared.results.values()]
    return list(compared.results), list(compared.results.values()), experiments


def _refuse_own_classes(data: Any) -> None:
    """Refuse a specification, or one inside it, that is named by the path of its class."""
    if isinstance(data, dict):
        name = data.get("name")
        if isinstance(name, str) and ":" in name:
            raise InvalidParameter(
                f"the file names a class of its own, {name!r:.80}, which would be imported; run "
                "its specification in Python if you trust it."
            )
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            _refuse_own_classes(each)


def _arguments(result: Result) -> dict[str, Any]:
    return {**{k: v for k, v in result.spec.items() if k not in _IGNORED},
            "replications": result.replications}  # fmt: skip


def rerun(
    labels: Sequence[str],
    results: Sequence[Result],
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    workers: int | None = None,
) -> list[Rerun]:
    """Run the experiments of an archive again, and compare each ledger, figure by figure."""
    again = [run_experiments([each], executor, workers)[0] for each in experiments]
    return [
        Rerun(label, result.replications, first_difference(result.rows, new.rows))
        for label, result, new in zip(labels, results, again, strict=True)
    ]


def first_difference(then: pl.DataFrame, now: pl.DataFrame) -> str:
    """Return the first place where two ledgers differ, in words; empty if they are equal."""
    if then.columns != now.columns or then.height != now.height:
        return f"{then.height} rows of {then.width} columns, now {now.height} of {now.width}"
    for name in then.columns:
        if not then[name].equals(now[name]):
            pairs = zip(then[name].to_list(), now[name].to_list(), strict=True)
            row, (one, other) = next(
                (n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]
            )
            place = then.row(row, named=True)
            return (
                f"{name} in replication {place['replication']} after {place['round']:,} rounds: "
                f"{one}, now {other}"
            )
    return ""
