"""Charts as plain data, and their drawing as SVG for every page: reports, notebooks, the dashboard.

The same data is drawn for papers by :mod:`armrace.reports.figures`. Colours are names of the theme
in attributes, not styles: a chart turns dark with its page, and a strict content security policy
allows it. Nothing here loads a plotting library, so that a server can use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import polars as pl
from markupsafe import Markup, escape

from armrace.formatting import short
from armrace.reports.theme import GREY, OTHERS_INK, Style, spread

WIDE, NARROW = 880, 350
"""Pixels for which a chart is drawn: across a page, and on a phone."""

LINEAR_PART = 0.5
"""The room of the linear part of an axis, in decades of the logarithmic one."""

Number = float | None
"""A value of the vertical axis; ``None`` where there is none."""


class Axis(NamedTuple):
    """One side of a panel."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    kind: Literal["linear", "log", "symlog", "rows"] = "linear"
    """``symlog`` is logarithmic except around 0; ``rows`` are names from the top down."""
    threshold: float = 1.0
    """Where the linear part of a ``symlog`` axis ends."""

    def share(self, value: float) -> float:
        """Return where a value lies between the ends: 0 at the lower one, 1 at the upper one."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(value) - low) / ((high - low) or 1.0)

    def _scaled(self, value: float) -> float:
        if self.kind == "log":
            return math.log10(max(value, 1e-300))
        if self.kind != "symlog":
            return value
        size = abs(value) / self.threshold
        scaled = LINEAR_PART * size if size <= 1 else LINEAR_PART + math.log10(size)
        return math.copysign(scaled, value)


class Line(NamedTuple):
    """Points that belong together, with an interval for each."""

    label: str
    """Written beside the end or into the legend; none if it is empty."""
    ink: str
    """The name of a colour of the theme."""
    x: Sequence[float]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    band: bool = False
    """Whether the intervals are drawn as a band rather than as bars."""
    end: tuple[float, float] | None = None
    """An interval of the last point, drawn as a thick bar."""
    dashes: tuple[int, ...] = ()
    width: float = 1.6
    """0 for points that are not joined."""
    marker: Literal["", "o", "D", "s", "x", "|", "."] = ""
    """``.`` is a small faint dot, of which there are many."""
    hollow: bool = False
    aside: float = 0.0
    """Pixels to the right, so that bars at the same place do not hide one another."""

    @property
    def points(self) -> list[tuple[float, float]]:
        """The points that are known."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if y is not None]


class Bar(NamedTuple):
    """A row of a chart of intervals: a mean, its interval and a further quantile."""

    row: float
    ink: str
    mean: Number
    low: Number = None
    high: Number = None
    quantile: Number = None
    marker: Literal["o", "D", "s", "|"] = "o"
    hollow: bool = False


class Sign(NamedTuple):
    """A line across the panel at ``x`` or at ``y``, or a cross where both are given."""

    label: str
    x: float | None = None
    y: float | None = None
    ink: str = "muted"
    title: str = ""
    """The whole text, as a tip."""


class Panel(NamedTuple):
    """One pair of axes with what is drawn on it."""

    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    signs: Sequence[Sign] = ()
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """One or several panels."""

    panels: Sequence[Panel]
    height: float = 380.0
    """Pixels of a panel on a wide page."""
    columns: int = 1
    keys: Sequence[Line] | None = None
    """Entries of a legend; ``None`` writes names beside the ends of the lines where they fit."""
    text: Callable[[Number], str] | None = None
    """Writes a value for the readout under the pointer; without it there is no readout."""
    place: Callable[[float], str] = short
    """Writes a value of the horizontal axis for the readout."""


@dataclass(frozen=True)
class Plot:
    """A figure of a page: its drawing, its data, and what is said of it."""

    name: str
    """Of its files."""
    heading: str
    chart: Chart | None
    data: Callable[[], pl.DataFrame]
    """The numbers that are drawn."""
    description: str
    """What screen readers read out in its place."""
    caption: str
    """A sentence or two that say what it shows."""
    html: str = ""
    """What a page shows in place of a chart."""
    draw: Callable[[float], Any] | None = None
    """Draws what is no chart for a paper, at a width in inches."""


def file_name(label: str) -> str:
    """A label as part of a file's name, or of an id.

    >>> file_name("sharp-race (delta=0.1)")
    'sharp-race-delta-0.1'
    """
    return re.sub(r"[^\w.]+", "-", label).strip("-")


# --- axes ---------------------------------------------------------------------------------------


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two ends.

    >>> nice_ticks(0.0, 1.0), nice_ticks(0.13, 0.87)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.2, 0.4, 0.6, 0.8])
    """
    if high <= low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 2.5, 5, 10) if size * n >= rough * 0.999)
    return [round(step * n, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def linear_axis(label: str, low: float, high: float, text: Callable[[float], str] = short) -> Axis:
    """Return an axis with round numbers."""
    return Axis(label, low, high, [(tick, text(tick)) for tick in nice_ticks(low, high)])


_LINEAR_BELOW = 1000.0
_FEW_DECADES = 500.0


def log_axis(label: str, low: float, high: float) -> Axis:
    """Return a logarithmic axis, or one that is linear around 0 if it begins there or below.

    >>> [text for _, text in log_axis("", 8.0, 130.0).ticks], log_axis("", -5.0, 9e3).kind
    (['10', '20', '50', '100'], 'symlog')
    """
    powers = [10.0**power for power in range(-3, 18)]
    if low <= 0:
        if high < 5 * _LINEAR_BELOW:
            return linear_axis(label, low, high)
        outer = [power for power in powers if power >= _LINEAR_BELOW]
        known = [*(-each for each in outer[::-1]), 0.0, *outer]
    else:
        steps = (1, 2, 5) if high < _FEW_DECADES * low else (1,)
        known = [power * step for power in powers for step in steps]
    shown = [each for each in known if low <= each <= high]
    ticks = [(each, short(each)) for each in (shown if len(shown) > 1 else nice_ticks(low, high))]
    return Axis(label, low, high, ticks, "log" if low > 0 else "symlog", _LINEAR_BELOW)


LEAST = 1.0
"""Smaller regrets are drawn at this height, since a logarithmic axis has no zero."""


def mean_line(
    label: str, style: Style, x: str, data: pl.DataFrame, *, least: Number = LEAST, **more: Any
) -> Line:
    """Return the line of the columns ``mean``, ``low`` and ``high``, for a logarithmic axis."""
    grey = style == GREY
    mean, low, high = (data[name].clip(least).to_list() for name in ("mean", "low", "high"))
    look = {"width": 0.8 if grey else 1.5, "marker": "" if grey else "o", "dashes": style.dashes}
    name = "" if grey else label
    return Line(name, style.ink, data[x].to_list(), mean, low, high, **{**look, **more})


def regret_axis(label: str, lines: Sequence[Line]) -> Axis:
    """Return a logarithmic axis of regrets that begins below the means.

    The interval of a few runs may reach below 0, where a logarithmic axis has no place; such a bar
    then leaves the panel at the bottom, instead of pressing all means to the top.
    """
    heights = [y for line in lines for _, y in line.points] or [LEAST]
    lows = [y for line in lines for y in line.low if y is not None] or heights
    highs = [y for line in lines for y in line.high if y is not None] or heights
    low = max(0.9 * min(lows), 0.4 * min(heights))
    return log_axis(label, low, 1.2 * max(*highs, *heights))


def budget_axis(label: str, budgets: Sequence[float], shown: Sequence[float] = ()) -> Axis:
    """Return the axis of ascending budgets, logarithmic except around 0, if 0 is one of them."""
    ticks = [(budget, short(budget)) for budget in shown or budgets]
    first = next((budget for budget in budgets if budget > 0), 1.0)
    last = max(budgets[-1], 1e-3 * first)
    if budgets[0] > 0:
        return Axis(label, 0.8 * first, 1.25 * last, ticks, "log")
    return Axis(label, -0.3 * first, 1.25 * last, ticks, "symlog", first)


def row_axis(names: Sequence[str]) -> Axis:
    """Return an axis with a row for each name, the first one at the top."""
    return Axis("", len(names) - 0.4, -0.6, list(enumerate(names)), "rows")


_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = [
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 60, 120, 365)),
]


def time_axis(start: int, end: int) -> Axis:
    """Return an axis of times in milliseconds since 1970, labelled in UTC.

    >>> [text for _, text in time_axis(82_800_000, 93_600_000).ticks]
    ['23:00', '23:30', '2 Jan', '00:30', '01:00', '01:30', '02:00']
    """
    step = next((each for each in _STEPS if (end - start) / each <= 6), _STEPS[-1])
    times = range(-(-start // step) * step, end + 1, step)
    return Axis("", start, max(end, start + 1), [(time, _time(time, step)) for time in times])


def _time(time: int, step: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, UTC)
    if step < _MINUTE:
        return f"{moment:%H:%M:%S}"
    if step < _DAY and moment.hour + moment.minute:
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}"


# --- drawing ------------------------------------------------------------------------------------

_LETTER = 0.62
"""The width of a letter, in units of the size of the text; pages have no fixed font."""
_LONGEST_NAME = 30


class _Box(NamedTuple):
    """Where a panel draws its points."""

    panel: Panel
    left: float
    right: float
    top: float
    bottom: float
    size: float
    edge: float
    room: float
    """Where the panel with its labels begins, and how wide it is."""

    def x(self, value: float) -> float:
        share = min(1.1, max(-0.1, self.panel.x.share(value)))
        return self.left + (self.right - self.left) * share

    def y(self, value: float) -> float:
        share = min(1.0, max(0.0, self.panel.y.share(value)))
        return self.bottom - (self.bottom - self.top) * share


def draw_svg(chart: Chart, description: str, width: int = WIDE) -> Markup:
    """Return a chart as an SVG element, drawn for a width in pixels."""
    narrow, size = width < WIDE / 2, 12.0
    columns = 1 if narrow else chart.columns
    keys, top, parts = _key_lines(chart, narrow), 0.0, list[str]()
    if keys:
        top = _draw_keys(parts, keys, width, size)
    names = () if keys else _end_names(chart)
    room = width / columns
    height = min(chart.height, 0.82 * room + 40) if narrow else chart.height
    if chart.panels[0].y.kind == "rows":
        height = chart.height
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, columns)
        place = top + row * height
        box = _box(panel, column * room, place, room, height, names, size)
        parts += _draw_panel(chart, box, names)
    total = top + height * -(-len(chart.panels) // columns)
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width:g} {total:.0f}" font-size="{size:g}" role="img" '
        f'aria-label="{escape(description)}"{_readout_of(chart, box)}>{"".join(parts)}</svg>'
    )


def _readout_of(chart: Chart, box: _Box) -> str:
    """Return the places of the points and the ends of the panel, for a readout."""
    if chart.text is None or not box.panel.lines:
        return ""
    x = box.panel.lines[0].x
    places, names = " ".join(f"{box.x(each):.1f}" for each in x), "|".join(map(chart.place, x))
    ends = f'data-top="{box.top:g}" data-bottom="{box.bottom:g}"'
    return f' data-x="{places}" data-names="{escape(names)}" {ends}'


def _key_lines(chart: Chart, narrow: bool) -> list[Line]:
    """The entries of a legend; without one, names stand beside the lines, if there is room."""
    if chart.keys is not None:
        return list(chart.keys)
    named = [line for panel in chart.panels for line in panel.lines if line.label]
    if not narrow or len(named) < 2:
        return []
    found = {line.label: line for line in sorted(named, key=_end_height, reverse=True)}
    return [*found.values(), *other_lines(line.ink for line in chart.panels[0].lines)]


def other_lines(inks: Iterable[str], words: str = "other policies") -> list[Line]:
    """The entry of a legend for all grey lines together, if there are any."""
    return [Line(words, OTHERS_INK, (), ())] if OTHERS_INK in inks else []


def _end_height(line: Line) -> float:
    return line.points[-1][1] if line.points else -math.inf


def _end_names(chart: Chart) -> Sequence[Line]:
    """The lines whose names stand beside their ends; a single line needs none."""
    if len(chart.panels) > 1:
        return ()
    found = [line for line in chart.panels[0].lines if line.label and line.points]
    return found if len(found) > 1 else ()


def _box(
    panel: Panel, left: float, top: float, width: float, height: float,
    names: Sequence[Line], size: float,
) -> _Box:  # fmt: skip
    """Leave room around the points for ticks, labels and names."""
    ticks = [part for _, text in panel.y.ticks for part in _split(text, panel.y, width)]
    first = 10 + _LETTER * size * max(map(len, ticks), default=0)
    last = 14.0
    level = [sign.label for sign in panel.signs if sign.x is None]
    beside = [*(line.label for line in names), *(level if width >= WIDE / 2 else ())]
    if beside:
        last = 24 + _LETTER * size * max(len(_shortened(label)) for label in beside)
    above = 12 + (size + 6) * bool(panel.y.label or any(s.x is not None for s in panel.signs))
    above += (size + 6) * bool(panel.title)
    below = size + 12 + (size + 4) * bool(panel.x.label)
    ends = (left + first, left + width - last, top + above, top + height - below)
    return _Box(panel, *ends, size, left, width)


def _split(text: str, axis: Axis, width: float) -> list[str]:
    """Break the long name of a row on a narrow chart into two lines, at its parameters."""
    name, space, more = text.partition(" ")
    too_long = axis.kind == "rows" and _LETTER * 12 * len(text) > 0.45 * width
    return [name, more] if too_long and space else [text]


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"


def _draw_keys(parts: list[str], keys: Sequence[Line], width: float, size: float) -> float:
    """Draw a legend in as many rows as it needs; return the height below it."""
    x, y = 0.0, size
    for key in keys:
        wide = 34 + _LETTER * size * len(key.label)
        if x and x + wide > width:
            x, y = 0.0, y + size + 7
        if key.width and key.ink:
            parts.append(_path(f"M{x + 2:.0f} {y - 4:.0f}h20", key, min(2.0, key.width)))
        if key.marker:
            parts.append(_marker(key.marker, x + 12, y - 4, key.ink, key.hollow))
        parts.append(_text(key.label, x + 27, y, "ink"))
        x += wide + 10
    return y + 12


def _draw_panel(chart: Chart, box: _Box, names: Sequence[Line]) -> list[str]:
    panel, taken = box.panel, list[tuple[float, float, float]]()
    parts = [*_grid(box), *_labels(box, taken)]
    grey = [line for line in panel.lines if line.ink == OTHERS_INK]
    for line in [*grey, *(line for line in panel.lines if line.ink != OTHERS_INK)]:
        parts += _draw_line(chart, box, line)
    for bar in panel.bars:
        parts += _draw_bar(box, bar)
    for sign in panel.signs:
        parts += _draw_sign(box, sign, taken)
    return [*parts, *_draw_names(box, names)]


def _text(
    text: str, x: float, y: float, ink: str = "muted", anchor: str = "", more: str = ""
) -> str:
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--{ink})"{where}{more}>{escape(text)}</text>'


def _path(
    place: str, line: Line, width: float | None = None, more: str = "", *, dashed: bool = True
) -> str:
    dashes = " ".join(map(str, line.dashes)) if dashed else ""
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path d="{place}" fill="none" stroke="var(--{line.ink})" stroke-linejoin="round" '
        f'stroke-width="{line.width if width is None else width:g}"{pattern}{more}/>'
    )


def _grid(box: _Box) -> list[str]:
    """The ticks of both axes; those whose text would cover another one have none."""
    parts, panel, last = list[str](), box.panel, -math.inf
    across = [box.y(value) for value, _ in panel.y.ticks]
    if panel.y.kind != "rows":
        parts.append(_rule("".join(f"M{box.left:.1f} {y:.1f}H{box.right:.1f}" for y in across)))
    down = [box.x(value) for value, _ in panel.x.ticks]
    if panel.x.label:
        parts.append(_rule("".join(f"M{x:.1f} {box.top:.1f}V{box.bottom:.1f}" for x in down)))
    parts.append(_rule(f"M{box.left:.1f} {box.bottom:.1f}H{box.right:.1f}", "rule-strong"))
    ink = "ink" if panel.y.kind == "rows" else "muted"
    low = math.inf
    for y, (_, text) in sorted(zip(across, panel.y.ticks, strict=True), reverse=True):
        if low - y < box.size + 1:
            continue
        low, pieces = y, _split(text, panel.y, box.room)
        height = y + 4 - (len(pieces) - 1) * 0.5 * (box.size + 1)
        for place, piece in enumerate(pieces):
            at = height + place * (box.size + 1)
            parts.append(_text(piece, box.left - 8, at, ink, "end"))
    for x, (_, text) in zip(down, panel.x.ticks, strict=True):
        half = _LETTER * box.size * len(text) / 2
        if x - half < last + 4 or x > box.right + 8 or x < box.left - 8:
            continue
        last = x + half
        parts.append(_text(text, x, box.bottom + box.size + 5, "muted", "middle"))
    return parts


def _rule(place: str, ink: str = "grid", more: str = "") -> str:
    return f'<path d="{place}" fill="none" stroke="var(--{ink})"{more}/>' if place else ""


def _labels(box: _Box, taken: list[tuple[float, float, float]]) -> list[str]:
    panel, start = box.panel, box.left - 2
    parts = []
    above = box.top - 12
    if panel.y.label:
        parts.append(_text(panel.y.label, max(2.0, start - 40), above))
        taken.append((max(2.0, start - 40), above, _LETTER * box.size * len(panel.y.label)))
        above -= box.size + 6
    if panel.title:
        parts.append(
            _text(panel.title, max(2.0, start - 40), above, "ink", "", ' font-weight="600"')
        )
    if panel.x.label:
        half = _LETTER * box.size * len(panel.x.label) / 2
        middle = min((box.left + box.right) / 2, box.edge + box.room - half)
        place = box.bottom + 2 * box.size + 9
        parts.append(_text(panel.x.label, middle, place, "muted", "middle"))
    return parts


def _draw_line(chart: Chart, box: _Box, line: Line) -> list[str]:
    parts = []
    points = [(box.x(x) + line.aside, box.y(y)) for x, y in line.points]
    spans = [
        (box.x(x) + line.aside, box.y(low), box.y(high))
        for x, low, high in zip(line.x, line.low, line.high, strict=False)
        if low is not None and high is not None
    ]
    if spans and line.band:
        forth = [f"{x:.1f} {high:.1f}" for x, _, high in spans]
        back = [f"{x:.1f} {low:.1f}" for x, low, _ in reversed(spans)]
        area = "L".join([*forth, *back])
        parts.append(f'<path d="M{area}Z" fill="var(--{line.ink})" opacity=".14"/>')
    elif spans:
        bars = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, low, high in spans)
        parts.append(_path(bars, line, min(1.2, line.width), dashed=False))
    if line.width and len(points) > 1:
        more = ""
        if chart.text is not None:
            last: Iterable[Number] = accumulate(
                line.y, lambda was, now: was if now is None else now
            )
            values = "|".join(map(chart.text, last))
            more = (
                f' data-label="{escape(line.label)}" data-ink="{line.ink}" '
                f'data-values="{escape(values)}"'
            )
        parts.append(_path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), line, None, more))
    elif line.width and points and not line.marker:
        parts.append(_marker("o", *points[0], line.ink))
    if line.marker == ".":
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        more = ' stroke-linecap="round" opacity=".35"'
        parts.append(_path(dots, line, 4.0, more, dashed=False))
    elif line.marker:
        parts += [_marker(line.marker, x, y, line.ink, line.hollow) for x, y in points]
    if line.end is not None and points:
        low, high = map(box.y, line.end)
        bar = f"M{points[-1][0]:.1f} {low:.1f}V{high:.1f}"
        parts.append(_path(bar, line, 4.0 if line.width > 1 else 1.4, dashed=False))
    return parts


def _marker(kind: str, x: float, y: float, ink: str, hollow: bool = False) -> str:
    shapes = {
        "o": f"M{x - 3.2:.1f} {y:.1f}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0",
        "D": f"M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z",
        "s": f"M{x - 3:.1f} {y - 3:.1f}h6v6h-6Z",
        "x": f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9",
        "|": f"M{x:.1f} {y - 8:.1f}v16",
    }
    wide = 2.4 if kind in "x|" else 1.3
    fill = "var(--paper)" if hollow else f"var(--{ink})"
    return f'<path d="{shapes[kind]}" fill="{fill}" stroke="var(--{ink})" stroke-width="{wide}"/>'


def _draw_bar(box: _Box, bar: Bar) -> list[str]:
    y, parts = box.y(bar.row), list[str]()
    if bar.low is not None and bar.high is not None:
        place = f"M{box.x(bar.low):.1f} {y:.1f}H{box.x(bar.high):.1f}"
        parts.append(_rule(place, bar.ink, ' stroke-width="2"'))
    if bar.quantile is not None:
        parts.append(_rule(f"M{box.x(bar.quantile):.1f} {y - 6:.1f}v12", bar.ink))
    if bar.mean is not None:
        parts.append(_marker(bar.marker, box.x(bar.mean), y, bar.ink, bar.hollow))
    return parts


def _draw_sign(box: _Box, sign: Sign, taken: list[tuple[float, float, float]]) -> list[str]:
    title = f"<title>{escape(sign.title or sign.label)}</title>"
    if sign.x is None:
        y = box.y(sign.y or 0.0)
        line = _rule(
            f"M{box.left:.1f} {y:.1f}H{box.right:.1f}", sign.ink, ' stroke-dasharray="5 4"'
        )
        beside = box.right - box.left > WIDE / 2
        text = (
            _text(_shortened(sign.label), box.right + 8, y + 4)
            if beside
            else _text(sign.label, box.right, y - 5, "muted", "end")
        )
        return [f'<g class="level">{title}{line}{text}</g>']
    x = box.x(sign.x)
    if not box.left <= x <= box.right:
        return []
    if sign.y is not None:
        y = box.y(sign.y)
        cross = _path(f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8", Line("", sign.ink, (), ()), 2.4)
        text = _beside(box, sign.label, x - 6, max(y - 8, box.top + 2), "end", taken)
        return [f'<g class="mark">{title}{cross}{text}</g>']
    line = _rule(f"M{x:.1f} {box.top:.1f}V{box.bottom:.1f}", sign.ink, ' stroke-dasharray="2 4"')
    text = _beside(box, sign.label, x, box.top - 6, "middle", taken)
    return [f'<g class="mark">{title}{line}{text}</g>']


def _beside(
    box: _Box, label: str, x: float, y: float, anchor: str, taken: list[tuple[float, float, float]]
) -> str:
    """Return the text of a sign, or nothing where it would cover that of another one."""
    wide = _LETTER * box.size * len(label)
    left = x - wide if anchor == "end" else x - wide / 2
    if left < 0 or any(
        abs(y - height) < box.size + 1 and left < other + length + 4 and other < left + wide + 4
        for other, height, length in taken
    ):
        return ""
    taken.append((left, y, wide))
    return _text(label, x, y, "muted", anchor)


def _draw_names(box: _Box, names: Sequence[Line]) -> list[str]:
    """The name of each line beside its end, moved apart where names would overlap."""
    ends = sorted(((box.y(line.points[-1][1]), line) for line in names), key=lambda end: end[0])
    places = spread([height for height, _ in ends], box.size + 4, box.top + 4, box.bottom)
    parts, x = [], box.right + 14
    for place, (height, line) in zip(places, ends, strict=True):
        last = box.x(line.points[-1][0]) + line.aside
        leader = f"M{last + 4:.1f} {height:.1f}L{x - 2:.1f} {place:.1f}"
        parts.append(_path(leader, line, 0.6, ' stroke-dasharray="1 3"', dashed=False))
        name = _shortened(line.label)
        parts.append(_text(name, x, place + 4, line.ink, "", ' font-weight="600"'))
    return parts
