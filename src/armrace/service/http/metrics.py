"""What ``GET /metrics`` tells Prometheus, worked out beside the threads that serve."""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from armrace.errors import ArmraceError
from armrace.service.engine import Engine
from armrace.service.model.events import ACTIONS, verdicts_in
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.visits import DAY, Sources
from armrace.service.operations.inspection import note_of_backups
from armrace.service.work import Shard

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
MOST_SHOWN = 300
"""How many experiments have figures of their own: first those with an alarm, then the newest."""
_LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""The seconds by which answers are counted."""
_RECENT_DAYS = 2
"""The share of the top source is one of the decisions of today and yesterday."""


class RequestCounts:
    """What was counted of requests since the process began."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        """Answers by endpoint and status."""
        self.problems: Counter[str] = Counter()
        """Refusals by code."""
        self.durations = [0] * (len(_LIMITS) + 1)
        """How many answers took up to each limit and more than the one before."""
        self.seconds = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.answers[path, status] += 1
        self.seconds += seconds
        self.durations[bisect_left(_LIMITS, seconds)] += 1

    def families(self) -> Iterator[Metric]:
        """Yield all counts."""
        requests = CounterMetricFamily(
            "armrace_requests", "Answers.", labels=["endpoint", "status"]
        )
        for (path, status), count in sorted(self.answers.items()):
            requests.add_metric([path, str(status)], count)
        refusals = CounterMetricFamily("armrace_refusals", "Refusals.", labels=["code"])
        for code, count in sorted(self.problems.items()):
            refusals.add_metric([code], count)
        seconds = HistogramMetricFamily("armrace_request_seconds", "How long answers took.")
        limits = [*(f"{each:g}" for each in _LIMITS), "+Inf"]
        counts = accumulate([*self.durations])
        seconds.add_metric([], list(zip(limits, counts, strict=True)), self.seconds)
        yield from (requests, refusals, seconds)


_FIGURES = {
    "alarms": "Alarms of the latest audit.",
    "certified_corruption": "A lower bound on how much rewards were changed, if means stay.",
    "decisions": "Decisions, without those that were voided.",
    "open_visits": "Visits whose window is open.",
    "conflicts": "Rewards that were refused because their visit has a different one.",
    "held_rewards": "Rewards that are held now.",
    "retracted_rewards": "Rewards that are retracted now.",
    "voided_visits": "Visits that are voided now.",
    "top_source_share": "Share of the source with most rewards, for decisions of two days.",
    "last_reward_timestamp_seconds": "When the last reward came, or the state was saved since.",
}
"""What is shown of an experiment."""
_Shown = tuple[tuple[str, str], tuple[float, ...]]
"""Tenant and name of an experiment, and its figures in their order; alarms come first."""


class Metrics(Collector):
    """All metrics of a process; made in one thread at a time.

    Figures are read while the engine goes on, from copies of what it may change meanwhile: they
    are of about the same moment.
    """

    def __init__(
        self, engine: Engine, counts: RequestCounts, more: Collector | None = None
    ) -> None:
        self._engine, self._counts = engine, counts
        self._registry = CollectorRegistry()
        for each in filter(None, (self, more)):
            self._registry.register(each)
        self._voided: dict[int, tuple[object, int]] = {}
        """How many visits are voided, and the last ruling then."""
        self._alarmed: dict[int, _Shown] = {}
        """Experiments with an alarm, which are shown also when they have left memory."""

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of requests, of the process, and of experiments."""
        yield from self._counts.families()
        engine, loaded = self._engine, self._engine.loaded
        transactions = CounterMetricFamily("armrace_transactions", "Transactions of the store.")
        transactions.add_metric([], engine.transactions)
        yield transactions
        opened = sum(len(each.experiment.open) for each in loaded)
        yield _gauge("loaded_experiments", "Experiments in memory.", len(loaded))
        yield _gauge("open_visits", "Visits of these whose window is open.", opened)
        is_readable = engine.keyring.problem is None
        yield _gauge("keys_readable", "0 while the key file cannot be read.", is_readable)
        yield from self._of_store()
        yield from self._of_experiments(loaded)

    def _of_store(self) -> Iterator[Metric]:
        path = getattr(self._engine.store, "path", None)
        if path is None:  # a database, which is watched by its own means
            return
        with suppress(OSError):
            free = shutil.disk_usage(path.parent).free
            yield _gauge("store_free_bytes", "Free space where the store is.", free)
            made = note_of_backups(path).stat().st_mtime  # there is none before the first
            yield _gauge("last_backup_timestamp_seconds", "When a backup was last made.", made)

    def _of_experiments(self, loaded: list[Shard]) -> Iterator[Metric]:
        # Newest first: an order that does not change with every visit, as the last use would.
        shards = {each.log: each for each in sorted(loaded, key=lambda each: -each.log)}
        alarmed = [log for log, each in shards.items() if _findings(each.experiment)[0]]
        kept = self._kept(shards)
        room = MOST_SHOWN - len(kept)
        chosen = [*dict.fromkeys([*alarmed, *shards])][: max(0, room)]
        shown = {log: self._shown(shards[log]) for log in chosen}
        self._alarmed = {log: each for log, each in shown.items() if each[1][0]} | kept
        self._voided = {log: each for log, each in self._voided.items() if log in shown}
        count = len(alarmed) + len(kept)
        yield _gauge("alarmed_experiments", "Experiments with an alarm.", count)
        rows = [*shown.values(), *kept.values()]
        for place, (name, meaning) in enumerate(_FIGURES.items()):
            family = _gauge(f"experiment_{name}", meaning, None)
            for labels, figures in rows:
                family.add_metric(labels, figures[place])
            yield family

    def _kept(self, shards: Mapping[int, Shard]) -> dict[int, _Shown]:
        """Return the experiments that have left memory with an alarm and were not deleted."""
        away = {log: each for log, each in self._alarmed.items() if log not in shards}
        with suppress(ArmraceError):  # the store does not answer
            if away:
                with self._engine.store.transaction() as transaction:
                    for log, (name, _) in [*away.items()]:
                        if transaction.find_log(*name) != log:
                            del away[log]
        return away

    def _shown(self, shard: Shard) -> _Shown:
        experiment = shard.experiment
        day = experiment.time // DAY - _RECENT_DAYS
        held, retracted, share = _sums(experiment.sources, day)
        figures = (
            *_findings(experiment),
            experiment.decisions,
            len(experiment.open),
            experiment.conflicts,
            held,
            retracted,
            self._count_voided(shard),
            share,
            experiment.rewarded_at / 1000,
        )
        return (experiment.tenant, experiment.name), figures

    def _count_voided(self, shard: Shard) -> int:
        rulings = shard.experiment.history.rulings
        if not rulings:
            return 0
        known = self._voided.get(shard.log)
        if known is None or known[0] is not rulings[-1]:
            known = rulings[-1], 0 if known is None else known[1]
            with suppress(ArmraceError):  # the store does not answer
                with self._engine.store.transaction() as transaction:
                    records = list(transaction.find_many(shard.log, (ACTIONS,)))
                known = known[0], sum(each == "void" for each in verdicts_in(records).values())
                self._voided[shard.log] = known
        return known[1]


def _gauge(name: str, meaning: str, value: float | None) -> GaugeMetricFamily:
    labels = ["tenant", "experiment"] if value is None else None
    return GaugeMetricFamily(f"armrace_{name}", meaning, value, labels=labels)


def _findings(experiment: ExperimentState) -> tuple[int, float]:
    points = experiment.history.points
    return (points[-1].alarms, points[-1].certificate) if points else (0, 0.0)


def _sums(sources: Sources, after: int) -> tuple[int, int, float]:
    """Return the rewards that are held and retracted, and the share of the top source lately."""
    held = retracted = total = top = 0
    for name, counts in [*sources.named.copy().items(), ("", sources.others)]:
        recent = 0
        for number, day in counts.days.copy().items():
            held += day.quarantined
            retracted += day.retracted
            if number > after:
                recent += day.counted + day.quarantined + day.retracted
        total += recent
        top = max(top, recent if name else 0)  # rewards without a source are of nobody
    return held, retracted, top / total if total else 0.0
