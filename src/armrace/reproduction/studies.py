"""What a reproduction is made of: papers, their studies, what they state, and what came out.

A study is a figure, a table or a claim of a paper, written as data: the experiments, the quantity
that is drawn, and statements that the figures may bear out or not. One runner plays all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.simulation import make_experiment
from armrace.statistics import mean_interval

Floats = npt.NDArray[np.float64]
Rows = list[dict[str, Any]]


class Form(NamedTuple):
    """How a reproduction is run."""

    quick: bool
    seed: int

    def of(self, quick: Any, full: Any) -> Any:
        """Return the one or the other, by the form."""
        return quick if self.quick else full


class Point(NamedTuple):
    """An experiment of a study: a point of a line, or all of it if the line runs over rounds."""

    line: str
    experiment: Any
    """One of the simulator's, or what has ``replications`` and a ``run`` that gives ``rows``."""
    at: float | None = None
    """The place on the horizontal axis; ``None`` for a line over the rounds."""


def point(line: str, at: float | None = None, **experiment: Any) -> Point:
    """Make a point of the arguments of :func:`armrace.simulate`; without a budget, it is 0."""
    return Point(line, make_experiment(**{"budget": 0.0, **experiment}), at)


class Found:
    """What the runs of a study gave: for each point a sample at the horizon, one number a run."""

    def __init__(
        self,
        samples: Mapping[tuple[str, float | None], Floats],
        curves: Mapping[str, Sequence[tuple[float, float]]],
    ) -> None:
        self.samples = samples
        self.curves = curves

    def mean(self, line: str, at: float | None = None) -> float:
        """The mean of a point."""
        return float(self.samples[line, at].mean())

    def share(self, line: str, limit: float, at: float | None = None) -> float:
        """The share of the runs above a limit."""
        return float((self.samples[line, at] > limit).mean())

    def growth(self, line: str) -> float:
        """How many times the mean at a tenth of the rounds the mean at their end is."""
        curve = self.curves[line]
        last = curve[-1][0]
        early = min(curve, key=lambda known: abs(known[0] - last / 10))
        return curve[-1][1] / early[1]

    def line(self, line: str) -> list[tuple[float, float]]:
        """The points of a line and their means, from left to right."""
        return sorted((at or 0.0, float(s.mean())) for (name, at), s in self.samples.items()
                      if name == line)  # fmt: skip


class Statement(NamedTuple):
    """Something that a paper says, and how the figures decide whether it is so here."""

    said: str
    check: Callable[[Found], tuple[bool, str]]
    """Whether it is so, and the numbers that show it."""
    why: str = ""
    """Why it is not so here, where it is not."""


Reader = Callable[[Sequence[Point], Sequence[Any]], Rows]


@dataclass(frozen=True)
class Study:
    """A figure, table or claim of a paper."""

    name: str
    title: str
    source: str
    """Which figure, theorem or section of the paper it is."""
    published: str
    """What the paper shows there."""
    points: Callable[[Form], Sequence[Point]]
    """The experiments; those of the same line and place are one sample."""
    across: str
    """What the horizontal axis is; ``rows`` for a row a line, with the quantity across."""
    label: str
    """What the vertical axis is."""
    statements: tuple[Statement, ...]
    value: pl.Expr | None = None
    """The quantity of a row of the ledger; the pseudo-regret unless given."""
    formulas: Callable[[Form], Mapping[str, Sequence[tuple[float, float]]]] = lambda form: {}
    """Lines that are computed, such as bounds."""
    setting: str = ""
    """How the settings differ from those that were published."""
    scale: Literal["log", "linear"] = "log"
    """Of the vertical axis."""
    read: Reader | None = None
    """Takes from the results what is drawn, where it is no quantity of the ledger."""
    value_of: Callable[[str], pl.Expr] | None = None
    """The quantity, where it differs from line to line."""

    def rows(self, points: Sequence[Point], results: Sequence[Any], form: Form) -> Rows:
        """Return what is drawn: a row for each line and place, with a mean and its interval."""
        if self.read is not None:
            return self.read(points, results)
        rows: Rows = []
        for (line, at), values in self._values(points, results).items():
            for at_round, own in values.group_by("round", maintain_order=True):
                if at is None or at_round[0] == values["round"].max():
                    sample = own["value"].to_numpy()
                    low, high = mean_interval(sample)
                    x = float(at_round[0]) if at is None else at
                    rows.append(plain_row(line, x, float(sample.mean()), low, high, sample.size))
        computed = self.formulas(form).items()
        return rows + [plain_row(name, x, y) for name, known in computed for x, y in known]

    def found(self, points: Sequence[Point], results: Sequence[Any]) -> Found:
        """Return the samples at the horizon."""
        known = self._values(points, results)
        return Found(
            {
                key: values.filter(pl.col("round") == pl.col("round").max())["value"].to_numpy()
                for key, values in known.items()
            },
            {
                line: list(values.group_by("round").mean().sort("round").iter_rows())
                for (line, at), values in known.items()
                if at is None
            },
        )

    def _values(
        self, points: Sequence[Point], results: Sequence[Any]
    ) -> dict[tuple[str, float | None], pl.DataFrame]:
        found: dict[tuple[str, float | None], list[pl.DataFrame]] = {}
        for each, result in zip(points, results, strict=True):
            value = self._quantity(each.line)
            rows = result.rows.select("round", value.cast(pl.Float64).alias("value"))
            found.setdefault((each.line, each.at), []).append(rows)
        return {
            key: pl.concat(parts).sort("round", maintain_order=True) for key, parts in found.items()
        }

    def _quantity(self, line: str) -> pl.Expr:
        if self.value_of is not None:
            return self.value_of(line)
        return pl.col("pseudo_regret") if self.value is None else self.value


def plain_row(
    line: str, x: float, mean: float, low: Any = None, high: Any = None, runs: int = 0
) -> dict[str, Any]:
    """Return a point that is drawn; one that is computed rests on no runs."""
    return {"line": line, "x": x, "mean": mean, "low": low, "high": high, "runs": runs}


class Item(NamedTuple):
    """A definition, algorithm, lemma, theorem or extension of a paper, and where it is here."""

    name: str
    place: str
    """The section of the paper."""
    said: str
    code: tuple[str, ...]
    """What it is in the library, as ``module:name``."""
    claims: tuple[tuple[str, str], ...] = ()
    """Claims that ``armrace verify`` tries: the words of the claim, and the policy."""
    errata: tuple[int, ...] = ()
    """Numbers in the table of errata."""
    study: str = ""
    """The study that shows it."""


@dataclass(frozen=True)
class Paper:
    """A published paper, and what of it is run again here."""

    name: str
    reference: str
    sources: str
    """What was read to learn the settings, and what could not be."""
    studies: tuple[Study, ...]
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    """What else a reader of the paper must know, such as mistakes in its program."""


class Finding(msgspec.Struct, frozen=True):
    """Whether a statement is so here."""

    said: str
    agrees: bool
    shown: str
    why: str = ""


class Reproduced(msgspec.Struct, frozen=True):
    """A study that was run: what is drawn, and what follows."""

    study: str
    rows: Rows
    findings: tuple[Finding, ...]
    seconds: float
    runs: int
    """Replications of all experiments together."""

    @property
    def frame(self) -> pl.DataFrame:
        """What is drawn, as a table."""
        kinds = {"line": pl.String, **dict.fromkeys(("x", "mean", "low", "high"), pl.Float64)}
        return pl.DataFrame(self.rows, schema={**kinds, "runs": pl.Int64})
