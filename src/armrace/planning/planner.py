"""The planner: simulate a question, or read it from a log, and find what each policy survives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from armrace.errors import InvalidParameter
from armrace.formatting import count, figure, span
from armrace.offline import Log
from armrace.planning.contexts import weigh_contexts
from armrace.planning.plans import REQUIRED, Plan, read_run
from armrace.planning.question import Question, make_question
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.progress import progress_bar
from armrace.simulation.simulate import run_experiments
from armrace.statistics.bounded_means import bernstein_interval
from armrace.statistics.proportions import Interval, clopper_pearson

_LEAST_DAYS = 1.0 / 24.0


class FromLog(NamedTuple):
    """What a log says about arms and traffic."""

    means: tuple[float, ...]
    """The mean reward of each arm, scaled to [0, 1]."""
    traffic: float | None
    """Decisions a day; ``None`` if they are not known and the log has no times."""
    sentences: list[str]
    """What was read, and how far it can be trusted."""


def read_traffic(log: Log, known: float | None = None) -> FromLog:
    """Read the arms' mean rewards and the decisions a day out of a log.

    Args:
        log: the log.
        known: the decisions a day, where they are known from elsewhere; the times are not read.

    Returns:
        The figures, and sentences that say how sure they are.
    """
    means = tuple(log.rates.tolist())
    traffic = known
    words = [*log.report.sentences()]
    if known is None and log.days is not None:
        if log.days < _LEAST_DAYS:
            raise InvalidParameter(
                f"the log must span at least an hour for its traffic to be read; its times span "
                f"{figure(log.days * 24 * 60)} minutes, so give --traffic."
            )
        traffic = log.rows / log.days
        words.append(
            f"{count(log.rows)} rows in {figure(log.days)} days are {figure(traffic)} decisions "
            "a day."
        )
    best = int(np.argmax(log.rates))
    low, high = _interval(log, best)
    words.append(
        f"The best of {len(log.arms)} arms is {log.arms[best]} with a mean of "
        f"{figure(means[best])} in {count(int(log.pulls[best]))} rows (95% interval "
        f"{span(low, high)}). The largest of many estimates is too large on average, so the true "
        "gaps are probably smaller; plan also with --arms and a smaller --gap."
    )
    return FromLog(means, traffic, words)


def _interval(log: Log, arm: int) -> Interval:
    rows, paid = int(log.pulls[arm]), float(log.totals[arm])
    if log.is_binary:
        return clopper_pearson(round(paid), rows)
    # The variance of rewards in [0, 1] is at most 1/4, and the log's own is not kept.
    low, high = bernstein_interval(paid, rows / 4.0, rows, 1.0, 1.0)
    return Interval(max(low, 0.0), min(high, 1.0))


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
    log: Log | None = None,
) -> Plan:
    """Return the plan for a question, with an executor that runs, or on threads.

    Arguments are as for :func:`plan`; a ``log`` with a schema has it say whether contexts pay. An
    interruption discards it: half a plan would mislead.
    """
    good, rows = question.good_enough(), list[dict[str, Any]]()

    def play(title: str, budget: float, names: Sequence[str]) -> list[str]:
        """Play a budget, and return the policies that end right under every attack."""
        tried = question.experiments(names, budget)
        if not tried:
            return []
        with progress_bar(title, progress) as report:
            results = run_experiments([each for _, each in tried], executor, workers, report)
        if results[0].interrupted:
            raise KeyboardInterrupt
        passed = dict.fromkeys((name for name, _ in tried), True)
        for (name, _), result in zip(tried, results, strict=True):
            row = {"policy": name, **read_run(result, good)}
            passed[name] &= row["right"] >= REQUIRED * row["runs"]
            rows.append(row)
        return [name for name, right in passed.items() if right]

    names = list(question.learners())
    quiet = [experiment for _, experiment in question.experiments(names, 0.0)]
    compile_experiments(quiet, executor, progress)
    contenders = standing = play("without attack", 0.0, names)
    for budget in budget_levels(question.horizon, question.suspected):
        # At the suspected corruption every policy that works without attack is played, even if
        # it failed at a smaller budget, since the table compares all of them there.
        suspected = budget == question.suspected
        if standing or suspected:
            passed = play(f"C = {figure(budget)}", budget, contenders if suspected else standing)
            standing = [name for name in standing if name in passed]
    contexts = None
    if log is not None and log.schema is not None:
        contexts = weigh_contexts(log, question, executor, workers, progress)
    return Plan(question, pl.DataFrame(rows, infer_schema_length=None), contexts)
