"""The audit of a log that another system made: each arm's rewards in the order of the rows.

There are no layers to compare, so that only changes over time are looked for, and, where rows name
their sources, sources whose rewards differ from those of all others on the same arm. Each of the
two has half of the level.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.audit.audit_trail import watch_unchecked
from armrace.audit.auditing import LEVEL, audit
from armrace.audit.findings import MOVED, Audit, describe_chance
from armrace.formatting import count, figure
from armrace.kernels.dispatch import implement, implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import Ticket, assign, choose, distribution, learn, make_ticket
from armrace.kernels.handles import call_entry
from armrace.kernels.replay import make_auditor
from armrace.kernels.streams import Stream
from armrace.limits import check_number
from armrace.offline.log import Log
from armrace.offline.rows import RowReport
from armrace.policies.common.blocks import log_evidence
from armrace.reports import NotebookView
from armrace.statistics.proportions import Scale

_FEWEST_ROWS = 16
LIMITS = (
    "What this can show: that an arm's rewards changed at some time, or came in waves, or that one "
    "source pays differently from the others on the same arm. What it cannot show: forging that "
    "was the same all along and in all sources; who forged; and whether an alarm is fraud, a "
    "season, another audience or a change of the page. Only layers of a race that hides them tell "
    "how much was forged under an attack that adapts."
)
"""What an audit of a foreign log can and cannot show."""


class Bystander(NamedTuple):
    """The state of a policy that never decides and learns nothing, so that it can be watched."""

    arms: npt.NDArray[np.int64]


@implement(distribution, Bystander)
def bystander_distribution(state: Bystander, out: npt.NDArray[np.float64]) -> None:
    """Give every arm the same probability."""
    out[:] = 1.0 / out.size


@implement(choose, Bystander)
def bystander_choose(state: Bystander, stream: Stream) -> Ticket:
    """Choose the first arm; nothing asks for it."""
    return make_ticket(0)


@implement(assign, Bystander)
def bystander_assign(state: Bystander, ticket: Ticket) -> Ticket:
    """Count nothing."""
    return ticket


@implement(learn, Bystander)
def bystander_learn(state: Bystander, ticket: Ticket, reward: float) -> None:
    """Learn nothing."""


class SourceAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """A source whose rewards on an arm differ from those of all other rows of that arm."""

    source: str
    arm: str
    rows: int
    mean: float
    other_rows: int
    other_mean: float
    chance: float
    """Honest feedback of equal means differs this much with at most this probability, for all
    sources and arms together."""

    @property
    def words(self) -> str:
        """Say it in one sentence."""
        return (
            f"Source {self.source} pays {figure(self.mean)} on arm {self.arm} ({count(self.rows)} "
            f"rows), all others {figure(self.other_mean)} ({count(self.other_rows)} rows). Its "
            f"rewards were forged, or its visitors differ, {MOVED} while it paid. Equal means "
            f"give such a difference with a probability {describe_chance(self.chance)}."
        )


class LogAudit(msgspec.Struct, NotebookView, frozen=True, kw_only=True):
    """What the rewards of a log show of corruption."""

    log: str
    report: RowReport
    audit: Audit
    sources: list[SourceAlarm]

    @property
    def alarmed(self) -> bool:
        """Whether there is any alarm."""
        return self.audit.alarmed or bool(self.sources)

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, with the sentences."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["audit"] = self.audit.to_builtins()
        for plain, alarm in zip(data["sources"], self.sources, strict=True):
            plain["words"] = alarm.words
        return {**data, "words": str(self)}

    def __str__(self) -> str:
        """The rows, all alarms, and what they can and cannot show, one per line."""
        return "\n".join(
            [
                *self.report.sentences(),
                str(self.audit),
                *(alarm.words for alarm in self.sources),
                LIMITS,
            ]
        )


def audit_log(log: Log, level: float = 0.05) -> LogAudit:
    """Look for traces of corruption, or of moved means, in the rewards of a log."""
    check_number("level", level, LEVEL)
    arms = len(log.arms)
    watched = watch_unchecked(Bystander(np.zeros(arms, dtype=np.int64)), arms, log.rows)
    show = make_auditor(fingerprint(implementations(watched)))
    shape = (len(log.sources), arms)
    rows, sums = np.zeros(shape), np.zeros(shape)
    for batch in log.batches():
        call_entry(show, watched, batch.arms, batch.rewards)
        if log.sources:
            known = batch.sources >= 0
            cells = batch.sources[known] * arms + batch.arms[known]
            rows += np.bincount(cells, minlength=rows.size).reshape(shape)
            sums += np.bincount(cells, batch.rewards[known], minlength=rows.size).reshape(shape)
    share = level / 2 if log.sources else level
    return LogAudit(
        log=log.name,
        report=log.report,
        audit=audit(watched, share, log.arms),
        sources=_differing(log, rows, sums, share),
    )


def _differing(
    log: Log, rows: npt.NDArray[np.float64], sums: npt.NDArray[np.float64], level: float
) -> list[SourceAlarm]:
    """Return the sources that differ, the most striking first, at a level for all together.

    The rows of a source that differs are left out before the others are compared, or it would make
    all others differ from a whole that it distorts. If no source differs there is no first alarm,
    so that leaving out does not raise the probability of a false one.
    """
    pulls, totals = log.pulls.astype(np.float64), log.totals.copy()
    rows, sums = rows.copy(), sums.copy()
    # Counted before any source is left out: the level is divided among all tests that may be made.
    tests = int(((rows >= _FEWEST_ROWS) & (pulls - rows >= _FEWEST_ROWS)).sum())
    found: list[SourceAlarm] = []
    scale = Scale(*log.bounds)
    while len(found) < tests:
        source, arm, log_value = _most_striking(rows, sums, pulls, totals)
        chance = tests * math.exp(-log_value)
        # Written so that a NaN, too, ends the search.
        if not chance < level:
            break
        own, paid = float(rows[source, arm]), float(sums[source, arm])
        pulls[arm] -= own
        totals[arm] -= paid
        rows[source, arm] = sums[source, arm] = 0.0
        found.append(
            SourceAlarm(
                source=log.sources[source],
                arm=log.arms[arm],
                rows=int(own),
                mean=scale.low + scale.difference(paid) / own,
                other_rows=int(pulls[arm]),
                other_mean=scale.low + scale.difference(float(totals[arm])) / float(pulls[arm]),
                chance=chance,
            )
        )
    return found


def _most_striking(
    rows: npt.NDArray[np.float64],
    sums: npt.NDArray[np.float64],
    pulls: npt.NDArray[np.float64],
    totals: npt.NDArray[np.float64],
) -> tuple[int, int, float]:
    """Return the source and arm with most evidence against equal means, and its logarithm."""
    best = (0, 0, -math.inf)
    tested = np.argwhere((rows >= _FEWEST_ROWS) & (pulls - rows >= _FEWEST_ROWS))
    for source, arm in tested.tolist():
        own, paid = float(rows[source, arm]), float(sums[source, arm])
        rest = float(pulls[arm]) - own
        # Differences of long sums may leave the range by a rounding error.
        rest_paid = min(max(float(totals[arm]) - paid, 0.0), rest)
        value = log_evidence(own, min(paid, own), rest, rest_paid)
        if value > best[2]:
            best = (source, arm, value)
    return best
