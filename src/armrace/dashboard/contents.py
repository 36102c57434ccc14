"""The parts of the list of experiments and of the overview of one, made from answers of the API."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from armrace.dashboard.charts import certificate_chart, reward_chart, traffic_chart
from armrace.dashboard.conclusions import (
    FINE_PRINT,
    conclude,
    describe_alarms,
    describe_ratio,
    matrix_rows,
)
from armrace.dashboard.reading import Reading
from armrace.dashboard.rendering import render
from armrace.dashboard.sources import suspects_of
from armrace.dashboard.streaming import Content
from armrace.forensics.findings import Alarm
from armrace.service.http.access import Caller
from armrace_client.answers import ExperimentHealth
from armrace_client.operations import Audit, CheckRatio, Describe, ReadHealth, ReadHistory

_MOST_LISTED = 200
_SPARK_POINTS = 40
_PARTS = ("alarm", "summary", "traffic", "reward", "matrix", "audit", "ratio", "trail", "settings")


async def list_content(reading: Reading, caller: Caller, name: str) -> Content:
    """Return the list of experiments, from the one after ``name`` on."""
    found = await reading.call(caller, ReadHealth(name, _MOST_LISTED))
    rows = [(each, _rates(each)) for each in found]
    more = len(found) == _MOST_LISTED
    return Content({"experiments": render("parts/list.html", rows=rows, more=more)}, [])


def _rates(health: ExperimentHealth) -> list[float]:
    """Return the decisions a second in equal parts of the time, for a small line."""
    times = np.linspace(health.times[0], health.times[-1], _SPARK_POINTS + 1)
    rates = np.diff(np.interp(times, health.times, health.traffic))
    return [max(0.0, float(each)) for each in rates]


async def experiment_content(reading: Reading, caller: Caller, name: str) -> Content:
    """Return the overview of one experiment."""
    view = await reading.call(caller, Describe(name))
    version = view.generation, len(view.arms)  # a history of another shape would not fit the view
    history = await reading.recent(caller, ReadHistory(name), version)
    audit = await reading.recent(caller, Audit(name), version)
    ratio = await reading.recent(caller, CheckRatio(name), version)
    alarms = msgspec.convert(audit["alarms"], list[Alarm])
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
        "matrix": matrix_rows(view),
        "ratio": ratio,
        "ratio_words": describe_ratio(ratio),
        "charts": {chart.name: chart for chart in charts},
    }
    return Content({each: render(f"parts/{each}.html", **values) for each in _PARTS}, charts)
