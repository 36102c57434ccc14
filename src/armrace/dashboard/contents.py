"""The content of each page, made from answers of the API, and the rulings that forms ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
import numpy as np
from starlette.requests import Request

from armrace.audit.findings import Alarm
from armrace.dashboard.charts import (
    certificate_chart,
    expert_chart,
    reward_chart,
    traffic_chart,
)
from armrace.dashboard.conclusions import (
    FINE_PRINT,
    conclude,
    describe_holdout,
    describe_ratio,
    matrix_rows,
)
from armrace.dashboard.desk import (
    SentFiles,
    asked_groups,
    groups_of,
    milliseconds,
    suspects_of,
)
from armrace.dashboard.rendering import address, render
from armrace.dashboard.streaming import CachedCalls, Content
from armrace.errors import ArmraceError, InvalidParameter
from armrace.offline.identifiers import selector_of
from armrace.reports.charts import linear_axis
from armrace.service.http.access import Caller, is_of_another_site
from armrace.service.http.endpoints import read_body
from armrace.service.notices import Notice, describe_alarms
from armrace_client.answers import (
    ExperimentHealth,
    ExperimentView,
    GroupView,
    HistoryView,
    QuarantinedReward,
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
    "guardrails",
    "holdout",
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
    why = [await _why(reading, caller, each) if each.alarms else None for each in found]
    rows = [(each, _rates(each), notice) for each, notice in zip(found, why, strict=True)]
    rows.sort(key=lambda row: not row[0].alarms)  # the others stay in the order of creation
    more = found[-1].name if len(found) == _MOST_LISTED else None
    return {"experiments": render("parts/list.html", rows=rows, more=more)}


async def _why(reading: CachedCalls, caller: Caller, health: ExperimentHealth) -> Notice | None:
    """Return what an alarm has seen, and since when; looked for again at the next point alone."""
    version = health.alarms, len(health.times)
    try:
        audit = await reading.unchanged(caller, RunAudit(health.name), version)
        view = await reading.unchanged(caller, Describe(health.name), version)
        history = await reading.unchanged(caller, ReadHistory(health.name), version)
    except ArmraceError:  # deleted meanwhile, or its policy cannot be used here
        return None
    return describe_alarms(msgspec.convert(audit["alarms"], list[Alarm]), view, history)


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
        expert_chart(history),
    ]
    values: dict[str, Any] = {
        "caller": caller,
        "view": view,
        "history": history,
        "audit": audit,
        "conclusion": conclude(view, history, len(alarms)),
        "fine_print": FINE_PRINT,
        "notice": describe_alarms(alarms, view, history),
        "suspects": await suspects_of(reading, caller, view, history) if alarms else [],
        "movers": await _movers(reading, caller, name, alarms),
        "leaves": sorted(view.leaves, key=lambda e: (e.leaf not in strange, -e.decisions))[
            :_MOST_LEAVES
        ],
        "alarmed": alarmed,
        "columns": [(arm, "num") for arm in view.coefficients],
        "matrix": matrix_rows(view),
        "holdout_words": describe_holdout(view.holdout),
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


_MOST_QUARANTINED, _MOST_SUSPECTS = 50, 3


async def sources_content(reading: CachedCalls, caller: Caller, name: str) -> Content:
    """Return what is held, and what will be."""
    sources = await reading.call(caller, ListSources(name))
    view = await reading.call(caller, Describe(name))
    total = sum(day.quarantined for each in sources for day in each.days)
    held = await _held(reading, caller, name, total)
    shown = None if held is None else held[::-1][:_MOST_QUARANTINED]
    values = {"name": name, "caller": caller, "view": view, "held": shown, "total": total}
    return {"quarantine": render("parts/quarantine.html", **values)}


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


_KINDS: dict[str, type[Ruling]] = {
    "void": Void,
    "retract": Retract,
    "hold": Hold,
    "release": Release,
}
_LONGEST_DECISION = 19
_EVERY = 5_000_000
_LONGEST_FORM = 8192
_MOST_ACTIONS = 50


def refuse_other_sites(request: Request) -> None:
    """Refuse a form of a page of another site."""
    # Sign-in has no token yet: another site could sign a caller in with a key of its own.
    if is_of_another_site(request.scope, dict(request.scope["headers"])):
        raise Forbidden(
            "a form must be sent by a page of this service; a proxy must pass Host and "
            "X-Forwarded-Proto on."
        )


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a field that is sent twice, the last counts."""
    refuse_other_sites(request)
    content = await read_body(request.receive, _LONGEST_FORM, "form")
    try:
        found = parse_qs(content.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise InvalidParameter("the form cannot be read.") from None
    return {name: values[-1] for name, values in found.items()}


_SELECTION = ("by", "key", "source", "search", "all", "file", "ruled", "since", "until")
"""The fields that say which visits a preview or a form is about."""


class Chosen(NamedTuple):
    """The ruling that an address or a form describes."""

    ruling: Ruling
    what: str
    """The visits that it is about, in words."""
    is_one: bool
    """Whether they are of one source, or have one label, so that a hold of them can stand."""


async def ruling_in(
    reading: CachedCalls,
    caller: Caller,
    fields: Mapping[str, str],
    files: SentFiles,
    *,
    preview: bool = False,
) -> Chosen:
    """Return the ruling that a form or an address describes.

    It is about a source, a unit or the value of a label (``by`` and ``key``); all of those that a
    filter shows (``all``); what a file names; what a ruling of the past was about; or one decision.
    """
    verdict, name = fields.get("verdict", "void"), fields.get("name", "")
    if verdict not in _KINDS:
        raise InvalidParameter(f"verdict must be one of {', '.join(_KINDS)}; got {verdict[:40]!r}.")
    by, key = fields.get("by") or "source", fields.get("key", fields.get("source", ""))
    is_one = False
    selection: dict[str, Any]
    if "decision" in fields:
        selection, what = {"decisions": [_number(fields["decision"])]}, "one decision"
    elif fields.get("ruled"):
        selection, what = {"ruled": _number(fields["ruled"])}, "what that action was about"
    elif fields.get("file"):
        sent = files.find(caller.tenant, fields["file"])
        selection, what = selector_of(sent.by)(sent.names), f"{len(sent.names):,} of {sent.file}"
    elif fields.get("all"):
        found = await reading.call(caller, asked_groups(name, fields, most=_EVERY))
        names = [each.name for each in found.groups if each.name is not None]
        if not names:
            raise InvalidParameter("there is nothing that the search finds; change it.")
        selection, what = selector_of(by)(names), groups_of(len(names), by)
    else:
        selection, what, is_one = selector_of(by)([key]), key, by != "unit"
        if by.startswith("label:"):
            selection = {"labels": {by.removeprefix("label:"): key}}
    if fields.get("standing"):
        selection["standing"] = verdict in ("hold", "release")
    ruling = _KINDS[verdict](
        name,
        since=milliseconds("since", fields),
        until=milliseconds("until", fields),
        reason=fields.get("reason", "")[:1000],
        preview=preview,
        head=fields.get("head") or None,
        **selection,
    )
    return Chosen(ruling, what, is_one)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_DECISION:
        raise InvalidParameter(
            f"decision must be a number of at most {_LONGEST_DECISION} digits; got {text[:40]!r}."
        )
    return int(text)


def preview_address(fields: Mapping[str, str], **other: str) -> str:
    """Return the address of a preview."""
    given = {name: fields[name] for name in ("name", *_SELECTION, "verdict") if fields.get(name)}
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
    reading: CachedCalls,
    caller: Caller,
    name: str,
    fields: Mapping[str, str],
    files: SentFiles,
) -> Content:
    """Return the experiment as it is and as it would be after a ruling."""
    chosen = await ruling_in(reading, caller, fields, files, preview=True)
    asked = chosen.ruling
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
    verdict = fields.get("verdict", "void")
    given = {each: fields[each] for each in _SELECTION if fields.get(each)}
    same = asked.sources[0] if asked.sources else None, asked.labels or {}
    holds = [each for each in answer.before.holds if (each.source, each.labels) == same]
    html = render(
        "parts/preview.html",
        fields={"name": name, "since": "", "until": "", **given, "verdict": verdict},
        given={key: value for key, value in given.items() if key not in ("since", "until")},
        others={each: preview_address({**fields, "verdict": each}) for each in _KINDS},
        answer=answer,
        sides=sides,
        has_range=asked.since is not None or asked.until is not None,
        chosen=chosen,
        sent=files.find(caller.tenant, fields["file"]) if fields.get("file") else None,
        hold=holds[0] if holds and chosen.is_one else None,
    )
    return {"preview": html}


async def actions_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return who changed what, when and why, the latest first."""
    before = _number(fields["before"]) if fields.get("before") else None
    found = await reading.call(caller, ListActions(name, before, _MOST_ACTIONS))
    older = found[-1].sequence if len(found) == _MOST_ACTIONS else None
    values = {"name": name, "caller": caller, "actions": found, "older": older}
    return {"actions": render("parts/actions.html", **values, newest=before is None)}
