"""Charts as SVG, for pages without scripts and until scripts have started.

Colours are classes, since the style sheet knows whether the page is light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from armrace.dashboard.charts import Chart, Series
from armrace.reports.theme import spread

WIDTH, HALF_WIDTH = 1090, 520
_HEIGHT = 264
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 168, 26, 30
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86_400
_STEPS = [
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 60, 120, 365)),
]
_LABEL_GAP = 16.0
_LONGEST_LABEL = 20
_LETTER, _LINE = 6.5, 13.0
"""The room of a letter and of a line of text beside a mark."""

Axis = Callable[[float], float]
"""Returns the place of a time or of a value in the drawing."""


def draw_chart(chart: Chart, width: int = WIDTH) -> str:
    """Return a chart as an SVG element that is drawn for a width in pixels."""
    times, right = chart.times or [0], width - (_RIGHT if width == WIDTH else _RIGHT - 36)
    start, end = times[0], max(times[-1], times[0] + 1)
    span = chart.high - chart.low or 1.0

    def x(time: float) -> float:
        return _LEFT + (right - _LEFT) * (time - start) / (end - start)

    def y(value: float) -> float:
        share = (value - chart.low) / span
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(1.0, max(0.0, share))

    parts = [
        f'<text class="tick" x="2" y="12">{escape(chart.axis)}</text>',
        *_horizontal(chart, y, right),
        *_vertical(start, end, x),
        *(f'<path class="band c{_class(s)}" d="{_area(times, s, x, y)}"/>' for s in chart.series),
        *(f'<path class="line c{_class(s)}" d="{_path(times, s, x, y)}"/>' for s in chart.series),
        *_levels(chart, y, right),
        *_marks(chart, x, y, start, end),
        *_labels(chart, y, right),
    ]
    return (
        f'<svg class="chart" viewBox="0 0 {width} {_HEIGHT}" role="img" '
        f'aria-label="{escape(chart.description)}">{"".join(parts)}</svg>'
    )


def _class(series: Series) -> str:
    return "n" if series.colour < 0 else f"{series.colour % 7} d{series.colour // 7 % 4}"


def _horizontal(chart: Chart, y: Axis, right: float) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick end" x="{_LEFT - 8}" y="{y(t) + 4:.1f}">{chart.format(t)}</text>'
        for t in nice_ticks(chart.low, chart.high)
    ]


def _vertical(start: int, end: int, x: Axis) -> list[str]:
    step = next((s for s in _STEPS if (end - start) / 1000 / s <= 6), _STEPS[-1]) * 1000
    first = -(-start // step) * step
    return [
        f'<text class="tick middle" x="{x(time):.1f}" y="{_HEIGHT - 8}">{_time(time, step)}</text>'
        for time in range(first, end + 1, step)
    ]


def _time(time: int, step: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, UTC)
    if step < _MINUTE * 1000:
        return f"{moment:%H:%M:%S}"
    if step < _DAY * 1000 and moment.hour + moment.minute:
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}"


def _path(times: Sequence[int], series: Series, x: Axis, y: Axis) -> str:
    """Return the path of a line through the points whose value is known."""
    points = [
        f"{x(time):.1f} {y(value):.1f}"
        for time, value in zip(times, series.values, strict=True)
        if value is not None
    ]
    return f"M{'L'.join(points)}" if points else ""


def _area(times: Sequence[int], series: Series, x: Axis, y: Axis) -> str:
    points = [
        (x(time), y(low), y(high))
        for time, low, high in zip(times, series.low, series.high, strict=False)
        if low is not None and high is not None
    ]
    forth = [f"{left:.1f} {top:.1f}" for left, _, top in points]
    back = [f"{left:.1f} {bottom:.1f}" for left, bottom, _ in reversed(points)]
    return f"M{'L'.join([*forth, *back])}Z" if points else ""


def _levels(chart: Chart, y: Axis, right: float) -> list[str]:
    return [
        f'<line class="level" x1="{_LEFT}" x2="{right}" y1="{y(each.value):.1f}" '
        f'y2="{y(each.value):.1f}"/><text class="tick" x="{right + 8}" '
        f'y="{y(each.value) + 4:.1f}">{escape(each.label)}</text>'
        for each in chart.levels
    ]


def _marks(chart: Chart, x: Axis, y: Axis, start: int, end: int) -> list[str]:
    found: list[str] = []
    texts: list[tuple[float, float, float]] = []
    for mark in chart.marks:
        if not start <= mark.time <= end:
            continue
        title = f"<title>{escape(mark.label)}</title>"
        if mark.series < 0:
            found.append(
                f'<g class="ruling">{title}<line x1="{x(mark.time):.1f}" x2="{x(mark.time):.1f}" '
                f'y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
                f"{_beside(mark.short, x(mark.time), _TOP + 10, texts)}</g>"
            )
            continue
        series = chart.series[mark.series]
        nearest = min(range(len(chart.times)), key=lambda i: abs(chart.times[i] - mark.time))
        height = y(series.values[nearest] or 0.0)
        left = x(mark.time)
        found.append(
            f'<g class="mark c{_class(series)}">{title}'
            f'<path d="M{left - 4:.1f} {height - 4:.1f}l8 8m0 -8l-8 8"/>'
            f"{_beside(mark.short, left, height - 8, texts)}</g>"
        )
    return found


def _beside(text: str, x: float, y: float, taken: list[tuple[float, float, float]]) -> str:
    """Return the text of a mark, or nothing where it would cover that of another one."""
    left, width = x - _LETTER * len(text) - 6, _LETTER * len(text)
    for other, height, length in taken:
        if abs(y - height) < _LINE and left < other + length and other < left + width:
            return ""
    taken.append((left, y, width))
    return f'<text class="tick end" x="{x - 6:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _labels(chart: Chart, y: Axis, right: float) -> list[str]:
    """The name of each line at its end, moved apart where names would overlap."""
    if chart.levels or len(chart.series) == 1:
        return []
    ends = [
        (y(last), series)
        for series in chart.series
        if (last := next((v for v in reversed(series.values) if v is not None), None)) is not None
    ]
    ends.sort(key=lambda end: end[0])
    places = spread([height for height, _ in ends], _LABEL_GAP, _TOP + 4, _HEIGHT - _BOTTOM)
    return [
        f'<text class="name c{_class(series)}" x="{right + 8}" y="{place + 4:.1f}">'
        f"{escape(_shortened(series.label))}</text>"
        for place, (_, series) in zip(places, ends, strict=True)
    ]


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two ends.

    >>> nice_ticks(0.0, 1.0), nice_ticks(0.13, 0.87)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.2, 0.4, 0.6, 0.8])
    """
    if high <= low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= rough * 0.999)
    return [round(step * n, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def draw_interval(low: float, mean: float, high: float) -> str:
    """Return an interval within [0, 1] as a line with a dot, for a cell of a table."""
    return (
        '<svg class="whisker" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<line class="scale" x1="0" x2="100" y1="5" y2="5"/>'
        f'<line class="range" x1="{100 * low:.1f}" x2="{100 * high:.1f}" y1="5" y2="5"/>'
        f'<rect class="dot" x="{100 * mean - 1.5:.1f}" y="1" width="3" height="8"/></svg>'
    )


def draw_sparkline(values: Sequence[float]) -> str:
    """Return a row of values as a small area, for a cell of a table."""
    most = max(values, default=0.0) or 1.0
    step = 100 / max(1, len(values) - 1)
    line = "L".join(f"{i * step:.1f} {22 - 20 * v / most:.1f}" for i, v in enumerate(values))
    return (
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="fill" d="M0 24L{line}L100 24Z"/><path class="edge" d="M{line}"/></svg>'
    )


_TICKS = (("1 s", 1e3), ("1 min", 6e4), ("1 h", 3.6e6), ("1 d", 8.64e7))
"""Delays that the bars of delays mark, in milliseconds."""


def _ticks(first: int, bars: int) -> list[tuple[str, float]]:
    return [(name, 100 * (math.log2(size) - first) / bars) for name, size in _TICKS]


def draw_delays(delays: Sequence[int], first: int) -> str:
    """Return counts of delays as small bars, for a cell of a table.

    Each bar is of delays twice as long as those of the bar before; the first is of ``2^first``
    milliseconds.
    """
    most = max(delays, default=0) or 1
    width = 100 / max(1, len(delays))
    bars = "".join(
        f'<rect x="{place * width:.1f}" width="{width * 0.8:.1f}" '
        f'y="{24 - max(1.5, 24 * value / most):.1f}" height="{max(1.5, 24 * value / most):.1f}"/>'
        for place, value in enumerate(delays)
        if value
    )
    ticks = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="24"/>' for _, x in _ticks(first, len(delays))
    )
    return (
        '<svg class="bars" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
        f'{ticks}<line x1="0" x2="100" y1="23.5" y2="23.5"/>{bars}</svg>'
    )


def draw_delay_scale(first: int, bars: int) -> str:
    """Return the names of the ticks of :func:`draw_delays`, for the heading of the column."""
    names = "".join(
        f'<text x="{1.6 * x:.1f}" y="10">{name}</text>' for name, x in _ticks(first, bars)
    )
    return f'<svg class="delay-scale" viewBox="0 0 160 12" aria-hidden="true">{names}</svg>'
