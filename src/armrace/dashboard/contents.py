"""The content of each page, made from answers of the API, and the rulings that forms ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
import numpy as np
from starlette.requests import Request

from armrace.audit.findings import Alarm
from armrace.dashboard.charts import certificate_chart, reward_chart, traffic_chart
from armrace.dashboard.conclusions import (
    FINE_PRINT,
    conclude,
    describe_alarms,
    describe_ratio,
    matrix_rows,
    median_bin,
    median_delay,
)
from armrace.dashboard.rendering import address, render
from armrace.dashboard.streaming import CachedCalls, Content
from armrace.errors import InvalidParameter
from armrace.reports.charts import linear_axis
from armrace.service.http.access import Caller, is_of_another_site
from armrace.service.http.endpoints import read_body
from armrace_client.answers import (
    ExperimentHealth,
    ExperimentView,
    GroupView,
    HistoryView,
    QuarantinedReward,
    SourceView,
)
from armrace_client.errors import Forbidden
from armrace_client.operations import (
    AUDIT_LEVEL,
    CheckRatio,
    Describe,
    Hold,
    ListActions,
    ListGroups,
    ListQuarantine,
    ListSources,
    ReadHealth,
    ReadHistory,
    Release,
    Retract,
    Ruling,
    RunAudit,
    Void,
)

_MOST_LISTED = 200
_SPARK_POINTS = 40
_MOST_LEAVES = 40
_PARTS = (
    "alarm",
    "summary",
    "traffic",
    "reward",
    "leaves",
    "matrix",
    "audit",
    "ratio",
    "trail",
    "settings",
)


async def list_content(reading: CachedCalls, caller: Caller, name: str) -> Content:
    """Return the list of experiments, from the one after ``name`` on."""
    found = await reading.call(caller, ReadHealth(name, _MOST_LISTED))
    rows = [(each, _rates(each)) for each in found]
    more = len(found) == _MOST_LISTED
    return {"experiments": render("parts/list.html", rows=rows, more=more)}


def _rates(health: ExperimentHealth) -> list[float]:
    """Return the decisions a second in equal parts of the time, for a small line."""
    times = np.linspace(health.times[0], health.times[-1], _SPARK_POINTS + 1)
    rates = np.diff(np.interp(times, health.times, health.traffic))
    return [max(0.0, float(each)) for each in rates]


async def experiment_content(reading: CachedCalls, caller: Caller, name: str) -> Content:
    """Return the overview of one experiment."""
    view = await reading.call(caller, Describe(name))
    version = view.generation, len(view.arms)  # a history of another shape would not fit the view
    history = await reading.recent(caller, ReadHistory(name), version)
    audit = await _audit(reading, caller, name, version)
    ratio = await reading.recent(caller, CheckRatio(name), version)
    alarms = msgspec.convert(audit["alarms"], list[Alarm])
    alarmed = {(each.leaf, each.arm) for each in alarms}
    strange = {leaf for leaf, _ in alarmed}
    charts = [
        traffic_chart(history),
        reward_chart(history, view.settings["rewards"]),
        certificate_chart(history),
    ]
    values: dict[str, Any] = {
        "caller": caller,
        "view": view,
        "history": history,
        "audit": audit,
        "conclusion": conclude(view, history, len(alarms)),
        "fine_print": FINE_PRINT,
        "notice": describe_alarms(alarms, view, history),
        "suspects": await suspects_of(reading, caller, view) if alarms else [],
        "movers": await _movers(reading, caller, name, alarms),
        "leaves": sorted(view.leaves, key=lambda e: (e.leaf not in strange, -e.decisions))[
            :_MOST_LEAVES
        ],
        "alarmed": alarmed,
        "columns": [(arm, "num") for arm in view.coefficients],
        "matrix": matrix_rows(view),
        "ratio": ratio,
        "ratio_words": describe_ratio(ratio),
        "charts": {chart.name: chart for chart in charts},
    }
    return {each: render(f"parts/{each}.html", **values) for each in _PARTS}


async def _movers(
    reading: CachedCalls, caller: Caller, name: str, alarms: list[Alarm]
) -> list[GroupView]:
    """Return the sources that have moved a mean most among the visitors of an alarm."""
    leaf = min(alarms, key=lambda each: each.chance).leaf if alarms else None
    if leaf is None:
        return []
    asked = ListGroups(name, sort="moved", leaf=str(leaf), most=_MOST_SUSPECTS)
    found = (await reading.recent(caller, asked, None)).groups
    least = abs(found[0].moved) / 2 if found else 0.0
    return [e for e in found if e.name and e.moved_arm is not None and abs(e.moved) >= least]


async def _audit(
    reading: CachedCalls, caller: Caller, name: str, version: tuple[int, int]
) -> dict[str, Any]:
    """Return an audit, or one without alarms that says why there is none."""
    try:
        return await reading.recent(caller, RunAudit(name), version)
    except InvalidParameter as refusal:
        return {"alarms": [], "words": str(refusal), "level": AUDIT_LEVEL}


_MOST_DAYS = 14
_MOST_QUARANTINED, _MOST_SUSPECTS = 50, 3
_FIRST_DELAY, _LAST_DELAY = 4, 32
"""The delays that are drawn, as powers of two of milliseconds."""


async def sources_content(reading: CachedCalls, caller: Caller, name: str) -> Content:
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
    return {"sources": table, "quarantine": quarantine}


async def _held(
    reading: CachedCalls, caller: Caller, name: str, total: int
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
    reading: CachedCalls, caller: Caller, view: ExperimentView
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


_KINDS: dict[str, type[Ruling]] = {
    "void": Void,
    "retract": Retract,
    "hold": Hold,
    "release": Release,
}
_LONGEST_DECISION = 19
_LONGEST_FORM = 8192
_MOST_ACTIONS = 50


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a field that is sent twice, the last counts."""
    # Sign-in has no token yet: another site could sign a caller in with a key of its own.
    if is_of_another_site(request.scope, dict(request.scope["headers"])):
        raise Forbidden(
            "a form must be sent by a page of this service; a proxy must pass Host and "
            "X-Forwarded-Proto on."
        )
    content = await read_body(request.receive, _LONGEST_FORM, "form")
    try:
        found = parse_qs(content.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise InvalidParameter("the form cannot be read.") from None
    return {name: values[-1] for name, values in found.items()}


def ruling_in(fields: Mapping[str, str], *, preview: bool = False) -> Ruling:
    """Return the ruling that a form or an address describes: about a source, or one decision."""
    verdict = fields.get("verdict", "void")
    if verdict not in _KINDS:
        raise InvalidParameter(f"verdict must be one of {', '.join(_KINDS)}; got {verdict[:40]!r}.")
    selection: dict[str, Any] = {"sources": [fields.get("source", "")]}
    if "decision" in fields:
        selection = {"decisions": [_number(fields["decision"])]}
    if fields.get("standing"):
        selection["standing"] = verdict in ("hold", "release")
    return _KINDS[verdict](
        fields.get("name", ""),
        since=_milliseconds("since", fields),
        until=_milliseconds("until", fields),
        reason=fields.get("reason", "")[:1000],
        preview=preview,
        head=fields.get("head") or None,
        **selection,
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_DECISION:
        raise InvalidParameter(
            f"decision must be a number of at most {_LONGEST_DECISION} digits; got {text[:40]!r}."
        )
    return int(text)


def _milliseconds(name: str, fields: Mapping[str, str]) -> int | None:
    """Return a time that a field gives in UTC, in milliseconds since 1970."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise InvalidParameter(
            f"{name} must be a time in UTC, such as 2026-03-01T14:00; got {text[:40]!r}."
        ) from None


def preview_address(fields: Mapping[str, str], **other: str) -> str:
    """Return the address of a preview."""
    names = ("name", "source", "verdict", "since", "until")
    given = {name: fields[name] for name in names if fields.get(name)}
    return address("/preview", **{**given, **other})


def _side(title: str, view: ExperimentView | None, history: HistoryView | None) -> dict[str, Any]:
    assert view is not None
    assert history is not None
    return {
        "title": title,
        "history": history,
        "conclusion": conclude(view, history, history.alarms[-1]),
        "matrix": matrix_rows(view),
        "chart": reward_chart(history, view.settings["rewards"]),
    }


async def preview_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return the experiment as it is and as it would be after a ruling about a source."""
    asked = ruling_in(fields, preview=True)
    answer = await reading.call(caller, asked)
    assert answer.before is not None
    sides = [
        _side("As it is", answer.before, answer.history_before),
        _side("After this", answer.after, answer.history_after),
    ]
    panels = [side["chart"].panel for side in sides]
    low, high = min(each.y.low for each in panels), max(each.y.high for each in panels)
    for side, panel in zip(sides, panels, strict=True):
        axis = linear_axis(panel.y.label, low, high, side["chart"].text)
        side["chart"] = side["chart"]._replace(panel=panel._replace(y=axis))
    verdict, source = fields.get("verdict", "void"), fields.get("source", "")
    html = render(
        "parts/preview.html",
        fields={"name": name, "source": source, "verdict": verdict, "since": "", "until": ""}
        | {key: fields[key] for key in ("since", "until") if key in fields},
        others={each: preview_address(fields, verdict=each) for each in _KINDS},
        answer=answer,
        sides=sides,
        has_range=asked.since is not None or asked.until is not None,
        hold=next((h for h in answer.before.holds if h.source == source and not h.labels), None),
    )
    return {"preview": html}


async def actions_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return who changed what, when and why, the latest first."""
    before = _number(fields["before"]) if fields.get("before") else None
    found = await reading.call(caller, ListActions(name, before, _MOST_ACTIONS))
    older = found[-1].sequence if len(found) == _MOST_ACTIONS else None
    values = {"name": name, "actions": found, "older": older, "newest": before is None}
    return {"actions": render("parts/actions.html", **values)}
