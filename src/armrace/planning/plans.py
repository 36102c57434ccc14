"""Plans: one row per policy, the measured figures, and a recommendation."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from armrace.planning.guarantees import proven_loss
from armrace.planning.question import Question
from armrace.planning.recommendation import recommend
from armrace.planning.run_metrics import REQUIRED
from armrace.reports import Presentation

__all__ = ["Plan"]

_SCHEMA: dict[str, type[pl.DataType]] = {
    "policy": pl.String,
    "runs": pl.Int64,
    "right": pl.Int64,
    "cost": pl.Float64,
    "cost_a_day": pl.Float64,
    "decision_days": pl.Float64,
    "survives": pl.Float64,
    "lost_at": pl.Float64,
    "lost_to": pl.String,
    "suspected_right": pl.Int64,
    "suspected_cost": pl.Float64,
    "suspected_cost_a_day": pl.Float64,
    "suspected_worst_a_day": pl.Float64,
    "suspected_attack": pl.String,
    "suspected_decision_days": pl.Float64,
    "proven": pl.String,
}


class Plan(Presentation):
    """The answer to a question about policies and corruption.

    ``cells`` holds one row for each policy, attack and budget that was tried; ``table`` one row
    per policy.

    Args:
        question: what was asked.
        cells: what was found, in the columns of ``cells``.
    """

    def __init__(self, question: Question, cells: pl.DataFrame) -> None:
        self.question = question
        self.cells = cells

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per policy; policies that survive the suspected corruption first, by cost.

        ``survives`` is the largest budget tried at which, as at all smaller ones, the policy
        ended right in 95% of the runs under every attack; 0 if it did so without attack only,
        and null if it failed even then. ``lost_at`` is the smallest budget at which it failed.
        Costs are mean pseudo-regrets; ``decision_days`` are the days after which 95% of the runs
        had decided. Columns that begin with ``suspected`` are at the suspected corruption, under
        the attack that is worst for the column. ``proven`` is what the policy
        is proven to lose at most there; see :func:`armrace.planning.guarantees.proven_loss`.
        """
        rows = [self._row(name) for name in self.question.learners()]
        return (
            pl.DataFrame(rows, schema=_SCHEMA)
            .with_columns(stands=pl.col("survives") >= self.question.suspected)
            .sort(
                pl.col("stands").fill_null(False),
                pl.when("stands").then(0.0).otherwise(pl.col("survives").fill_null(-1.0)),
                -pl.col("suspected_cost").fill_null(float("inf")),
                -pl.col("cost"),
                descending=True,
                maintain_order=True,
            )
            .drop("stands")
        )

    @cached_property
    def recommendation(self) -> str:
        """The recommended policy, with reasons, costs and the limits of the evidence, in words."""
        return recommend(self.question, self.table, self.samples())

    def samples(self) -> dict[str, Any]:
        """The pseudo-regret of each run at the suspected corruption, under the costliest attack."""
        worst = self._suspected().sort("regret", descending=True).unique("policy", keep="first")
        return {row["policy"]: np.array(row["regrets"]) for row in worst.iter_rows(named=True)}

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        question = self.question.to_builtins()
        del question["name"]
        return {
            "question": question,
            "horizon": self.question.horizon,
            "suspected_corruption": self.question.suspected,
            "recommendation": self.recommendation,
            "table": self.table.to_dicts(),
            "figures": self.cells.drop("regrets").to_dicts(),
        }

    def _suspected(self) -> pl.DataFrame:
        return self.cells.filter(pl.col("budget") == self.question.suspected)

    def _row(self, name: str) -> dict[str, Any]:
        asked, learner = self.question, self.question.learners()[name]
        own = self.cells.filter(pl.col("policy") == name)
        quiet = own.filter(pl.col("budget") == 0).row(0, named=True)
        a_day = asked.traffic / asked.horizon
        return {
            "policy": name,
            "runs": quiet["runs"],
            "right": quiet["right"],
            "cost": quiet["regret"],
            "cost_a_day": quiet["regret"] * a_day,
            "decision_days": self._days(quiet["decision_p95"]),
            **_survival(own),
            **self._under_suspicion(own, a_day),
            "proven": proven_loss(learner, asked.means, asked.horizon, asked.suspected),
        }

    def _days(self, rounds: float | None) -> float | None:
        return None if rounds is None else self.question.days_of(rounds)

    def _under_suspicion(self, own: pl.DataFrame, a_day: float) -> dict[str, Any]:
        """The columns at the suspected corruption; none for a policy that was not tried there."""
        tried = own.filter(pl.col("budget") == self.question.suspected)
        if tried.is_empty():
            return {}
        rows = tried.to_dicts()
        costliest = max(rows, key=lambda row: float(row["regret"]))
        rounds = [row["decision_p95"] for row in rows]
        return {
            "suspected_right": min(row["right"] for row in rows),
            "suspected_cost": costliest["regret"],
            "suspected_cost_a_day": costliest["regret"] * a_day,
            "suspected_worst_a_day": max(row["regret_max"] for row in rows) * a_day,
            "suspected_attack": costliest["attack"],
            "suspected_decision_days": None if None in rounds else self._days(max(rounds)),
        }


def _survival(own: pl.DataFrame) -> dict[str, Any]:
    """The largest budget that a policy survived, and the budget and attack that defeated it."""
    lost = own.filter(pl.col("right") < REQUIRED * pl.col("runs")).sort("budget", "right")
    if lost.is_empty():
        return {"survives": own["budget"].max()}
    first = lost.row(0, named=True)
    below = own.filter(pl.col("budget") < first["budget"])["budget"].max()
    return {"survives": below, "lost_at": first["budget"], "lost_to": first["attack"]}
