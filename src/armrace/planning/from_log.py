"""Arms and traffic for a plan, out of a log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from armrace.errors import InvalidParameter
from armrace.formatting import count, figure, span
from armrace.offline import Log
from armrace.statistics.bernstein import bernstein_interval
from armrace.statistics.proportions import Interval, clopper_pearson

__all__ = ["FromLog", "read_traffic"]

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
