"""Replay: what policies, and attacks on them, would have done on a log of another system."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack
from armrace.adversaries.base import Setting
from armrace.errors import InvalidParameter, UnknownName
from armrace.formatting import count, figure, percent
from armrace.limits import Limits, check_number
from armrace.offline.log import UNLIKELY, Batch, Log, open_log
from armrace.offline.readers import Columns
from armrace.offline.results import AS_LOGGED, Replay
from armrace.offline.runs import Form, PlannedRuns, Run, figures_of
from armrace.policies import Policy
from armrace.randomness import MAXIMAL_SEED
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.scenarios import label_policies, told_the_budget
from armrace.specification import MAXIMAL_HORIZON, is_list
from armrace.statistics.chi_square import chi_square_tail
from armrace.statistics.scales import Scale

_FACTOR = 1.4
_NAMED = 3


def doubts_of(log: Log, floor: float) -> list[str]:
    """Return a sentence for each doubt about the propensities of a log."""
    found = []
    arms = len(log.arms)
    if not log.has_propensities:
        chance = _chance_if_uniform(log)
        if chance < UNLIKELY:
            fewest, most = int(log.pulls.min()), int(log.pulls.max())
            found.append(
                "No propensities are given, so every arm is taken to have been shown with the same "
                f"probability; but arms have from {count(fewest)} to {count(most)} rows, which "
                f"would happen with a probability of {figure(chance)}. The estimates are then "
                "wrong; give --propensity COLUMN."
            )
        return found
    inverse = log.mean_inverse_propensity
    if not arms / _FACTOR <= inverse <= arms * _FACTOR:
        found.append(
            f"The mean of 1 / propensity is {figure(inverse)}; with {arms} arms that can always be "
            f"shown it would be near {arms}. Some arms could not be shown at times, the "
            "propensities are not those of the arms shown, or a few rows with tiny ones dominate."
        )
    else:
        found += _doubted_arms(log)
    if floor > log.least_propensity:
        found.append(
            f"Propensities below {figure(floor)} are raised to it; the smallest is "
            f"{figure(log.least_propensity)}. This trades bias for variance: arms are "
            "underestimated where they were shown with a smaller propensity."
        )
    elif floor * log.rows < 1.0:
        found.append(
            f"The smallest propensity is {figure(floor)}, so that rejection replay accepts "
            f"{percent(floor)} of the rows, which is none of them; a --floor accepts more, with a "
            "bias against arms of smaller propensities."
        )
    return found


def _doubted_arms(log: Log) -> list[str]:
    """Name the arms that have too few rows for their propensities."""
    doubted = np.flatnonzero((log.chances < UNLIKELY) & (log.announced < 1.0 / _FACTOR))
    worst = sorted(doubted, key=lambda arm: log.announced[arm])
    listed = [f"{log.arms[arm]} could be shown in {percent(log.announced[arm])}" for arm in worst]
    if not listed:
        return []
    more = f" and {count(len(listed) - _NAMED)} more" if len(listed) > _NAMED else ""
    return [
        f"Arms have fewer rows than their propensities announce: {', '.join(listed[:_NAMED])} of "
        f"the rows{more}. They could not be shown at times, or their propensities are too large; "
        "the estimates of what policies earn by them are then wrong."
    ]


def _chance_if_uniform(log: Log) -> float:
    """Return the probability that uniform choices differ at least so much."""
    expected = log.rows / len(log.arms)
    # With fewer rows an arm the statistic does not yet have the chi-square law.
    if expected < 5.0:
        return 1.0
    statistic = float(((log.pulls - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(log.arms) - 1)


POLICIES_REPLAYED = ("optimistic-log-barrier", "sharp-race", "tsallis-inf", "ucb1")
"""Replayed unless others are named: the recommended policy, a race, and two that many use."""

_MOST_BLOCKS = 1000
_REPLICATIONS = Limits("runs of each policy", 1, 10_000)
_LEVEL = Limits("probability that an interval is wrong", 0, 1, low_open=True, high_open=True)
_FLOOR = Limits("propensity to which smaller ones are raised", 0, 1, low_open=True)
_BUDGET = Limits("budget of the attack", 0)
_HORIZON = Limits("decisions that policies plan for", 1, MAXIMAL_HORIZON)
_WORKERS = Limits("threads", 1)
_SEED = Limits("seed", 0, MAXIMAL_SEED)

PolicyLike = Policy | str | Mapping[str, Any]


def replay(
    log: Any,
    policies: PolicyLike | Sequence[PolicyLike] = POLICIES_REPLAYED,
    *,
    columns: Columns | Mapping[str, str] | Path | str | None = None,
    arm: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    time: str | None = None,
    source: str | None = None,
    unit: str | None = None,
    rewards: Sequence[float] = (0.0, 1.0),
    floor: float | None = None,
    horizon: int | None = None,
    estimators: str = "all",
    attack: Adversary | str | Mapping[str, Any] | None = None,
    budget: float | None = None,
    redteam: str | None = None,
    retract: str | None = None,
    replications: int = 10,
    level: float = 0.05,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = None,
) -> Replay:
    """Estimate what policies would have earned on a log that another system made.

    Args:
        log: a file of CSV, NDJSON or Parquet, a data frame of Polars, pandas or anything else that
            exports Arrow, or a log that was opened already.
        policies: policies, their names, or plain data with a ``name`` and parameters.
        columns: which columns are read: a mapping of roles to names, or the TOML file of one.
        arm: the column of the arm that was shown.
        reward: the column of its reward.
        propensity: the column of the probability with which the log's system chose the arm. Without
            one, all arms are taken to have been shown with equal probability.
        time: the column of the time, by which the order of the rows is checked.
        source: the column of the source of the feedback.
        unit: the column of the visitor; the bootstrap keeps the rows of a visitor together.
        rewards: the smallest and the largest reward.
        floor: rows of a smaller propensity are treated as if they had this one, which accepts
            more rows and biases the estimates; by default the smallest propensity of the log, but
            for one in 10,000 rows if theirs are ten times smaller.
        horizon: the number of decisions that policies plan for; by default the expected number
            of accepted rows.
        estimators: ``all``, or ``replay`` for rejection replay alone, which is faster.
        attack: an attack that is injected into the rewards that the policies learn.
        budget: the most that the attack may spend.
        redteam: the effort of a search for the worst attack on each policy: ``quick``, ``usual`` or
            ``full``.
        retract: a source; each policy is replayed also as if its rows had been found and left out.
        replications: runs of each policy, which differ in its draws.
        level: the probability with which an interval may be wrong.
        seed: the seed of all draws.
        workers: how many threads work at once; by default one per core.
        progress: whether to show a progress bar; by default on a terminal, and a line per minute
            elsewhere.

    Returns:
        The estimates, a report of the rows that could not be used, and verdicts in words.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.
    """
    check_number("replications", replications, _REPLICATIONS, whole=True)
    check_number("level", level, _LEVEL)
    check_number("seed", seed, _SEED, whole=True)
    if estimators not in ("all", "replay"):
        raise InvalidParameter(f"estimators must be all or replay; got {estimators!r}.")
    opened = log
    if not isinstance(opened, Log):
        opened = open_log(
            opened,
            columns,
            rewards=rewards,
            arm=arm,
            reward=reward,
            propensity=propensity,
            time=time,
            source=source,
            unit=unit,
        )
    least = opened.usual_propensity if floor is None else floor
    check_number("floor", least, _FLOOR)
    if workers is not None:
        check_number("workers", workers, _WORKERS, whole=True)
    if horizon is not None:
        check_number("horizon", horizon, _HORIZON, whole=True)
    job = _Job(opened, least, horizon, estimators == "all", replications, level, seed, workers)
    job.choose_policies(policies, budget)
    job.choose_forms(attack, budget, redteam, retract)
    with progress_bar("replaying", progress) as report:
        job.play(report)
    made = None if attack is None else ADVERSARIES.make(attack).to_builtins()
    given = {
        "floor": floor,
        "horizon": horizon,
        "attack": made,
        "budget": budget,
        "redteam": redteam,
        "retract": retract,
    }
    return job.result(
        {
            "rewards": list(opened.bounds),
            "estimators": estimators,
            "replications": replications,
            "level": level,
            "seed": seed,
            **{name: value for name, value in given.items() if value is not None},
        }
    )


class _Job:
    """One replay: plans, runs and results."""

    def __init__(
        self,
        log: Log,
        floor: float,
        horizon: int | None,
        weighs: bool,
        replications: int,
        level: float,
        seed: int,
        workers: int | None,
    ) -> None:
        self.log, self.floor, self.weighs = log, floor, weighs
        self.replications, self.level, self.seed = replications, level, seed
        self._horizon, self._workers = horizon, workers
        self.policies: dict[str, Policy] = {}
        self.plans: list[PlannedRuns] = []

    # --- what is played -------------------------------------------------------------------

    def choose_policies(
        self, policies: PolicyLike | Sequence[PolicyLike], budget: float | None
    ) -> None:
        """Take policies; one that must know the corruption is told the budget."""
        listed: list[Any] = list(policies) if is_list(policies) else [policies]  # type: ignore[arg-type]
        if not listed:
            raise InvalidParameter("policies must name at least one; got none.")
        self.policies = label_policies(
            each if isinstance(each, Policy) else told_the_budget(each, budget or 0.0)
            for each in listed
        )

    def choose_forms(
        self,
        attack: Adversary | str | Mapping[str, Any] | None,
        budget: float | None,
        redteam: str | None,
        retract: str | None,
    ) -> None:
        """Make the plans: every policy on every form of the log."""
        corrupts = attack is not None or redteam is not None
        if corrupts and budget is None:
            raise InvalidParameter("budget is missing: how much may the attack spend?")
        if budget is not None:
            check_number("budget", budget, _BUDGET)
            if not corrupts:
                raise InvalidParameter("budget is for an attack; name one, or search for one.")
        without = None if retract is None else self._source(retract)
        for label, policy in self.policies.items():
            forms = [Form(AS_LOGGED, NoAttack(), 0.0)]
            if attack is not None:
                made = ADVERSARIES.make(attack)
                forms.append(Form(f"under {made.tag()}", made, float(budget or 0)))
            if redteam is not None:
                worst = self._worst(policy, float(budget or 0), redteam)
                forms.append(
                    Form("under the worst found", worst, float(budget or 0), None, redteam)
                )
            if without is not None:
                forms.append(Form(f"without {retract}", NoAttack(), 0.0, without))
            self.plans += [self._plan(label, policy, form) for form in forms]

    def _source(self, name: str) -> int:
        if self.log.columns.source is None:
            raise InvalidParameter("retract needs the column of the sources; give --source COLUMN.")
        if name not in self.log.sources:
            raise UnknownName.among("source", name, self.log.sources)
        place = self.log.sources.index(name)
        if self.log.source_rows[place] == self.log.rows:
            raise InvalidParameter(
                f"every row has the source {name!r}; nothing is left without it."
            )
        return place

    def horizon(self, rows: int) -> int:
        """The number of decisions that policies plan for."""
        return self._horizon or max(1, round(rows * self.floor))

    def setting(self, policy: Policy, rows: int, budget: float) -> Setting:
        """What an attack knows: the rates that the whole log shows."""
        arms = len(self.log.arms)
        support = np.tile([0.0, 1.0], (arms, 1)) if self.log.is_binary else None
        return Setting(self.log.rates, self.horizon(rows), budget, policy, support)

    def _worst(self, policy: Policy, budget: float, effort: str) -> Adversary:
        """Search for the worst attack on Bernoulli arms with the log's rates."""
        from armrace.red_team import redteam

        rates, rounds = self.log.rates.tolist(), self.horizon(self.log.rows)
        verdict = redteam(
            policy, rates, budget, rounds, effort=effort, seed=self.seed, workers=self._workers
        )
        return verdict.attack

    def _plan(self, label: str, policy: Policy, form: Form) -> PlannedRuns:
        rows = self.log.rows
        if form.without is not None:
            rows -= int(self.log.source_rows[form.without])
        setting = self.setting(policy, rows, form.budget)
        runs = [
            Run(
                policy,
                form.attack,
                setting,
                seed=self.seed,
                replication=number,
                blocks=min(rows, _MOST_BLOCKS),
                rows=rows,
                floor=self.floor,
                weighs=self.weighs,
            )
            for number in range(self.replications)
        ]
        return PlannedRuns(policy, label, form, runs, rows, setting.horizon)

    # --- playing --------------------------------------------------------------------------

    def play(self, report: Callable[[float], None]) -> None:
        """Let all runs meet all rows, batch by batch."""
        done: dict[int | None, int] = {}
        total, taken = sum(plan.rows * len(plan.runs) for plan in self.plans), 0
        with ThreadPoolExecutor(self._workers or os.cpu_count()) as pool:
            for batch in self.log.batches():
                work = []
                # Plans that leave out the same source share the rows that remain.
                for without in dict.fromkeys(plan.form.without for plan in self.plans):
                    part = _without(batch, without)
                    first = done.get(without, 0)
                    done[without] = first + part.arms.size
                    for plan in self.plans:
                        if plan.form.without == without:
                            blocks = _blocks(part, first, plan.rows)
                            work += [(run, part, blocks) for run in plan.runs]
                # Every result is asked for, so that what went wrong in a thread is raised here.
                taking = pool.map(lambda each: each[0].take(each[1], each[2]), work)
                for (_, part, _), _ in zip(work, taking, strict=True):
                    taken += part.arms.size
                    report(taken / total)

    # --- results --------------------------------------------------------------------------

    def result(self, settings: dict[str, Any]) -> Replay:
        """Collect the figures of all runs."""
        log, scale = self.log, Scale(*self.log.bounds)
        return Replay(
            log=log.name,
            columns=log.columns.named(),
            rewards=log.bounds,
            row_report=log.report,
            arms=log.arms,
            rows=log.rows,
            logged_mean=scale.reward(float(log.totals.sum()) / log.rows),
            arm_rows=log.pulls.tolist(),
            arm_means=[scale.reward(rate) for rate in log.rates.tolist()],
            floor=self.floor,
            level=self.level,
            replications=self.replications,
            seed=self.seed,
            policies=[
                figures_of(plan, scale, self.floor, self.level, self.seed, weighs=self.weighs)
                for plan in self.plans
            ],
            warnings=doubts_of(log, self.floor),
            settings=settings,
        )


def _without(batch: Batch, source: int | None) -> Batch:
    """Return a batch without the rows of a source."""
    if source is None:
        return batch
    kept = batch.sources != source
    units = batch.units[kept] if batch.units.size else batch.units
    return Batch(
        batch.arms[kept],
        batch.rewards[kept],
        batch.propensities[kept],
        batch.sources[kept],
        units,
    )


def _blocks(batch: Batch, first: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the block of each row: consecutive rows share one, or all rows of a unit."""
    count = min(rows, _MOST_BLOCKS)
    if batch.units.size:
        return (batch.units % np.uint64(count)).astype(np.int64)
    return np.arange(first, first + batch.arms.size, dtype=np.int64) * count // rows
