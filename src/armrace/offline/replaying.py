"""Replay: what policies, and attacks on them, would have done on a log of another system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack
from armrace.adversaries.base import Setting
from armrace.contexts import Schema, plain_schema
from armrace.errors import BrokenPolicy, InvalidParameter, UnknownName
from armrace.kernels.dispatch import implementations
from armrace.kernels.engine import make_ledger
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import ContextShape
from armrace.kernels.handles import call_entry
from armrace.kernels.live import BadTicket
from armrace.kernels.pointers import LiveAttack
from armrace.kernels.replay import (
    ACCEPTED,
    LOGGED,
    REPLAYED,
    TOTAL,
    RowContexts,
    make_replayer,
    make_tally,
    read_only,
)
from armrace.limits import Limits, check_number
from armrace.offline.log import Log, LogRows, doubts_of, open_log
from armrace.offline.readers import Columns
from armrace.offline.results import (
    AS_LOGGED,
    AttackOnLog,
    Conclusion,
    Gain,
    PolicyReplay,
    Replay,
    estimate_gain,
    estimates_of,
    leaves_of,
)
from armrace.offline.visitors import make_forecasts
from armrace.policies import Policy
from armrace.randomness import MAXIMAL_SEED, Purpose, generator_for, stream_for
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.scenarios import given_the_budget, label_policies
from armrace.specification import MAXIMAL_HORIZON, is_list
from armrace.statistics.proportions import Scale

POLICIES_REPLAYED = ("optimistic-log-barrier", "sharp-race", "tsallis-inf", "ucb1")
"""Replayed unless others are named: the recommended policy, a race, and two that many use."""

_MOST_BLOCKS = 1000
_ROWS_WITH_CONTEXTS = 1 << 15
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
    schema: Schema | Mapping[str, Any] | Path | str | None = None,
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
        schema: the features of the visitors, which are columns of the same names: a schema, plain
            data of one, or the file of one. Policies that take contexts then see them, and doubly
            robust estimates rest on a linear model of each arm.
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
            schema=schema,
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
    job.choose_variants(attack, budget, redteam, retract)
    with progress_bar("replaying", progress) as report:
        job.play(report)
    made = None if attack is None else ADVERSARIES.make(attack).to_builtins()
    given = {
        "schema": None if opened.schema is None else plain_schema(opened.schema),
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


@dataclass
class _Job:
    """One replay: plans, runs and results."""

    log: Log
    floor: float
    given_horizon: int | None
    weighs: bool
    replications: int
    level: float
    seed: int
    workers: int | None
    policies: dict[str, Policy] = field(default_factory=dict)
    plans: list[PlannedReplay] = field(default_factory=list)

    def choose_policies(
        self, policies: PolicyLike | Sequence[PolicyLike], budget: float | None
    ) -> None:
        """Take policies; one that must know the corruption is given the budget."""
        listed: list[Any] = list(policies) if is_list(policies) else [policies]  # type: ignore[arg-type]
        if not listed:
            raise InvalidParameter("policies must name at least one; got none.")
        self.policies = label_policies(
            each if isinstance(each, Policy) else given_the_budget(each, budget or 0.0)
            for each in listed
        )

    def choose_variants(
        self,
        attack: Adversary | str | Mapping[str, Any] | None,
        budget: float | None,
        redteam: str | None,
        retract: str | None,
    ) -> None:
        """Make the plans: every policy on every variant of the log."""
        corrupts = attack is not None or redteam is not None
        if corrupts and budget is None:
            raise InvalidParameter("budget is missing: how much may the attack spend?")
        if budget is not None:
            check_number("budget", budget, _BUDGET)
            if not corrupts:
                raise InvalidParameter("budget is for an attack; name one, or search for one.")
        without = None if retract is None else self._source(retract)
        for label, policy in self.policies.items():
            variants = [LogVariant(AS_LOGGED, NoAttack(), 0.0)]
            if attack is not None:
                made = ADVERSARIES.make(attack)
                variants.append(LogVariant(f"under {made.tag()}", made, float(budget or 0)))
            if redteam is not None:
                worst = self._worst(policy, float(budget or 0), redteam)
                variants.append(
                    LogVariant("under the worst found", worst, float(budget or 0), None, redteam)
                )
            if without is not None:
                variants.append(LogVariant(f"without {retract}", NoAttack(), 0.0, without))
            self.plans += [self._plan(label, policy, variant) for variant in variants]

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
        return self.given_horizon or max(1, round(rows * self.floor))

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
            policy, rates, budget, rounds, effort=effort, seed=self.seed, workers=self.workers
        )
        return verdict.attack

    def _plan(self, label: str, policy: Policy, variant: LogVariant) -> PlannedReplay:
        rows = self.log.rows
        if variant.without is not None:
            rows -= int(self.log.source_rows[variant.without])
        setting = self.setting(policy, rows, variant.budget)
        shape = None if self.log.schema is None else self.log.schema.shape
        runs = [
            Run(
                policy,
                variant.attack,
                setting,
                shape,
                seed=self.seed,
                replication=number,
                blocks=min(rows, _MOST_BLOCKS),
                rows=rows,
                floor=self.floor,
                weighs=self.weighs,
            )
            for number in range(self.replications)
        ]
        return PlannedReplay(policy, label, variant, runs, rows, setting.horizon)

    def play(self, report: Callable[[float], None]) -> None:
        """Let all runs meet all rows, batch by batch."""
        variants = dict.fromkeys(plan.variant.without for plan in self.plans)
        done: dict[int | None, int] = dict.fromkeys(variants, 0)
        forecasts = {without: make_forecasts(self.log) for without in variants}
        total, taken = sum(plan.rows * len(plan.runs) for plan in self.plans), 0
        with ThreadPoolExecutor(self.workers or os.cpu_count()) as pool:
            for batch in self._batches():
                work = []
                # Plans that leave out the same source share the rows that remain.
                for without in variants:
                    part = _without(batch, without)
                    first = done[without]
                    done[without] = first + part.arms.size
                    contexts = forecasts[without](part)
                    for plan in self.plans:
                        if plan.variant.without == without:
                            blocks = _blocks(part, first, plan.rows)
                            work += [(run, part, blocks, contexts) for run in plan.runs]
                # Every result is asked for, so that what went wrong in a thread is raised here.
                taking = pool.map(lambda each: each[0].take(*each[1:]), work)
                for (_, part, *_), _ in zip(work, taking, strict=True):
                    taken += part.arms.size
                    report(taken / total)

    def _batches(self) -> Iterator[LogRows]:
        """The rows of the log, in pieces whose vectors and predictions fit into memory."""
        for batch in self.log.batches():
            size = batch.arms.size if self.log.schema is None else _ROWS_WITH_CONTEXTS
            for first in range(0, batch.arms.size, max(1, size)):
                yield LogRows._make(column[first : first + size] for column in batch)

    def result(self, settings: dict[str, Any]) -> Replay:
        """Collect the figures of all runs."""
        log = self.log
        scale = Scale(*log.bounds)
        return Replay(
            log=log.name,
            columns=msgspec.structs.replace(log.columns, features=()).named(),
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
                figures_of(plan, log, self.floor, self.level, self.seed, weighs=self.weighs)
                for plan in self.plans
            ],
            warnings=doubts_of(log, self.floor),
            settings=settings,
        )


def _without(batch: LogRows, source: int | None) -> LogRows:
    """Return a batch without the rows of a source."""
    if source is None:
        return batch
    kept = batch.sources != source
    # Columns that the log does not have are empty.
    return LogRows._make(column[kept] if column.size else column for column in batch)


def _blocks(batch: LogRows, first: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the block of each row: consecutive rows share one, or all rows of a unit."""
    count = min(rows, _MOST_BLOCKS)
    if batch.units.size:
        return (batch.units % np.uint64(count)).astype(np.int64)
    return np.arange(first, first + batch.arms.size, dtype=np.int64) * count // rows


class Run:
    """A policy that meets the rows of a log."""

    def __init__(
        self,
        policy: Policy,
        attack: Adversary,
        setting: Setting,
        shape: ContextShape | None,
        *,
        seed: int,
        replication: int,
        blocks: int,
        rows: int,
        floor: float,
        weighs: bool,
    ) -> None:
        arms, horizon = setting.arms, setting.horizon
        self._name, self._shape = policy.tag(), (arms, policy.layer_count(arms, horizon))
        self._state = policy.start_with(arms, horizon, shape)
        self._varies = shape is not None and policy.takes_contexts
        corrupter = attack.start(setting)
        self._attack = LiveAttack(
            corrupter,
            stream_for(seed, Purpose.ADVERSARY, replication),
            attack.sees_weights,
            attack.smallest_cost(corrupter, setting),
            knows_visitors=shape is not None,
        )
        self._stream = stream_for(seed, Purpose.LEARNER, replication)
        # A stream of its own: acceptance must not depend on how many numbers the policy draws.
        self._coins = stream_for(seed, Purpose.ACCEPTANCE, replication)
        self.ledger = make_ledger(*self._shape, setting.budget)
        self.tally = make_tally(arms, blocks, 0 if shape is None else shape.leaves)
        self._floor, self._rows, self._weighs = floor, rows, weighs
        self._replay_rows = make_replayer(fingerprint(implementations(self._state)))

    def take(
        self, batch: LogRows, blocks: npt.NDArray[np.int64], contexts: RowContexts | None
    ) -> None:
        """Replay a batch of rows."""
        columns = map(read_only, (batch.arms, batch.rewards, batch.propensities, blocks))
        before = (self._state, self._attack.attack, self._stream, self._coins)
        after = (self._floor, self._rows, self._weighs, contexts, self._varies)
        try:
            call_entry(self._replay_rows, *before, self.ledger, self.tally, *columns, *after)
        except BadTicket as error:
            raise BrokenPolicy.by_ticket(self._name, error.args, *self._shape) from None


class LogVariant(NamedTuple):
    """A variant of the log that a policy meets, and who corrupts the rewards."""

    name: str
    attack: Adversary
    budget: float
    without: int | None = None
    """The place of the source whose rows are left out."""
    found_by: str = ""
    """The effort of the search that found the attack, if one did."""


class PlannedReplay(NamedTuple):
    """A policy on a variant of the log, and its runs."""

    policy: Policy
    label: str
    variant: LogVariant
    runs: list[Run]
    rows: int
    """The rows of the log in this variant."""
    horizon: int
    """The number of decisions that the policy plans for."""


def figures_of(
    plan: PlannedReplay, log: Log, floor: float, level: float, seed: int, *, weighs: bool
) -> PolicyReplay:
    """Return the estimates of a policy, and what else is known of its runs."""
    scale = Scale(*log.bounds)
    tallies = [run.tally for run in plan.runs]
    # A probability of at most 1 over a propensity that is raised to the floor.
    heaviest = 1.0 / floor
    # Every policy has the same generator, so that its figures do not depend on the others.
    generator = generator_for(seed, Purpose.BOOTSTRAP)
    found = estimates_of(tallies, scale, heaviest, level, weighs, generator)
    gain = None
    if weighs:
        value, ends = estimate_gain(tallies, scale, heaviest, level)
        gain = Gain(value=value, low=ends.low, high=ends.high)
    accepted = np.array([tally.counts[ACCEPTED] for tally in tallies], dtype=np.float64)
    sums = np.array([tally.sums[REPLAYED, TOTAL] for tally in tallies])
    means = sums[accepted > 0] / accepted[accepted > 0]
    pulls = np.sum([tally.pulls for tally in tallies], axis=0)
    return PolicyReplay(
        policy=plan.label,
        specification=plan.policy.to_builtins(),
        form=plan.variant.name,
        rows=plan.rows,
        logged_mean=scale.reward(float(tallies[0].moments[LOGGED]) / plan.rows),
        rounds=float(accepted.mean()),
        acceptance=float(accepted.mean()) / plan.rows,
        horizon=plan.horizon,
        estimates=found,
        lowest=scale.reward(float(means.min())) if means.size else None,
        highest=scale.reward(float(means.max())) if means.size else None,
        shares=(pulls / max(1, pulls.sum())).tolist(),
        gain=gain,
        verdict=_verdict(found[-1].is_enough, gain),
        attack=_attack(plan),
        curve=_curve(plan, scale),
        leaves=[] if log.schema is None else leaves_of(tallies, log.schema, log.arms, scale),
    )


def _verdict(is_enough: bool, gain: Gain | None) -> Conclusion:
    if not is_enough:
        return "not enough data"
    if gain is None or gain.low <= 0.0 <= gain.high:
        return "undecided"
    return "better" if gain.low > 0.0 else "worse"


def _attack(plan: PlannedReplay) -> AttackOnLog | None:
    if isinstance(plan.variant.attack, NoAttack):
        return None
    return AttackOnLog(
        specification=plan.variant.attack.to_builtins(),
        budget=plan.variant.budget,
        spent=float(np.mean([run.ledger.charged[0] for run in plan.runs])),
        seen=float(np.mean([run.ledger.seen[0] for run in plan.runs])),
        found_by=plan.variant.found_by,
    )


def _curve(plan: PlannedReplay, scale: Scale) -> list[tuple[float, float, float]]:
    """Return rows, rounds and the mean reward so far, at some places along the log."""
    curve = np.mean([run.tally.curve for run in plan.runs], axis=0)
    return [
        (float(rows), float(rounds), scale.reward(float(paid / rounds)))
        for rows, rounds, paid, _ in curve
        if rounds > 0.0
    ]
