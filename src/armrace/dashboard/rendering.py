"""Templates, with everything escaped that does not come from this package."""

from __future__ import annotations

import math
import secrets
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from armrace.dashboard.charts import MISSING, Chart, Series, rewards_text, ruling_text
from armrace.dashboard.drawing import (
    HALF_WIDTH,
    WIDTH,
    draw_chart,
    draw_delay_scale,
    draw_delays,
    draw_interval,
    draw_sparkline,
)
from armrace.formatting import count, duration, figure, short
from armrace.service.answers import LayerView

__all__ = ["FORM_TOKEN", "address", "render"]

FORM_TOKEN = secrets.token_hex(16)
"""Stands in forms for the token of the session; a name that someone chose cannot contain it."""


def address(path: str, **query: Any) -> str:
    """Return a link within the server; names may be any text."""
    return f"{path}?{urlencode(query)}" if query else path


def render(template: str, **values: Any) -> str:
    """Return a template as HTML."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("armrace.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count,
        rewards=rewards_text,
        ruling=ruling_text,
        figure=_figure,
        share=_share,
        short=short,
        moment=_moment,
        day=_day,
        clock=_clock,
        duration=duration,
        clamp=_clamp,
    )
    environment.tests["finite"] = math.isfinite
    environment.globals.update(
        address=address,
        form_token=FORM_TOKEN,
        half_width=HALF_WIDTH,
        chart_svg=_chart_svg,
        interval_svg=_interval_svg,
        spark_svg=_spark_svg,
        delays_svg=_delays_svg,
        delay_scale_svg=_delay_scale_svg,
        chart_rows=_chart_rows,
        cells_html=_cells_html,
    )
    return environment


def _cells_html(cells: list[LayerView], low: float, high: float) -> Markup:
    """The cells of one layer in the matrix."""
    return Markup("".join(_cell_html(cell, low, high, i) for i, cell in enumerate(cells)))


@lru_cache(maxsize=5000)
def _cell_html(cell: LayerView, low: float, high: float, place: int) -> str:
    """A cell of the matrix; few of its cells change from one page to the next."""
    return render("parts/cell.html", cell=cell, low=low, high=high, place=place)


def _figure(value: float | None, digits: int = 3) -> str:
    """A mean with a fixed number of decimals, so that columns line up."""
    return (
        MISSING if value is None else f"{value:.{digits}f}" if abs(value) < 100 else figure(value)
    )


def _share(value: float | None) -> str:
    """Return a share in whole percent."""
    if value is None:
        return MISSING
    if 0 < value < 0.01:
        return "<1%"
    return f"{100 * value:.0f}%"


def _moment(time: int) -> str:
    """A time in UTC for people."""
    moment = datetime.fromtimestamp(time / 1000, UTC)
    return f"{moment.day} {moment:%b %H:%M}"


def _day(date: str) -> str:
    """A date for people; other words, such as ``earlier``, stay as they are."""
    try:
        found = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{found.day} {found:%b}"


def _clock(time: int) -> str:
    """Return a time in UTC for programs."""
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="seconds")


def _chart_svg(chart: Chart, width: int = WIDTH) -> Markup:
    return Markup(draw_chart(chart, width))


def _interval_svg(low: float, mean: float, high: float) -> Markup:
    return Markup(draw_interval(low, mean, high))


def _spark_svg(values: list[float]) -> Markup:
    return Markup(draw_sparkline(values))


def _delays_svg(delays: list[int], first: int) -> Markup:
    return Markup(draw_delays(delays, first))


def _delay_scale_svg(first: int, bars: int) -> Markup:
    return Markup(draw_delay_scale(first, bars))


def _clamp(share: float) -> float:
    return min(1.0, max(0.0, share))


def _chart_rows(chart: Chart, most: int = 12) -> list[tuple[int, list[str]]]:
    """Return some times of a chart with the values of all lines and their intervals, as text."""
    step = max(1, -(-len(chart.times) // most))
    places = range((len(chart.times) - 1) % step, len(chart.times), step)
    return [
        (chart.times[i], [_with_interval(chart, series, i) for series in chart.series])
        for i in places
    ]


def _with_interval(chart: Chart, series: Series, place: int) -> str:
    value = chart.format(series.values[place])
    if not series.low or series.low[place] is None:
        return value
    return f"{value} ({chart.format(series.low[place])} to {chart.format(series.high[place])})"
