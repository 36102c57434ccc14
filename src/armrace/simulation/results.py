"""The outcome of a simulation with its specification, and several compared pair by pair."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.audit import ALARMS, Audit
from armrace.environments import ENVIRONMENTS
from armrace.errors import InvalidParameter, UnknownName
from armrace.files import as_path, check_new
from armrace.formatting import listed, number_repeats
from armrace.kernels.laws import moves
from armrace.policies import ArmView
from armrace.reports import Presentation
from armrace.simulation.experiment import Experiment, checkpoints_for
from armrace.simulation.replication import Outcome
from armrace.specification import display_name
from armrace.statistics import (
    Summary,
    differences_to,
    indistinguishable_from,
    mean_interval,
    standard_error,
    summarise,
)

MEASURES = ("regret", "pseudo_regret", "clean_regret", "corruption")
"""The figures that policies can be ranked by: one number per replication and checkpoint."""

WHERE_MEANS_MOVE = ("dynamic_regret",)
"""Besides, where means move: regret to the best arm of each round."""

FIGURES_OF_A_RUN = (*MEASURES, "seen_corruption")
"""The same with the corruption of the rewards that the learner saw."""

FIGURES_OF_VISITORS = ("leaf_regret", "constant_regret", "expert_regret")
"""Besides, where visitors differ: regret to the best arm of each leaf, to the best arm, and to the
best expert of the policy."""


def check_measure(measure: str) -> None:
    """Refuse a measure by which policies cannot be ranked."""
    if measure not in (*MEASURES, *WHERE_MEANS_MOVE):
        raise UnknownName.among("measure", measure, (*MEASURES, *WHERE_MEANS_MOVE))


class Reported(Presentation):
    """A page, a plot and figures for a paper, for :class:`Result` and :class:`Comparison`."""

    @abstractmethod
    def _compared(self) -> Comparison:
        """The results as a comparison."""

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        summary: str = "",
        sweeps: Mapping[float, Comparison] | None = None,
        worst: Sequence[Comparison] = (),
        overwrite: bool = False,
    ) -> Path:
        """Write an HTML page with everything inside, the page of ``armrace compare``.

        Args:
            path: the file to write.
            title: the heading; by default the policies and the attack.
            summary: a paragraph below the heading.
            sweeps: maps other budgets to the comparison at that budget, for the plot of regret
                against corruption.
            worst: comparisons in which every policy has an attack of its own.
            overwrite: whether a file that exists is replaced; else it is refused.

        Returns:
            The file.
        """
        from armrace.reports.exports import write_report

        return write_report(
            self._compared(), path, overwrite=overwrite, title=title, summary=summary,
            sweeps=sweeps, worst=worst,
        )  # fmt: skip

    def plot(
        self,
        target: str | Path | Any = None,
        measure: str | None = None,
        *,
        overwrite: bool = False,
    ) -> Any:
        """Draw regret over time, and return the axes.

        Args:
            target: the axes of matplotlib to draw on; or a file, whose suffix chooses the
                format; or None for a new figure.
            measure: a figure of the ledger; by default the comparison's own.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        from armrace.reports.exports import plot

        return plot(self._compared(), target, measure, overwrite=overwrite)

    def to_latex(self, measure: str | None = None, label: str = "") -> str:
        """Return a table for LaTeX with the package booktabs: means, intervals, 95th percentiles.

        The policy with the least mean is bold, and so are those that cannot be told apart from it.

        Args:
            measure: a figure of the ledger; by default the comparison's own.
            label: the label of the table, if it needs one.
        """
        from armrace.reports.exports import comparison_latex

        return comparison_latex(self._compared(), measure, label)

    def methods(self) -> str:
        """Return a paragraph for LaTeX on what was run and how it is compared, with citations."""
        from armrace.reports.exports import methods

        return methods(self._compared())

    def to_bibtex(self) -> str:
        """Return BibTeX of the papers that the policies, the attack and the model are from."""
        from armrace.reports.exports import comparison_bibtex

        return comparison_bibtex(self._compared())


class AuditSummary(NamedTuple):
    """How many replications raised each alarm, and how certificates compare with the truth."""

    level: float
    replications: int
    alarmed: int
    """Replications with any alarm."""
    alarms: dict[str, int]
    """Replications with an alarm of each kind."""
    certificate: Summary
    exceeded: int
    """Replications whose certificate was larger than the true corruption."""
    first: Audit
    """The audit of the first replication."""

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON; counts of replications as shares."""
        shares = {kind: number / self.replications for kind, number in self.alarms.items()}
        return {
            "level": self.level,
            "alarms": {"any": self.alarmed / self.replications, **shares},
            "certificate": self.certificate._asdict(),
            "exceeded": self.exceeded / self.replications,
            "first": self.first.to_builtins(),
        }


def summarise_audits(audits: Sequence[Audit], corruption: npt.NDArray[np.float64]) -> AuditSummary:
    """Summarise the audits of replications, given the corruption spent in each."""
    certificates = np.array([found.certificate for found in audits])
    return AuditSummary(
        level=audits[0].level,
        replications=len(audits),
        alarmed=sum(found.alarmed for found in audits),
        alarms={kind: sum(kind in found.kinds() for found in audits) for kind in ALARMS},
        certificate=summarise(certificates),
        exceeded=int(np.count_nonzero(certificates > corruption)),
        first=audits[0],
    )


class Result(Reported):
    """The outcome of an experiment.

    Args:
        spec: the arguments of :func:`simulate` that run it again.
        rows: the whole ledger: one row per replication and checkpoint, with arrays for what is
            counted per arm or per layer. All other frames are computed from it.
        view: the policy's view of each arm at the end of the first replication.
        seconds: how long the compiled loops took.
        interrupted: whether Ctrl-C ended the run before all replications were finished.
        audits: the audit of each replication, in order; empty if none was requested.
        means: each arm's true mean; by default computed from ``spec``.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        rows: pl.DataFrame,
        view: Sequence[ArmView],
        seconds: float,
        interrupted: bool = False,
        audits: Sequence[Audit] = (),
        means: npt.ArrayLike | None = None,
    ) -> None:
        self.spec = spec
        self.rows = rows
        self.view = list(view)
        self.seconds = seconds
        self.interrupted = interrupted
        self.audits = list(audits)
        self.means = np.array(_means(spec) if means is None else means, dtype=np.float64)

    @classmethod
    def from_outcomes(
        cls,
        experiment: Experiment,
        replications: Sequence[int],
        outcomes: Sequence[Outcome],
        seconds: float,
        interrupted: bool = False,
    ) -> Result:
        """Make a result from what the engine returned for some replications."""
        points = checkpoints_for(experiment.horizon)
        columns: dict[str, Any] = {
            "replication": np.repeat(np.array(replications, dtype=np.int64), points.size),
            "round": np.tile(points, len(replications)),
        }
        differ: tuple[str, ...] = ()
        if experiment.environment.crowd() is not None:
            differ = FIGURES_OF_VISITORS
        elif moves(experiment.environment.law()):
            differ = WHERE_MEANS_MOVE
        counted = ("refused", "pulls", "arm_corruption", "layer_corruption")
        for name in (*FIGURES_OF_A_RUN, *differ, *counted):
            columns[name] = np.concatenate([getattr(outcome, name) for outcome in outcomes])
        # NumPy has no missing whole numbers: -1 stands for them on the way to Polars.
        leapt = np.repeat([-1 if o.leapt is None else o.leapt for o in outcomes], points.size)
        columns["leapt"] = pl.Series(leapt, dtype=pl.Int64).replace(-1, None)
        view = outcomes[0].view if replications[0] == 0 else ()
        audits = [outcome.audit for outcome in outcomes if outcome.audit is not None]
        return cls(
            experiment.to_builtins(),
            pl.DataFrame(columns),
            view,
            seconds,
            interrupted,
            audits,
            experiment.setting().means,
        )

    @property
    def horizon(self) -> int:
        """Rounds of each replication."""
        return int(self.spec["horizon"])

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return display_name(str(self.spec["policy"]["name"]))

    @property
    def engine(self) -> str:
        """``plain`` if every round was played, ``leap`` if only those that can matter were."""
        return "plain" if self.rows["leapt"].null_count() else "leap"

    @property
    def share_leapt(self) -> float:
        """The share of all rounds that were skipped."""
        return float(self.final["leapt"].fill_null(0).mean()) / self.horizon  # type: ignore[arg-type]

    @cached_property
    def replications(self) -> int:
        """The number of replications; fewer than asked for if it was interrupted."""
        return self.final.height

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The names of all figures of a run: those of every run, and those of visitors."""
        further = (*FIGURES_OF_VISITORS, *WHERE_MEANS_MOVE)
        differ = [name for name in further if name in self.rows.columns]
        return (*FIGURES_OF_A_RUN, *differ)

    @cached_property
    def final(self) -> pl.DataFrame:
        """The ledger at the horizon: one row per replication."""
        return self.rows.filter(pl.col("round") == self.horizon)

    @cached_property
    def curves(self) -> pl.DataFrame:
        """The regrets and the corruption spent: one row per replication and checkpoint."""
        return self.rows.select(
            "replication",
            "round",
            *(each for each in self.measures if each != "seen_corruption"),
            positive_regret=pl.col("regret").clip(lower_bound=0),
            positive_clean_regret=pl.col("clean_regret").clip(lower_bound=0),
        )

    @cached_property
    def arms(self) -> pl.DataFrame:
        """Pulls and corruption: one row per replication, checkpoint and arm."""
        return self._exploded("arm", pulls="pulls", corruption="arm_corruption")

    @cached_property
    def layers(self) -> pl.DataFrame:
        """Corruption that layers observed: one row per replication, checkpoint and layer."""
        return self._exploded("layer", corruption="layer_corruption")

    @cached_property
    def race(self) -> pl.DataFrame:
        """The policy's view at the end of the first replication, per layer and arm."""
        schema = {
            field.name: _COLUMN_TYPES[field.type] for field in msgspec.structs.fields(ArmView)
        }
        return pl.DataFrame([msgspec.structs.asdict(view) for view in self.view], schema=schema)

    def _exploded(self, index: str, **columns: str) -> pl.DataFrame:
        names = {new: pl.col(old).arr.to_list() for new, old in columns.items()}
        width = self.rows[next(iter(columns.values()))].dtype.shape[0]  # type: ignore[attr-defined]
        return (
            self.rows.select("replication", "round", **names)
            .with_columns(pl.lit(list(range(width))).alias(index))
            .explode(index, *columns)
            .select("replication", "round", index, *columns)
        )

    def sample(self, measure: str) -> npt.NDArray[np.float64]:
        """Return one of ``measures`` at the horizon, a number per replication.

        Args:
            measure: the measure, such as ``pseudo_regret``.
        """
        if measure not in self.measures:
            raise UnknownName.among("measure", measure, self.measures)
        return self.final[measure].to_numpy()

    def summary(self) -> dict[str, Any]:
        """Return mean, error and quantiles of each measure at the horizon, and mean pulls."""
        figures: dict[str, Any] = {m: self.figure(m)._asdict() for m in self.measures}
        pulls = self.final["pulls"].to_numpy().astype(np.float64)
        figures["pulls"] = {
            "mean": pulls.mean(axis=0).tolist(),
            "stderr": [standard_error(column) for column in pulls.T],
        }
        return figures

    def figure(self, measure: str) -> Summary:
        """Return the summary of a measure at the horizon; ``measure`` as for :meth:`sample`."""
        return summarise(self.sample(measure))

    def audit_summary(self) -> AuditSummary | None:
        """Summarise the audits next to the true corruption; None if there were no audits."""
        if not self.audits:
            return None
        return summarise_audits(self.audits, self.sample("corruption"))

    def to_builtins(self) -> dict[str, Any]:
        """Return the object that ``armrace simulate --json`` prints."""
        audited = self.audit_summary()
        return {
            "spec": self.spec,
            "horizon": self.horizon,
            "replications": self.replications,
            "seconds": self.seconds,
            "rounds_per_second": self.horizon * self.replications / max(self.seconds, 1e-9),
            "summary": self.summary(),
            "engine": {"name": self.engine, "share_leapt": self.share_leapt},
            **({} if audited is None else {"audit": audited.to_builtins()}),
        }

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write everything to one Parquet file, whole or not at all; :func:`load` reads it.

        Args:
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        from armrace.simulation.storage import save  # storage reads results

        check_new(as_path(path), overwrite=overwrite)
        save(self, as_path(path))

    def _compared(self) -> Comparison:
        return Comparison([self])

    def __repr__(self) -> str:
        regret = self.figure("pseudo_regret")
        return (
            f"<Result of {self.policy}: {self.replications} x {self.horizon} rounds, "
            f"pseudo-regret {regret.mean:.1f} +- {regret.stderr:.1f}>"
        )


def _means(spec: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Each arm's true mean, for results that were stored without it."""
    return ENVIRONMENTS.make(spec["environment"]).mean_rewards(int(spec["horizon"]))


_COLUMN_TYPES: dict[Any, type[pl.DataType]] = {
    int: pl.Int64,
    int | None: pl.Int64,
    float | None: pl.Float64,
    bool: pl.Boolean,
}


class Comparison(Reported):
    """Results of several policies on the same rewards under the same attack.

    Args:
        results: one result per policy. ``Comparison.results`` holds them by the policy's name,
            with its parameters where a name occurs twice.
        measure: the measure of the ledger by which policies are ranked by default; see
            :data:`armrace.simulation.results.MEASURES`.
    """

    def __init__(self, results: Sequence[Result], measure: str = "pseudo_regret") -> None:
        if not results:
            raise InvalidParameter("results must have at least one result; got none.")
        check_measure(measure)
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
