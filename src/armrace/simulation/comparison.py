"""Many policies that met the same rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from armrace.simulation.results import Result
from armrace.statistics import mean_interval

__all__ = ["Comparison"]


class Comparison:
    """Results of several policies on the same rewards under the same attack."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = dict(zip(_labels(results), results, strict=True))

    def table(self, measure: str = "regret") -> pl.DataFrame:
        """One figure of the ledger: its mean with a 95% interval and its quantiles, best first."""
        rows = []
        for label, result in self.results.items():
            low, high = mean_interval(result.sample(measure))
            figure = result.figure(measure)._asdict()
            rows.append({"policy": label, "low": low, "high": high, **figure})
        columns = ["policy", "mean", "low", "high", "stderr", "p05", "p50", "p95", "max"]
        return pl.DataFrame(rows).select(columns).sort("mean")

    def to_builtins(self) -> list[dict[str, Any]]:
        """Each result as plain data, ready for JSON."""
        return [{"policy": label, **result.to_builtins()} for label, result in self.results.items()]

    def curves(self) -> pl.DataFrame:
        """The curves of all policies, with the policy's label in front."""
        return pl.concat(
            result.curves.select(pl.lit(label).alias("policy"), pl.all())
            for label, result in self.results.items()
        )

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.results)}>"


def _labels(results: Sequence[Result]) -> list[str]:
    """The policies' names, with their parameters where a name occurs twice."""
    names = Counter(result.policy for result in results)
    labels = []
    for result in results:
        label = result.policy
        if names[label] > 1:
            parameters = {k: v for k, v in result.spec["policy"].items() if k != "name"}
            label += " (" + ", ".join(f"{k}={v}" for k, v in parameters.items()) + ")"
        labels.append(label)
    return labels
