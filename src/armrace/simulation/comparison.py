"""Results of several policies on the same rewards, compared pair by pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.errors import InvalidParameter, UnknownName
from armrace.files import as_path
from armrace.formatting import listed, number_repeats
from armrace.simulation.results import MEASURES, Reported, Result
from armrace.statistics import differences_to, indistinguishable_from, mean_interval


class Comparison(Reported):
    """Results of several policies on the same rewards under the same attack.

    Args:
        results: one result per policy. ``Comparison.results`` holds them by the policy's name,
            with its parameters where a name occurs twice.
        measure: the measure of the ledger by which policies are ranked by default; see
            :data:`armrace.simulation.results.MEASURES`.
    """

    def __init__(self, results: Sequence[Result], measure: str = "pseudo_regret") -> None:
        if measure not in MEASURES:
            raise UnknownName.among("measure", measure, MEASURES)
        if not results:
            raise InvalidParameter("results must have at least one result; got none.")
        self.results = dict(zip(_labels(results), results, strict=True))
        self.measure = measure

    @property
    def spec(self) -> dict[str, Any]:
        """The arguments of :func:`armrace.compare` that run it again, as plain data.

        Raises:
            InvalidParameter: policies met different attacks or settings, as each its own worst.
        """
        results = list(self.results.values())
        shared, *others = (
            {k: v for k, v in each.spec.items() if k not in {"name", "policy"}} for each in results
        )
        if any(other != shared for other in others):
            raise InvalidParameter(
                "no single call of armrace.compare makes this comparison, since its policies met "
                "different attacks or settings; each of its results has its own spec."
            )
        return {"policies": [result.spec["policy"] for result in results], **shared}

    def table(self, measure: str | None = None) -> pl.DataFrame:
        """Return one row per policy for a measure: mean, 95% interval and quantiles, best first.

        ``rank`` is by the mean and ``rank_p95`` by the 95th percentile; equals share the better.

        Args:
            measure: the measure; by default that of the comparison, :attr:`measure`.
        """
        measure = measure or self.measure
        rows = []
        for label, result in self.results.items():
            low, high = mean_interval(result.sample(measure))
            figure = result.figure(measure)._asdict()
            rows.append({"policy": label, "low": low, "high": high, **figure})
        columns = ["policy", "mean", "low", "high", "stderr", "p05", "p50", "p95", "max"]
        return (
            pl.DataFrame(rows)
            .select(
                *columns,
                rank=pl.col("mean").rank("min").cast(pl.Int64),
                rank_p95=pl.col("p95").rank("min").cast(pl.Int64),
            )
            .sort("mean", "policy")
        )

    def best(self, measure: str | None = None) -> str:
        """Return the policy with the smallest mean of a measure, chosen as for :meth:`table`."""
        return str(self.table(measure)["policy"][0])

    def differences(self, measure: str | None = None) -> pl.DataFrame:
        """Return how much each policy exceeds the best, with joint 95% intervals.

        The measure is chosen as for :meth:`table`.
        """
        measure = measure or self.measure
        found = differences_to(self.best(measure), self._samples(measure))
        rows = [{"policy": name, **difference._asdict()} for name, difference in found.items()]
        schema = {"policy": pl.String, "mean": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        return pl.DataFrame(rows, schema=schema).sort("mean")

    def tied(self, measure: str | None = None) -> list[str]:
        """Return the policies that cannot be told apart from the best (5% level, jointly).

        The measure is chosen as for :meth:`table`.
        """
        measure = measure or self.measure
        best = self.best(measure)
        if self.results[best].replications < 2:
            return []
        return indistinguishable_from(best, self._samples(measure))

    def verdict(self, measure: str | None = None) -> str:
        """Say which policy has the least mean, and which ones cannot be told apart from it.

        The measure is chosen as for :meth:`table`.
        """
        measure = measure or self.measure
        best = self.best(measure)
        replications = self.results[best].replications
        if replications < 2:
            return f"{best} has the least {_words(measure)} in the one replication that was run."
        tied = self.tied(measure)
        if tied:
            return (
                f"{best} has the least mean {_words(measure)}; {listed(tied)} cannot be told "
                f"apart from it by these {replications} replications (5% level, jointly)."
            )
        return (
            f"{best} has the least mean {_words(measure)}, significantly less than every other "
            f"policy here (5% level, jointly, {replications} replications{self._common()})."
        )

    def _common(self) -> str:
        """Return a phrase that says that all policies met the same rewards, if no policy leaps."""
        leapt = any(result.engine == "leap" for result in self.results.values())
        return "" if leapt else " on the same rewards"

    def _samples(self, measure: str) -> dict[str, npt.NDArray[np.float64]]:
        return {label: result.sample(measure) for label, result in self.results.items()}

    def to_builtins(self) -> list[dict[str, Any]]:
        """Return each result as plain data, ready for JSON."""
        return [{"policy": label, **result.to_builtins()} for label, result in self.results.items()]

    def curves(self) -> pl.DataFrame:
        """Return the curves of all policies, with the policy's label as first column."""
        return pl.concat(
            result.curves.select(pl.lit(label).alias("policy"), pl.all())
            for label, result in self.results.items()
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write all results to one ZIP archive of Parquet files, whole or not at all.

        :func:`armrace.load` reads it back. A file that exists is replaced with ``overwrite`` only.

        Args:
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        from armrace.simulation.storage import save_comparison  # archives reads comparisons

        save_comparison(self, as_path(path), overwrite=overwrite)

    def _compared(self) -> Comparison:
        return self

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.results)}>"


def _words(measure: str) -> str:
    return measure.replace("_", "-")


def _labels(results: Sequence[Result]) -> list[str]:
    """Return the policies' names, with their parameters where a name occurs twice."""
    names = Counter(result.policy for result in results)
    labels: list[str] = []
    for result in results:
        label = result.policy
        if names[label] > 1:
            parameters = {k: v for k, v in result.spec["policy"].items() if k != "name"}
            label += " (" + ", ".join(f"{k}={v}" for k, v in parameters.items()) + ")"
        labels.append(label)
    return number_repeats(labels)
