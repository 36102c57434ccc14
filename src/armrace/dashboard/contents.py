"""The parts of each page, made from answers of the API: HTML by the name of its place, and charts.

A page is put together from its parts, and the stream sends those that have changed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from armrace.dashboard.charts import Chart, certificate_chart, reward_chart, traffic_chart
from armrace.dashboard.outliers import Habits, describe_differences
from armrace.dashboard.pieces import Cut, change, cut
from armrace.dashboard.reading import Reading
from armrace.dashboard.rendering import render
from armrace.dashboard.verdicts import (
    FINE_PRINT,
    describe_alarms,
    describe_ratio,
    make_verdict,
    matrix_rows,
    median_delay,
)
from armrace.forensics.findings import Alarm
from armrace.service.answers import (
    ExperimentHealth,
    ExperimentView,
    QuarantinedReward,
    SourceView,
)
from armrace.service.http.inside import Visitor

__all__ = [
    "Content",
    "Known",
    "experiment_content",
    "list_content",
    "preview_content",
    "sources_content",
]

_NAME = "/v1/experiments/{name}"
_SPARK_POINTS = 40
_MOST_DAYS = 14
_MOST_QUARANTINED, _MOST_SUSPECTS = 50, 3
_FIRST_DELAY, _LAST_DELAY = 4, 32
"""The delays that are drawn, as powers of two of milliseconds."""


class Content(NamedTuple):
    """A page without its frame."""

    parts: dict[str, str]
    charts: list[Chart]

    def message(self, known: Known) -> bytes | None:
        """Return what has changed as JSON, and note it as known; ``None`` if nothing has."""
        parts: dict[str, str] = {}
        pieces: dict[str, str] = {}
        for name, html in self.parts.items():
            before = known.parts.get(name)
            if before is not None and before.html == html:
                continue
            fresh = known.parts[name] = cut(html)
            whole, changed = change(before, fresh)
            if whole is not None:
                parts[name] = whole
            pieces.update(changed)
        charts = msgspec.json.encode(self.charts)
        new_charts = known.charts != charts
        known.charts = charts
        if not (parts or pieces or new_charts):
            return None
        return msgspec.json.encode(
            {"parts": parts, "pieces": pieces, "charts": self.charts if new_charts else []}
        )


class Known:
    """What was sent through a stream."""

    def __init__(self) -> None:
        self.parts: dict[str, Cut] = {}
        self.charts = b""


async def list_content(reading: Reading, visitor: Visitor) -> Content:
    """Return the list of experiments."""
    found: list[ExperimentHealth] = await reading.call(visitor, "GET", "/v1/health")
    rows = [(each, _rates(each)) for each in found]
    return Content({"experiments": render("parts/list.html", rows=rows)}, [])


def _rates(health: ExperimentHealth) -> list[float]:
    """Return the decisions a second in equal parts of the time, for a small line."""
    first, last = health.times[0], health.times[-1]
    points, place, totals = _SPARK_POINTS, 0, []
    for number in range(points + 1):
        time = first + (last - first) * number / points
        while place + 1 < len(health.times) and health.times[place + 1] <= time:
            place += 1
        totals.append(_at(health, place, time))
    return [max(0.0, after - before) for before, after in pairwise(totals)]


def _at(health: ExperimentHealth, place: int, time: float) -> float:
    """Return the decisions up to a time that lies at or after the mark ``place``."""
    if place + 1 == len(health.times):
        return float(health.traffic[-1])
    start, end = health.times[place], health.times[place + 1]
    part = (time - start) / (end - start)
    return health.traffic[place] + part * (health.traffic[place + 1] - health.traffic[place])


async def experiment_content(reading: Reading, visitor: Visitor, name: str) -> Content:
    """Return the page of one experiment."""
    view = await reading.call(visitor, "GET", _NAME, name)
    version = view.generation, len(view.arms)  # a course of another shape would not fit the view
    history = await reading.recent(visitor, f"{_NAME}/history", name, version)
    audit = await reading.recent(visitor, f"{_NAME}/audit", name, version)
    ratio = await reading.recent(visitor, f"{_NAME}/ratio", name, version)
    alarms = msgspec.convert(audit["alarms"], list[Alarm])
    charts = [
        traffic_chart(history),
        reward_chart(history, view.settings["rewards"]),
        certificate_chart(history),
    ]
    values: dict[str, Any] = {
        "view": view,
        "history": history,
        "audit": audit,
        "verdict": make_verdict(view, history, len(alarms)),
        "fine_print": FINE_PRINT,
        "notice": describe_alarms(alarms, view, history),
        "suspects": await _suspects(reading, visitor, view) if alarms else [],
        "matrix": matrix_rows(view),
        "ratio": ratio,
        "ratio_words": describe_ratio(ratio),
        "charts": {chart.name: chart for chart in charts},
    }
    names = (
        "alarm",
        "summary",
        "traffic",
        "reward",
        "matrix",
        "audit",
        "ratio",
        "trail",
        "settings",
    )
    return Content({each: render(f"parts/{each}.html", **values) for each in names}, charts)


async def _suspects(
    reading: Reading, visitor: Visitor, view: ExperimentView
) -> list[dict[str, Any]]:
    """Return the sources that differ, with their shares of the rewards of the last day."""
    version = view.generation, len(view.arms)
    sources = await reading.recent(visitor, f"{_NAME}/sources", view.name, version)
    rows = _source_rows(sources, view.settings["rewards"])
    last = max((day for row in rows for day in row["days"] if day != "earlier"), default="earlier")
    came = [row["days"][last].counted if last in row["days"] else 0 for row in rows]
    return [
        {**row, "day": last, "share": number / sum(came)}
        for row, number in zip(rows, came, strict=True)
        if row["differs"] and row["view"].source is not None and number
    ][:_MOST_SUSPECTS]


async def sources_content(reading: Reading, visitor: Visitor, name: str) -> Content:
    """Return where rewards come from, by day, and the quarantine."""
    sources: list[SourceView] = await reading.call(visitor, "GET", f"{_NAME}/sources", name)
    total = sum(day.quarantined for each in sources for day in each.days)
    held = await _held(reading, visitor, name, total)
    view = await reading.call(visitor, "GET", _NAME, name)
    days = sorted({day.day for each in sources for day in each.days})
    if days and days[-1] == "earlier":
        days = ["earlier", *days[:-1]]
    final = {day.day: day.final for each in sources for day in each.days}
    return Content(
        {
            "sources": render(
                "parts/sources.html",
                name=name,
                visitor=visitor,
                sources=_source_rows(sources, view.settings["rewards"]),
                first_delay=_FIRST_DELAY,
                days=days[-_MOST_DAYS:],
                hidden_days=max(0, len(days) - _MOST_DAYS),
                final=final,
                window=view.settings["window"],
            ),
            "quarantine": render(
                "parts/quarantine.html",
                name=name,
                visitor=visitor,
                held=None if held is None else held[::-1][:_MOST_QUARANTINED],
                total=total,
                threshold=view.settings["quarantine"],
            ),
        },
        [],
    )


async def _held(
    reading: Reading, visitor: Visitor, name: str, total: int
) -> list[QuarantinedReward] | None:
    """Return the rewards in quarantine; ``None`` for a visitor who may not see them.

    They are read from the whole log, so that they are asked for only when they may have changed:
    when there are more or fewer, or after a ruling.
    """
    if not visitor.may_change:
        return None
    if total == 0:
        return []
    history = await reading.recent(visitor, f"{_NAME}/history", name, None)
    version = total, history.rulings[-1:]
    found: list[QuarantinedReward] = await reading.unchanged(
        visitor, f"{_NAME}/quarantine", name, version
    )
    return found


def _source_rows(sources: list[SourceView], rewards: tuple[float, float]) -> list[dict[str, Any]]:
    rows = sorted(map(_source_row, sources), key=lambda row: -row["rewards"])
    differences = describe_differences(
        [Habits(row["rewards"], row["mean"], row["view"].delays) for row in rows],
        rewards[1] - rewards[0],
    )
    return [{**row, "differs": words} for row, words in zip(rows, differences, strict=True)]


def _source_row(view: SourceView) -> dict[str, Any]:
    days = view.days
    counted = sum(day.counted for day in days)
    rewards = counted + sum(day.quarantined + day.retracted for day in days)
    total = sum(day.mean * (day.counted + day.quarantined + day.retracted) for day in days)
    return {
        "view": view,
        "days": {day.day: day for day in days},
        "rewards": rewards,
        "counted": counted,
        "quarantined": sum(day.quarantined for day in days),
        "retracted": sum(day.retracted for day in days),
        "mean": total / rewards if rewards else None,
        "delay": median_delay(view.delays),
        "delays": view.delays[_FIRST_DELAY:_LAST_DELAY],
    }


async def preview_content(reading: Reading, visitor: Visitor, name: str, source: str) -> Content:
    """Return the race as it is and as it would be without the rewards of a source."""
    body = {"source": source}
    answer = await reading.call(visitor, "POST", f"{_NAME}/retract/preview", name, body)
    sides: list[tuple[Any, ...]] = []
    for title, view, history in (
        ("As it is", answer.before, answer.history_before),
        ("Without the source", answer.after, answer.history_after),
    ):
        chart = reward_chart(history, view.settings["rewards"])
        verdict = make_verdict(view, history, history.alarms[-1])
        side = title, view, history, verdict, matrix_rows(view)
        sides.append((*side, msgspec.structs.replace(chart, name=f"reward-{len(sides)}")))
    low = min(side[5].low for side in sides)
    high = max(side[5].high for side in sides)
    sides = [(*s[:5], msgspec.structs.replace(s[5], low=low, high=high)) for s in sides]
    values = {"name": name, "source": source, "answer": answer, "sides": sides, "visitor": visitor}
    return Content({"preview": render("parts/preview.html", **values)}, [s[5] for s in sides])
