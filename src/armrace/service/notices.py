"""An alarm in words for those who are not at home in the theory: on pages, and in webhooks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from armrace.audit.findings import Alarm, describe_chance, place_of
from armrace.formatting import figure
from armrace_client.answers import ExperimentView, HistoryView


class Notice(msgspec.Struct, frozen=True):
    """What the banner of an alarm says."""

    since: int | None
    """When it began, in milliseconds since 1970; ``None`` if that is not known."""
    seen: str
    """What was seen, in one sentence."""
    happened: str
    """The same, and how likely chance alone is to do that."""
    more: int
    """How many further alarms there are."""


def describe_alarms(
    alarms: Sequence[Alarm], view: ExperimentView, history: HistoryView
) -> Notice | None:
    """Say what the strongest alarm has seen, since when and how sure it is; None without one."""
    if not alarms:
        return None
    alarm = min(alarms, key=lambda each: (each.chance, each.since is None, each.since))
    mean, other = (figure(each) for each in alarm.means or (0.0, 0.0))
    arm = f"{alarm.arm}{place_of(alarm)}"
    seen = {
        "change": f"{arm} paid {mean} before that and {other} since.",
        "disagreement": f"Two layers of the race see {alarm.arm} pay {mean} and {other}.",
        "waves": f"{arm} pays in bursts: {mean} after low rewards, {other} after high ones.",
        "failed-layer": "More rewards were changed than some layers of the race withstand.",
    }[alarm.kind]
    happened = f"{seen} Chance alone does this with a probability {describe_chance(alarm.chance)}."
    # The history does not count the decisions of earlier generations, or of leaves, apart.
    unknown = alarm.since is None or view.generation or alarm.leaf is not None
    since = None if unknown else _time_of(history, alarm.since or 0)
    return Notice(since, seen, happened, len(alarms) - 1)


def _time_of(history: HistoryView, decisions: int) -> int:
    """Return the time by which so many decisions had been made."""
    totals = [sum(each) for each in zip(*history.decisions, strict=True)]
    return history.times[min(bisect_left(totals, decisions), len(totals) - 1)]
