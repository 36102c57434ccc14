"""The charts of an experiment as plain data: the server draws them as SVG, scripts with uPlot."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from armrace.forensics.sentences import COUNTS, HIDDEN, STILL
from armrace.formatting import count, figure
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
