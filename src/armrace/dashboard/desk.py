"""The desk of a fraud team: sources, units and labels, what to do about them, files of verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from starlette.requests import Request

from armrace.dashboard.conclusions import median_delay
from armrace.dashboard.rendering import address, render
from armrace.dashboard.streaming import CachedCalls, Content
from armrace.errors import InvalidParameter, UnknownName
from armrace.files.spreadsheets import csv_text
from armrace.formatting import number_of
from armrace.limits import read_moment
from armrace.offline.identifiers import IdentifierFile, selector_of
from armrace.service.http.access import Caller
from armrace.service.http.endpoints import read_body
from armrace_client.answers import ExperimentView, GroupList, GroupView, HistoryView
from armrace_client.operations import Describe, ListGroups, ReadHistory, StartAfresh

FIRST_DELAY, LAST_DELAY = 4, 32
"""The delays that are drawn, as powers of two of milliseconds."""
_ROWS = 15
_SUSPECTS = 3
_DAY, _MINUTE = 86_400_000, 60_000
_ALL = 5_000_000
SORTS = {
    "visits": "heaviest",
    "newest": "newest",
    "difference": "most different",
    "moved": "moved a mean most",
    "ruled": "ruled about most",
    "name": "name",
}
FILTER = ("by", "search", "since", "until")
"""The fields that say which groups a page shows."""


def groups_of(number: int, by: str) -> str:
    """Return a number of sources, of visitors or of values of a label in words."""
    label = by.removeprefix("label:")
    if label != by:
        return f"{number_of(number, 'value')} of {label}"
    return number_of(number, "visitor" if by == "unit" else by)


def asked_groups(name: str, fields: Mapping[str, str], **more: Any) -> ListGroups:
    """Return the question for the groups that an address describes."""
    sort: Any = fields.get("sort", "visits")
    if sort not in SORTS:
        raise UnknownName.among("sort", sort[:40], SORTS)
    times = {each: milliseconds(each, fields) for each in ("since", "until")}
    search = fields.get("search", "").strip()[:200]
    given = {"sort": sort, **times, "search": search, **more}
    return ListGroups(name, fields.get("by") or "source", **given)


def milliseconds(name: str, fields: Mapping[str, str]) -> int | None:
    """Return a time that a field gives in UTC, in milliseconds since 1970."""
    text = fields.get(name, "").strip()
    return read_moment(name, text) if text else None


# --- the table --------------------------------------------------------------------------------


async def desk_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return the sources, units or values of a label that an address asks for."""
    skip = int(text) if (text := fields.get("skip", "")).isdecimal() and len(text) < 9 else 0
    asked = asked_groups(name, fields, skip=skip, most=_ROWS)
    view = await reading.call(caller, Describe(name))
    found = await reading.call(caller, asked)
    shown = {each: fields[each] for each in (*FILTER, "sort") if fields.get(each)}
    html = render(
        "parts/desk.html",
        name=name,
        caller=caller,
        view=view,
        asked=asked,
        found=found,
        groups=groups_of(found.found, asked.by),
        rows=[group_row(each, found) for each in found.groups],
        fields={"since": "", "until": "", **shown},
        sorts=SORTS,
        link=lambda path="/sources", **more: address(path, name=name, **{**shown, **more}),
        is_filtered=bool(asked.search or asked.since is not None or asked.until is not None),
        holds={each.source: each for each in view.holds if not each.labels},
        next=skip + _ROWS if skip + _ROWS < found.found else None,
        previous=max(0, skip - _ROWS) if skip else None,
        first_delay=FIRST_DELAY,
    )
    return {"desk": html}


def group_row(group: GroupView, found: GroupList) -> dict[str, Any]:
    """Return a group with its shares by arm next to those of the rest."""
    arms = shares_of(group.arms, found.rewards_by_arm)
    shown = shares_of(group.shown, found.visits_by_arm)
    pairs = zip(count(), found.arms, arms, shown, strict=False)
    table: list[dict[str, Any]] = [
        {"place": place, "arm": arm, "rewards": own, "visits": seen}
        for place, arm, own, seen in pairs
    ]
    return {
        "group": group,
        "rate": group.rewarded / group.visits if group.visits else None,
        "arms": table,
        "most": max(table, key=lambda each: each["rewards"][0] - each["rewards"][1], default=None),
        "delay": median_delay(group.delays),
        "delays": group.delays[FIRST_DELAY:LAST_DELAY],
        "usual_delays": [
            whole - own for whole, own in zip(found.delays, group.delays, strict=False)
        ][FIRST_DELAY:LAST_DELAY],
    }


def shares_of(own: list[int], whole: list[int]) -> list[tuple[float, float]]:
    """Return the shares of counts, each next to the share in all others.

    >>> shares_of([1, 0], [2, 1])
    [(1.0, 0.5), (0.0, 0.5)]
    """
    mine, rest = max(1, sum(own)), max(1, sum(whole) - sum(own))
    return [(a / mine, (b - a) / rest) for a, b in zip(own, whole, strict=False)]


async def group_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return everything about one source, unit or value of a label."""
    by, key = fields.get("by") or "source", fields.get("key", "")
    asked = asked_groups(name, {**fields, "search": key}, whole=True)
    view = await reading.call(caller, Describe(name))
    found = await reading.call(caller, asked)
    if found.progress == 1.0 and not found.groups:
        raise UnknownName(f"no visit of that time is of the {by} {key[:100]!r}.")
    html = render(
        "parts/group.html",
        name=name,
        caller=caller,
        view=view,
        found=found,
        by=by,
        key=key,
        row=group_row(found.groups[0], found) if found.groups else None,
        fields={"since": "", "until": "", **fields},
        first_delay=FIRST_DELAY,
    )
    return {"group": html}


async def suspects_of(
    reading: CachedCalls, caller: Caller, view: ExperimentView, history: HistoryView
) -> list[dict[str, Any]]:
    """Return the sources that differ most, with their shares of the rewards of the last day."""
    since = history.times[-1] // _MINUTE * _MINUTE - _DAY
    asked = ListGroups(view.name, sort="difference", since=since, most=_SUSPECTS)
    found = await reading.recent(caller, asked, None)
    total = max(1, sum(found.rewards_by_arm))
    return [
        {"group": each, "share": each.rewarded / total, "words": difference_words(each)}
        for each in found.groups
        if each.differs and each.name is not None
    ]


_WORDS = {
    "arms": "which arms are rewarded",
    "delays": "how late its rewards come",
    "rate": "how many visits are rewarded",
    "mean": "what its rewards are",
}


def difference_words(group: GroupView) -> str:
    """Say in what a group differs from the rest.

    >>> empty = GroupView("x", 0, 0, 0, 0, 0, 0, None, 0, 0, 0.5, ["mean", "rate"], 0.0, None,
    ...                   [], [], [])
    >>> difference_words(empty)
    'what its rewards are and how many visits are rewarded'
    """
    words = [_WORDS[each] for each in group.differs]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


# --- files ------------------------------------------------------------------------------------

_EXPORTED = (
    "name", "visits", "rewarded", "counted", "held", "retracted", "voided", "mean", "first", "last",
    "difference", "moved", "moved_arm",
)  # fmt: skip
EXPORTS = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


async def exported_groups(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str], kind: str
) -> bytes:
    """Return the groups that a page shows, all pages of them, as the content of a file."""
    found = await reading.call(caller, asked_groups(name, fields, most=_ALL))
    rows = [[getattr(each, field) for field in _EXPORTED] for each in found.groups]
    if kind == "csv":
        return csv_text([_EXPORTED, *rows]).encode()
    import polars

    with NamedTemporaryFile(prefix="armrace-groups-", suffix=".parquet") as kept:
        schema = {"name": polars.String, "mean": polars.Float64, "moved_arm": polars.String}
        frame = polars.DataFrame(
            rows, schema=list(_EXPORTED), schema_overrides=schema, orient="row"
        )
        frame.write_parquet(kept.name)
        return Path(kept.name).read_bytes()


_LARGEST_FILE = 2**26
_MOST_FILES = 16


class Verdicts(NamedTuple):
    """The names of a file that was sent."""

    by: str
    file: str
    names: list[str]
    sentences: list[str]


class SentFiles:
    """Files of verdicts between their preview and their ruling; the latest few are kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Verdicts] = {}

    def keep(self, tenant: str, form: Mapping[str, str], name: str, content: bytes) -> str:
        """Read a file; return what it is found by, which follows from its content."""
        by = form.get("by", "unit")
        column = form.get("column", "").strip()
        selector_of(by)
        with NamedTemporaryFile(prefix="armrace-names-") as kept:
            kept.write(content)
            kept.flush()
            try:
                read = IdentifierFile(Path(kept.name), by, column or None)
            except InvalidParameter as error:  # which names the temporary file
                raise type(error)(str(error).replace(kept.name, name[:100])) from None
            names = [each for part in read.parts(_LARGEST_FILE) for each in part.identifiers]
        said = f"{by}\0{column}\0".encode() + content
        digest = hashlib.blake2b(said, digest_size=16).hexdigest()
        self._kept.pop((tenant, digest), None)
        self._kept[tenant, digest] = Verdicts(by, name[:100], names, read.report.sentences())
        while len(self._kept) > _MOST_FILES:
            del self._kept[next(iter(self._kept))]
        return digest

    def find(self, tenant: str, digest: str) -> Verdicts:
        """Return the names of a file that was sent."""
        found = self._kept.get((tenant, digest))
        if found is None:
            raise InvalidParameter("the file is not here any more; send it again.")
        return found


async def read_file_form(request: Request) -> tuple[dict[str, str], str, bytes]:
    """Return the fields of a form with a file, its name and its content."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise InvalidParameter("the form must be sent as multipart/form-data.")
    body = await read_body(request.receive, _LARGEST_FILE, "file")
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1")
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    fields, name, content = {}, "", b""
    for part in message.iter_parts():
        data: Any = part.get_payload(decode=True) or b""
        field = part.get_param("name", "", header="content-disposition")
        if part.get_filename() is not None:
            name, content = str(part.get_filename()), data
        else:
            fields[str(field)] = data.decode("utf-8", "replace")
    return fields, name, content


# --- the world has changed --------------------------------------------------------------------


async def afresh_content(
    reading: CachedCalls, caller: Caller, name: str, fields: Mapping[str, str]
) -> Content:
    """Return both answers to an alarm: what was forged, or what starting afresh would change."""
    after = await reading.call(caller, StartAfresh(name, preview=True))
    before = await reading.call(caller, Describe(name))
    history = await reading.call(caller, ReadHistory(name))
    html = render(
        "parts/afresh.html",
        name=name,
        before=before,
        after=after,
        history=history,
        suspects=await suspects_of(reading, caller, before, history),
    )
    return {"afresh": html}
