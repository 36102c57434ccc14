"""Where visits and rewards come from: by day, which sources differ, and what is held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from armrace.dashboard.conclusions import median_bin, median_delay
from armrace.dashboard.reading import Reading
from armrace.dashboard.rendering import render
from armrace.dashboard.streaming import Content
from armrace.service.http.access import Caller
from armrace_client.answers import ExperimentView, QuarantinedReward, SourceView
from armrace_client.operations import Describe, ListQuarantine, ListSources, ReadHistory

_MOST_DAYS = 14
_MOST_QUARANTINED, _MOST_SUSPECTS = 50, 3
_FIRST_DELAY, _LAST_DELAY = 4, 32
"""The delays that are drawn, as powers of two of milliseconds."""


async def sources_content(reading: Reading, caller: Caller, name: str) -> Content:
    """Return where visits and rewards come from, by day, and what is held."""
    sources = await reading.call(caller, ListSources(name))
    view = await reading.call(caller, Describe(name))
    total = sum(day.quarantined for each in sources for day in each.days)
    held = await _held(reading, caller, name, total)
    days = sorted({day.day for each in sources for day in each.days})
    if days and days[-1] == "earlier":
        days = ["earlier", *days[:-1]]
    shared = {"name": name, "caller": caller, "view": view}
    table = render(
        "parts/sources.html",
        **shared,
        sources=_source_rows(sources, view),
        first_delay=_FIRST_DELAY,
        days=days[-_MOST_DAYS:],
        hidden_days=max(0, len(days) - _MOST_DAYS),
        final={day.day: day.final for each in sources for day in each.days},
    )
    shown = None if held is None else held[::-1][:_MOST_QUARANTINED]
    quarantine = render("parts/quarantine.html", **shared, held=shown, total=total)
    return Content({"sources": table, "quarantine": quarantine}, [])


async def _held(
    reading: Reading, caller: Caller, name: str, total: int
) -> list[QuarantinedReward] | None:
    """Return the rewards that are held; ``None`` for a caller who may not see them.

    They are read from the whole log, so that they are asked for only when they may have changed:
    when there are more or fewer, or after a ruling.
    """
    if not caller.may_change:
        return None
    if total == 0:
        return []
    history = await reading.recent(caller, ReadHistory(name), None)
    return await reading.unchanged(caller, ListQuarantine(name), (total, history.rulings[-1:]))


async def suspects_of(
    reading: Reading, caller: Caller, view: ExperimentView
) -> list[dict[str, Any]]:
    """Return the sources that differ, with their shares of the rewards of the last day."""
    version = view.generation, len(view.arms)
    rows = _source_rows(await reading.recent(caller, ListSources(view.name), version), view)
    last = max((day for row in rows for day in row["days"] if day != "earlier"), default="earlier")
    came = [row["days"][last].counted if last in row["days"] else 0 for row in rows]
    return [
        {**row, "day": last, "share": number / sum(came)}
        for row, number in zip(rows, came, strict=True)
        if row["differs"] and row["view"].source is not None and number
    ][:_MOST_SUSPECTS]


def _source_rows(sources: list[SourceView], view: ExperimentView) -> list[dict[str, Any]]:
    rows = sorted(map(_source_row, sources), key=lambda row: (-row["rewards"], -row["visits"]))
    low, high = view.settings["rewards"]
    differences = describe_differences(
        [Habits(row["rewards"], row["mean"], row["view"].delays) for row in rows], high - low
    )
    holds = {each.source: each for each in view.holds if not each.labels}
    return [
        {**row, "differs": words, "hold": holds.get(row["view"].source)}
        for row, words in zip(rows, differences, strict=True)
    ]


def _source_row(view: SourceView) -> dict[str, Any]:
    days = view.days
    came = [day.counted + day.quarantined + day.retracted for day in days]
    total = sum((day.mean or 0.0) * number for day, number in zip(days, came, strict=True))
    return {
        "view": view,
        "days": {day.day: day for day in days},
        "visits": sum(day.visits for day in days),
        "rewards": sum(came),
        "counted": sum(day.counted for day in days),
        "quarantined": sum(day.quarantined for day in days),
        "retracted": sum(day.retracted for day in days),
        "mean": total / sum(came) if sum(came) else None,
        "delay": median_delay(view.delays),
        "delays": view.delays[_FIRST_DELAY:_LAST_DELAY],
    }


# --- sources that differ: a hint where to look first, since honest ones differ too -------------

_LEAST_SOURCES, _LEAST_REWARDS = 3, 50
_LEAST_SHARE = 0.15
"""Of the range of rewards: the least difference of means that is mentioned."""
_ERRORS = 4.0
"""The least difference of means in standard errors, of which none is larger than range / (2 n)."""
_DOUBLINGS = 3
"""The least difference of delays: eight times as fast or as slow."""


class Habits(NamedTuple):
    """What is compared of a source."""

    rewards: int
    mean: float | None
    delays: Sequence[int]
    """Counts, each of delays twice as long as those before."""


def describe_differences(sources: Sequence[Habits], span: float) -> list[str]:
    """Say of each source in which way it differs from the median of all; empty if it does not.

    >>> usual = [Habits(100, 0.6, [0, 0, 0, 0, 9]), Habits(100, 0.7, [0, 0, 0, 1, 9])]
    >>> describe_differences([*usual, Habits(400, 0.2, [9, 0, 0, 0, 0])], span=1.0)
    ['', '', 'lower mean, faster']
    """
    means = [each.mean for each in sources if each.mean is not None]
    bins = [found for each in sources if (found := median_bin(each.delays)) is not None]
    if min(len(means), len(bins)) < _LEAST_SOURCES:
        return [""] * len(sources)
    usual, usual_bin = median(means), median(bins)
    return [", ".join(_differences(each, usual, usual_bin, span)) for each in sources]


def _differences(source: Habits, usual: float, usual_bin: float, span: float) -> list[str]:
    own_bin = median_bin(source.delays)
    if source.rewards < _LEAST_REWARDS or source.mean is None or own_bin is None:
        return []
    words, away = [], source.mean - usual
    if abs(away) > span * max(_LEAST_SHARE, _ERRORS / 2 / math.sqrt(source.rewards)):
        words.append("higher mean" if away > 0 else "lower mean")
    if abs(own_bin - usual_bin) >= _DOUBLINGS:
        words.append("slower" if own_bin > usual_bin else "faster")
    return words
