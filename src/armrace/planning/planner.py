"""The search for survival limits: budgets from small to large, for the surviving policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import polars as pl

from armrace.formatting import figure
from armrace.planning.plans import Plan
from armrace.planning.question import Question, make_question
from armrace.planning.run_metrics import REQUIRED, read_run
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.progress import progress_bar
from armrace.simulation.simulate import run_experiments

__all__ = ["answer", "budget_levels", "plan"]

_LEVELS = (10, 50, 200)
"""Budgets of two decades; the next ones are a hundred times these."""


def plan(
    means: Sequence[float] | None = None,
    *,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    **asked: Any,
) -> Plan:
    """Find how much corruption each policy survives, its cost, and the time to a decision.

    Args:
        means: the probability of a click on each arm.
        executor: see :func:`armrace.simulate`.
        workers: see :func:`armrace.simulate`.
        progress: whether to show progress bars; by default on a terminal, and a line a minute
            elsewhere.
        asked: all other parameters of :func:`make_question`.

    The result does not depend on the executor or the number of workers.

    >>> found = plan(
    ...     [0.8, 0.2], traffic=500, days=2, forged=0.01, policies=["ucb1"], attacks=["zero-best"]
    ... )
    >>> found.table.select("policy", "runs", "right", "survives", "lost_at").row(0)
    ('ucb1', 20, 20, 200.0, 1000.0)
    """
    question = make_question(means, **asked)
    with running_executor(executor, workers) as running:
        return answer(question, running, workers, progress)


def budget_levels(horizon: int, suspected: float) -> list[float]:
    """The budgets that are tried: round numbers up to the horizon, and the suspected one.

    Args:
        horizon: the number of decisions.
        suspected: the corruption that is suspected.

    >>> budget_levels(30_000, 300.0)
    [10.0, 50.0, 200.0, 300.0, 1000.0, 5000.0, 20000.0]
    """
    decades = range(1 + math.ceil(math.log(horizon, 100)))
    levels = {float(level * 100**decade) for decade in decades for level in _LEVELS}
    return sorted({level for level in levels if level <= horizon} | ({suspected} - {0.0}))


def answer(
    question: Question,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """Return the plan for a question. An interruption discards it: half a plan would mislead.

    Args:
        question: arms, traffic and suspected corruption.
        executor: runs the replications in place of threads.
        workers: how many threads run at once; by default one per core.
        progress: whether to show progress bars; by default on a terminal, and a line a minute
            elsewhere.

    Returns:
        The plan.
    """
    runner = _Runner(question, executor, workers, progress)
    names = list(question.learners())
    quiet = question.experiments(names, 0.0)
    compile_experiments([experiment for _, experiment in quiet], executor, progress)
    standing = runner.play_budget("without attack", 0.0, names)
    contenders = list(standing)
    for budget in budget_levels(question.horizon, question.suspected):
        # At the suspected corruption every policy that works without attack is played, even if
        # it failed at a smaller budget, since the table compares all of them there.
        suspected = budget == question.suspected
        if standing or suspected:
            passed = runner.play_budget(
                f"C = {figure(budget)}", budget, contenders if suspected else standing
            )
            standing = [name for name in standing if name in passed]
    return Plan(question, pl.DataFrame(runner.rows, infer_schema_length=None))


class _Runner:
    """Plays one budget after the other and collects the figures."""

    def __init__(
        self,
        question: Question,
        executor: Executor | None,
        workers: int | None,
        progress: bool | None,
    ) -> None:
        self.question = question
        self.rows: list[dict[str, Any]] = []
        self._executor, self._workers, self._progress = executor, workers, progress

    def play_budget(self, title: str, budget: float, names: Sequence[str]) -> list[str]:
        """Play a budget, and return the policies that end right under every attack."""
        experiments = self.question.experiments(names, budget)
        if not experiments:
            return []
        good = self.question.good_enough()
        passed = dict.fromkeys((name for name, _ in experiments), True)
        with progress_bar(title, self._progress) as report:
            results = run_experiments(
                [each for _, each in experiments], self._executor, self._workers, report
            )
        if results[0].interrupted:
            raise KeyboardInterrupt
        for (name, _), result in zip(experiments, results, strict=True):
            row = {"policy": name, **read_run(result, good)}
            passed[name] &= row["right"] >= REQUIRED * row["runs"]
            self.rows.append(row)
        return [name for name, right in passed.items() if right]
