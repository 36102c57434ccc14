"""The charts of an experiment over time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from armrace.audit.findings import COUNTS, HIDDEN, STILL
from armrace.formatting import count, figure, number_of
from armrace.reports.charts import (
    Chart,
    Line,
    Number,
    Panel,
    Sign,
    draw_svg,
    linear_axis,
    time_axis,
)
from armrace.statistics.proportions import Scale, wilson_interval
from armrace_client.answers import DeletionView, HistoryView, RulingView

MISSING = "\N{EN DASH}"
"""Placeholder for a missing value."""

_MOST_ARMS = 6
_TRAFFIC_POINTS, _REWARD_POINTS = 80, 40
_LEAST_DECISIONS, _LEAST_REWARDS = 20, 25
"""Intervals of time with fewer are put together."""
_LEVEL_GAP = 0.09
_MOST_ROWS = 12
_DASHES = ((), (8, 4), (2, 3), (8, 3, 2, 3))
PAGE, HALF = 1090, 520
"""The width of a page and of one of two columns, in pixels."""


def say_moment(time: float) -> str:
    """A time in UTC for people, from milliseconds since 1970."""
    moment = datetime.fromtimestamp(time / 1000, UTC)
    return f"{moment.day} {moment:%b %H:%M}"


class TimeChart(NamedTuple):
    """A chart over time, in milliseconds since 1970."""

    name: str
    title: str
    description: str
    panel: Panel
    text: Callable[[Number], str]
    """Writes a value of the vertical axis."""

    def draw(self, width: int = PAGE) -> Markup:
        """Return the chart as an SVG element that is drawn for a width in pixels."""
        chart = Chart([self.panel], 264, text=self.text, place=say_moment)
        return draw_svg(chart, self.description, width)

    @property
    def events(self) -> list[tuple[float, str]]:
        """What happened at which time."""
        return [(each.x, each.title) for each in self.panel.signs if each.x is not None]

    def rows(self) -> list[tuple[float, list[str]]]:
        """Some times with the values of all lines and their intervals, as text."""
        times = self.panel.lines[0].x
        step = max(1, -(-len(times) // _MOST_ROWS))
        places = range((len(times) - 1) % step, len(times), step)
        return [(times[i], [self._value(line, i) for line in self.panel.lines]) for i in places]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The headings of the values, with their class."""
        return [(line.label, "num") for line in self.panel.lines]

    def _value(self, line: Line, place: int) -> str:
        value = self.text(line.y[place])
        if not line.low or line.low[place] is None:
            return value
        return f"{value} ({self.text(line.low[place])} to {self.text(line.high[place])})"


def _write(value: Number, shown: Callable[[float], str] = figure) -> str:
    return MISSING if value is None else shown(value)


def _percent(value: Number) -> str:
    return _write(value, "{:.0%}".format)


def _corruption(value: Number) -> str:
    return _write(value, lambda known: count(round(known)) if known >= 10 else figure(known))


def _arm_line(history: HistoryView, arm: int, times: list[int], values: list[Number]) -> Line:
    dashes = _DASHES[arm // 7 % 4]
    return Line(history.arms[arm], f"line-{arm % 7 + 1}", times, values, dashes=dashes, width=2.0)


def _panel(times: list[int], axis: str, low: float, high: float, lines: list[Line],
           signs: list[Sign], text: Callable[[Number], str]) -> Panel:  # fmt: skip
    ends = (times[0], times[-1]) if times else (0, 1)
    return Panel(time_axis(*ends), linear_axis(axis, low, high, text), lines, signs=signs)


def traffic_chart(history: HistoryView) -> TimeChart:
    """Return the share of decisions of each arm over time, with the deletions of layers."""
    ends = _ends(history, _TRAFFIC_POINTS)
    times = _middles(history, ends)
    totals = [sum(each) for each in zip(*history.decisions, strict=True)]
    shown, others = _most_played(history)

    def shares(counts: Sequence[int]) -> list[Number]:
        whole = [totals[end] - totals[start] for start, end in pairwise(ends)]
        own = [counts[end] - counts[start] for start, end in pairwise(ends)]
        return [part / all_ if all_ else None for part, all_ in zip(own, whole, strict=True)]

    lines = [_arm_line(history, arm, times, shares(history.decisions[arm])) for arm in shown]
    deletions = _deletion_signs(history, dict(zip(shown, lines, strict=True)), ends)
    if others:
        rest = [sum(each) for each in zip(*(history.decisions[arm] for arm in others), strict=True)]
        lines.append(Line(f"{len(others)} other arms", "muted", times, shares(rest), width=2.0))
    return TimeChart(
        "traffic",
        "Traffic",
        "Share of the decisions that each arm got, over time.",
        _panel(times, "share of decisions", 0.0, 1.0, lines,
               [*deletions, *_ruling_signs(history)], _percent),
        _percent,
    )  # fmt: skip


def _deletion_signs(history: HistoryView, lines: dict[int, Line], ends: list[int]) -> list[Sign]:
    """One cross for all layers that deleted an arm between two points of its line."""
    found: dict[tuple[int, int], list[DeletionView]] = {}
    stops = [history.times[place] for place in ends]
    for each in history.deletions:
        arm = history.arms.index(each.arm)
        if arm in lines:
            found.setdefault((bisect_left(stops, each.time), arm), []).append(each)
    signs = []
    for (_, arm), deletions in found.items():
        layers = sorted({each.layer for each in deletions})
        named = f"layer {layers[0]}" if len(layers) == 1 else f"layers {_listed(layers)}"
        line, time = lines[arm], deletions[0].time
        nearest = min(range(len(line.x)), key=lambda place: abs(line.x[place] - time))
        title = f"{history.arms[arm]} deleted from {named}"
        signs.append(Sign(named, time, line.y[nearest] or 0.0, line.ink, title))
    return signs


def _listed(layers: list[int]) -> str:
    if layers == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]} to {layers[-1]}"
    return ", ".join(map(str, layers))


def _ruling_signs(history: HistoryView) -> list[Sign]:
    return [
        Sign(ruling_text(each), each.time, ink="ink", title=ruling_text(each))
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


def reward_chart(history: HistoryView, rewards: tuple[float, float]) -> TimeChart:
    """Return the mean reward of each arm over time, with an interval for each point."""
    ends = _ends(history, _REWARD_POINTS)
    scale, times = Scale(*rewards), _middles(history, ends)
    shown, _ = _most_played(history)
    lines = []
    for arm in shown:
        values, low, high = map(list, zip(*_means(history, arm, ends, scale), strict=True))
        line = _arm_line(history, arm, times, values)
        lines.append(line._replace(low=low, high=high, band=True))
    seen = [value for each in lines for value in (*each.low, *each.high) if value is not None]
    least, most = min(seen, default=scale.low), max(seen, default=scale.high)
    ends_shown = (max(scale.low, least), min(scale.high, most))
    signs = _ruling_signs(history)
    return TimeChart(
        "reward",
        "Reward",
        "Mean reward of each arm over time, as it counts now.",
        _panel(times, "mean reward", *ends_shown, lines, signs, _write),
        _write,
    )


Point = tuple[Number, Number, Number]
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


def certificate_chart(history: HistoryView) -> TimeChart:
    """Return the certified corruption over time, against what layers tolerate."""
    most = max(history.certificates)
    tolerated = sorted(set(history.tolerated))
    top = 1.15 * max([most, *tolerated[:2], 1.0])
    levels: list[Sign] = []
    for value in reversed([each for each in tolerated if each <= top]):
        if not levels or (levels[-1].y or 0.0) - value >= _LEVEL_GAP * top:
            words = f"layer {history.tolerated.index(value)} tolerates {count(round(value))}"
            levels.append(Sign(words, y=value, ink="alarm"))
    line = Line("certified", "muted", history.times, list(history.certificates), width=2.0)
    signs = [*levels[::-1], *_ruling_signs(history)]
    return TimeChart(
        "certificate",
        "Certified corruption",
        f"{STILL} and {HIDDEN}, the line is a lower bound on C, which {COUNTS}.",
        _panel(history.times, "corruption, in units of reward", 0.0, top, [line], signs,
               _corruption),
        _corruption,
    )  # fmt: skip


def expert_chart(history: HistoryView) -> TimeChart:
    """Return the weights of experts over time; those of single arms together are dashed."""
    lines = [
        Line(
            name, "muted" if name == "single arms" else f"line-{place}", history.times,
            list(weights), dashes=_DASHES[1] if name == "single arms" else (), width=2.0,
        )
        for place, (name, weights) in enumerate(history.experts.items(), start=1)
    ]  # fmt: skip
    return TimeChart(
        "experts",
        "Whom the policy follows",
        "Weight of each expert over time, and of those that always play one arm together.",
        _panel(history.times, "weight", 0.0, 1.0, lines, _ruling_signs(history), _percent),
        _percent,
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


_TICKS = (("1 s", 1e3), ("1 min", 6e4), ("1 h", 3.6e6), ("1 d", 8.64e7))
"""Delays that the bars of delays mark, in milliseconds."""


def delay_ticks(first: int, bars: int) -> list[tuple[str, float]]:
    """Return the names of some delays and their places in percent, from ``2^first`` ms on."""
    return [(name, 100 * (math.log2(size) - first) / bars) for name, size in _TICKS]
