"""The charts of an experiment: plain data, and the same as SVG.

Colours are classes, since the style sheet knows whether the page is light or dark.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Literal

import msgspec

from armrace.forensics.sentences import COUNTS, HIDDEN, STILL
from armrace.formatting import count, figure
from armrace.reports.theme import spread
from armrace.statistics.proportions import wilson_interval
from armrace.statistics.scales import Scale
from armrace_client.answers import Deletion, HistoryView, RulingView

_MOST_ARMS = 6
_TRAFFIC_POINTS, _REWARD_POINTS = 80, 40
_LEAST_DECISIONS, _LEAST_REWARDS = 20, 25
"""Intervals of time with fewer are put together."""
_LEVEL_GAP = 0.09

MISSING = "\N{EN DASH}"
"""Placeholder for a missing value."""

OTHERS = -1
"""The colour of what belongs to no single arm."""


class Series(msgspec.Struct, frozen=True):
    """A line; values are ``None`` where there is nothing to show."""

    label: str
    colour: int
    """The place of the arm, from which its colour and dashes follow; -1 for no single arm."""
    values: list[float | None]
    low: list[float | None] = []
    high: list[float | None] = []


class Mark(msgspec.Struct, frozen=True):
    """An event at a time."""

    time: int
    label: str
    short: str
    """What is written beside the mark, where there is room."""
    colour: int
    series: int
    """On which line the mark lies; -1 for a mark across the whole chart."""


class Level(msgspec.Struct, frozen=True):
    """A horizontal line."""

    value: float
    label: str


class Chart(msgspec.Struct, frozen=True):
    """A chart over time."""

    name: str
    title: str
    description: str
    unit: Literal["percent", "reward", "corruption"]
    axis: str
    """What the vertical axis shows."""
    times: list[int]
    """In milliseconds since 1970."""
    series: list[Series]
    low: float
    high: float
    marks: list[Mark] = []
    levels: list[Level] = []

    def format(self, value: float | None) -> str:
        """Return a value of the vertical axis as text."""
        if value is None:
            return MISSING
        if self.unit == "percent":
            return f"{100 * value:.0f}%"
        return count(round(value)) if self.unit == "corruption" and value >= 10 else figure(value)


def traffic_chart(history: HistoryView) -> Chart:
    """Return the share of decisions of each arm over time, with the deletions of layers."""
    ends = _ends(history, _TRAFFIC_POINTS)
    totals = [sum(each) for each in zip(*history.decisions, strict=True)]
    shown, others = _most_played(history)

    def share(counts: Sequence[int], start: int, end: int) -> float | None:
        whole = totals[end] - totals[start]
        return (counts[end] - counts[start]) / whole if whole else None

    series = [
        Series(
            history.arms[arm],
            arm,
            [share(history.decisions[arm], *each) for each in pairwise(ends)],
        )
        for arm in shown
    ]
    if others:
        rest = [sum(each) for each in zip(*(history.decisions[arm] for arm in others), strict=True)]
        label = f"{len(others)} other arms"
        series.append(Series(label, OTHERS, [share(rest, *each) for each in pairwise(ends)]))
    return Chart(
        name="traffic",
        title="Traffic",
        description="Share of the decisions that each arm got, over time.",
        unit="percent",
        axis="share of decisions",
        times=_middles(history, ends),
        series=series,
        low=0.0,
        high=1.0,
        marks=[*_deletion_marks(history, shown, ends), *_ruling_marks(history)],
    )


def _deletion_marks(history: HistoryView, shown: list[int], ends: list[int]) -> list[Mark]:
    """One mark for all layers that deleted an arm between two points of its line."""
    found: dict[tuple[int, int], list[Deletion]] = {}
    stops = [history.times[place] for place in ends]
    for each in history.deletions:
        arm = history.arms.index(each.arm)
        if arm in shown:
            found.setdefault((bisect_left(stops, each.time), arm), []).append(each)
    marks = []
    for (_, arm), deletions in found.items():
        layers = sorted({each.layer for each in deletions})
        named = f"layer {layers[0]}" if len(layers) == 1 else f"layers {_listed(layers)}"
        label = f"{history.arms[arm]} deleted from {named}"
        marks.append(Mark(deletions[0].time, label, named, arm, shown.index(arm)))
    return marks


def _listed(layers: list[int]) -> str:
    if layers == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]} to {layers[-1]}"
    return ", ".join(map(str, layers))


def _ruling_marks(history: HistoryView) -> list[Mark]:
    return [
        Mark(each.time, ruling_text(each), ruling_text(each), OTHERS, -1)
        for each in history.rulings[-3:]
    ]


_RULED = {
    "void": ("visit", "voided"),
    "retract": ("reward", "retracted"),
    "hold": ("reward", "held"),
    "release": ("visit", "released"),
}


def ruling_text(ruling: RulingView) -> str:
    """Say what a ruling did.

    >>> ruling_text(RulingView(0, "void", 16_479, "bots"))
    '16,479 visits voided'
    """
    noun, done = _RULED[ruling.verdict]
    return f"{number_of(ruling.visits, noun)} {done}"


def number_of(number: int, noun: str) -> str:
    """Return a number of things in words.

    >>> number_of(1, "reward"), number_of(16_479, "reward")
    ('1 reward', '16,479 rewards')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def reward_chart(history: HistoryView, rewards: tuple[float, float]) -> Chart:
    """Return the mean reward of each arm over time, with an interval for each point."""
    ends = _ends(history, _REWARD_POINTS)
    scale = Scale(*rewards)
    shown, _ = _most_played(history)
    series = []
    for arm in shown:
        points = _means(history, arm, ends, scale)
        series.append(Series(history.arms[arm], arm, *map(list, zip(*points, strict=True))))
    seen = [value for each in series for value in (*each.low, *each.high) if value is not None]
    return Chart(
        name="reward",
        title="Reward",
        description="Mean reward of each arm over time, as it counts now.",
        unit="reward",
        axis="mean reward",
        times=_middles(history, ends),
        series=series,
        low=max(scale.low, min(seen, default=scale.low)),
        high=min(scale.high, max(seen, default=scale.high)),
        marks=_ruling_marks(history),
    )


Point = tuple[float | None, float | None, float | None]
"""A mean with the ends of its interval."""


def _means(history: HistoryView, arm: int, ends: list[int], scale: Scale) -> list[Point]:
    """Return the means of an arm between the ends, over as many as give enough rewards."""
    learned, earned = history.learned[arm], history.earned[arm]
    start, points = ends[0], list[Point]()
    for end in ends[1:]:
        number = learned[end] - learned[start]
        if number < _LEAST_REWARDS:
            points.append((None, None, None))
            continue
        mean = (earned[end] - earned[start]) / number
        share = min(1.0, max(0.0, scale.share(mean)))
        points.append((mean, *scale.interval(wilson_interval(share, number))))
        start = end
    return points or [(None, None, None)]


def certificate_chart(history: HistoryView) -> Chart:
    """Return the certified corruption over time, against what layers tolerate."""
    most = max(history.certificates)
    tolerated = sorted(set(history.tolerated))
    top = 1.15 * max([most, *tolerated[:2], 1.0])
    levels: list[Level] = []
    for value in reversed([each for each in tolerated if each <= top]):
        if not levels or levels[-1].value - value >= _LEVEL_GAP * top:
            layer = history.tolerated.index(value)
            levels.append(Level(value, f"layer {layer} tolerates {count(round(value))}"))
    return Chart(
        name="certificate",
        title="Certified corruption",
        description=f"{STILL} and {HIDDEN}, the line is a lower bound on C, which {COUNTS}.",
        unit="corruption",
        axis="corruption, in units of reward",
        times=history.times,
        series=[Series("certified", OTHERS, list(history.certificates))],
        low=0.0,
        high=top,
        levels=levels[::-1],
        marks=_ruling_marks(history),
    )


def _most_played(history: HistoryView) -> tuple[list[int], list[int]]:
    """Return the arms to draw, in their order, and the others."""
    arms = range(len(history.arms))
    ranked = sorted(arms, key=lambda arm: -history.decisions[arm][-1])
    shown = sorted(ranked[:_MOST_ARMS])
    return shown, [arm for arm in arms if arm not in shown]


def _ends(history: HistoryView, most: int) -> list[int]:
    """Return indices that divide the times into intervals, each with some decisions."""
    last = len(history.times) - 1
    step = max(1, math.ceil(last / most))
    totals = [sum(each) for each in zip(*history.decisions, strict=True)]
    ends = [0]
    for place in range(last % step or step, last + 1, step):
        if totals[place] - totals[ends[-1]] >= _LEAST_DECISIONS:
            ends.append(place)
    return ends if len(ends) > 1 else [0, last]


def _middles(history: HistoryView, ends: list[int]) -> list[int]:
    return [(history.times[a] + history.times[b]) // 2 for a, b in pairwise(ends)]


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


_TICKS = (("1 s", 1e3), ("1 min", 6e4), ("1 h", 3.6e6), ("1 d", 8.64e7))
"""Delays that the bars of delays mark, in milliseconds."""


def delay_ticks(first: int, bars: int) -> list[tuple[str, float]]:
    """Return the names of some delays and their places in percent, from ``2^first`` ms on."""
    return [(name, 100 * (math.log2(size) - first) / bars) for name, size in _TICKS]
