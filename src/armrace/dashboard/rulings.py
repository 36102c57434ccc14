"""Rulings as pages make them: what a form asks for, what it would change, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request

from armrace.dashboard.charts import reward_chart
from armrace.dashboard.conclusions import conclude, matrix_rows
from armrace.dashboard.reading import Reading
from armrace.dashboard.rendering import address, render
from armrace.dashboard.streaming import Content
from armrace.errors import InvalidParameter
from armrace.service.http.access import Caller, is_of_another_site
from armrace.service.http.endpoints import read_body
from armrace_client.answers import ExperimentView, HistoryView
from armrace_client.errors import Forbidden
from armrace_client.operations import Hold, ListActions, Release, Retract, Ruling, Void

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
    """Return the fields of a form; of a field that is sent twice, the last counts.

    Raises:
        Forbidden: a page of another site sent the form.
        TooLarge: the form is too long.
        ClientGone: it did not come.
        InvalidParameter: it is not a form.
    """
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
    reading: Reading, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return the experiment as it is and as it would be after a ruling about a source."""
    asked = ruling_in(fields, preview=True)
    answer = await reading.call(caller, asked)
    assert answer.before is not None
    sides = [
        _side("As it is", answer.before, answer.history_before),
        _side("After this", answer.after, answer.history_after),
    ]
    charts = [side["chart"] for side in sides]
    same = {"low": min(each.low for each in charts), "high": max(each.high for each in charts)}
    for number, side in enumerate(sides):
        side["chart"] = msgspec.structs.replace(charts[number], name=f"reward-{number}", **same)
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
    return Content({"preview": html}, [side["chart"] for side in sides])


async def actions_content(
    reading: Reading, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return who changed what, when and why, the latest first."""
    before = _number(fields["before"]) if fields.get("before") else None
    found = await reading.call(caller, ListActions(name, before, _MOST_ACTIONS))
    older = found[-1].sequence if len(found) == _MOST_ACTIONS else None
    values = {"name": name, "actions": found, "older": older, "newest": before is None}
    return Content({"actions": render("parts/actions.html", **values)}, [])
