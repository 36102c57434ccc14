"""The heat map of regret relative to the best policy, and the same figures as tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from armrace.formatting import count, figure, short
from armrace.reports.layout import fold, row, table
from armrace.reports.plot_style import new_figure
from armrace.reports.plots import Plot
from armrace.reports.theme import LIGHT

__all__ = [
    "CAPTION",
    "STEPS",
    "draw_heat",
    "heat_class",
    "heat_map",
    "heat_plots",
    "heat_tables",
    "legend",
]

STEPS = (1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Where the colour changes, on a roughly logarithmic scale: light is near the best policy."""

_CELL, _ROW, _LEFT, _TOP, _GAP = 9.0, 17.0, 178.0, 126.0, 6.0
_LETTER = 8.0
"""The room for a letter of an environment's name, which may be wider than its cells."""


def heat_class(relative: float) -> str:
    """The class of a relative regret in the style sheet.

    >>> heat_class(1.0), heat_class(3.0), heat_class(1e6)
    ('h0', 'h2', 'h7')
    """
    return f"h{sum(relative >= step for step in STEPS)}"


def legend() -> str:
    """Explain the colours."""
    edges = ["1", *(f"{step:g}" for step in STEPS)]
    names = [f"{low} to {high}" for low, high in pairwise(edges)]
    marks = [
        f'<span class="key"><span class="h{i}"></span>{name}</span>'
        for i, name in enumerate([*names, f"{edges[-1]} and more"])
    ]
    return f'<p class="note keys">Times the best policy of the cell: {"".join(marks)}</p>'


CAPTION = (
    "Each cell is one environment, attack and budget: the mean pseudo-regret divided by that of "
    "the best policy there. Policies in the order of the leaderboard; of each attack, the smaller "
    "budget is on the left. Empty: not played."
)


def heat_plots(relative: pl.DataFrame, policies: Sequence[str]) -> list[Plot]:
    """Describe the heat map of each environment, for papers.

    Pages show all of them together (:func:`heat_map`), with a tip on each cell.
    """

    def plot(environment: str) -> Plot:
        inside = relative.filter(pl.col("environment") == environment)
        return Plot(
            name=f"heat-{environment}",
            heading=f"Regret relative to the best: {environment}",
            draw=lambda width: draw_heat(inside, policies, width),
            data=lambda: inside,
            description="Pseudo-regret relative to the best policy, policies by cells.",
            caption=CAPTION,
        )

    return [plot(name) for name in relative["environment"].unique(maintain_order=True)]


def draw_heat(inside: pl.DataFrame, policies: Sequence[str], width: float) -> Figure:
    """Draw the heat map of one environment."""
    drawing, axes = new_figure(width, 1.6 + 0.115 * len(policies))
    colours = ListedColormap([LIGHT[f"heat-{step}"] for step in range(len(STEPS) + 1)])
    norm = BoundaryNorm([1.0, *STEPS, 10 * STEPS[-1]], colours.N)
    cells = _cells(inside)
    values = np.full((len(policies), len(cells)), np.nan)
    for found in inside.iter_rows(named=True):
        place = cells.index((found["environment"], found["attack"], found["budget"]))
        values[policies.index(found["policy"]), place] = min(found["relative"], 9 * STEPS[-1])
    image = axes.pcolormesh(values, cmap=colours, norm=norm, edgecolors="white", lw=0.3)
    attacks = list(dict.fromkeys(cell[1] for cell in cells))
    middles = [
        float(np.mean([place for place, cell in enumerate(cells) if cell[1] == attack])) + 0.5
        for attack in attacks
    ]
    axes.set_yticks(np.arange(len(policies)) + 0.5, list(policies), fontsize=5)
    axes.set_xticks(middles, attacks, fontsize=5, rotation=45, ha="right")
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    bar = drawing.colorbar(image, ax=axes, location="top", shrink=0.9, aspect=40)
    bar.set_ticks([1.0, *STEPS], labels=[f"{step:g}" for step in (1.0, *STEPS)])
    bar.set_label(f"mean pseudo-regret in {cells[0][0]}, times the best of the cell")
    return drawing


def heat_map(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    """All cells as one SVG; a tooltip on each cell gives its figures."""
    cells = _cells(relative)
    columns: dict[tuple[str, str, float], float] = {}
    parts, x = [], _LEFT
    for environment in dict.fromkeys(cell[0] for cell in cells):
        inside = [cell for cell in cells if cell[0] == environment]
        width = max(len(inside) * _CELL, len(environment) * _LETTER)
        parts.append(_environment_name(environment, x + width / 2))
        parts += _attack_names(inside, x)
        for position, cell in enumerate(inside):
            columns[cell] = x + position * _CELL
        x += width + _GAP
    rows = {policy: _TOP + position * _ROW for position, policy in enumerate(policies)}
    parts += [
        f'<text x="{_LEFT - 6:g}" y="{y + 12.5:g}" text-anchor="end">{escape(policy)}</text>'
        for policy, y in rows.items()
    ]
    parts += [_rectangle(each, columns, rows) for each in relative.iter_rows(named=True)]
    description = "Pseudo-regret relative to the best policy, policies by cells; figures below."
    height = _TOP + len(rows) * _ROW
    return (
        f'<svg class="heat" viewBox="0 0 {x:g} {height:g}" role="img" '
        f'aria-label="{description}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _cells(relative: pl.DataFrame) -> list[tuple[str, str, float]]:
    """Environment, attack and budget of each cell, in order of appearance."""
    return list(
        relative.select("environment", "attack", "budget").unique(maintain_order=True).rows()
    )


def _environment_name(environment: str, middle: float) -> str:
    return f'<text class="group" x="{middle:g}" y="12" text-anchor="middle">{environment}</text>'


def _attack_names(cells: Sequence[tuple[str, str, float]], x: float) -> list[str]:
    """The name of each attack, turned upright, above its budgets."""
    names = []
    for attack in dict.fromkeys(cell[1] for cell in cells):
        places = [position for position, cell in enumerate(cells) if cell[1] == attack]
        middle = x + (places[0] + places[-1] + 1) / 2 * _CELL + 3.5
        names.append(
            f'<text class="attack" transform="translate({middle:g} {_TOP - 5:g}) rotate(-90)">'
            f"{attack}</text>"
        )
    return names


def _rectangle(
    found: dict[str, Any], columns: dict[tuple[str, str, float], float], rows: dict[str, float]
) -> str:
    x = columns[found["environment"], found["attack"], found["budget"]]
    y = rows[str(found["policy"])]
    return (
        f'<rect class="{heat_class(found["relative"])}" x="{x:g}" y="{y:g}" '
        f'width="{_CELL - 0.5:g}" height="{_ROW - 1:g}"><title>{_title(found)}</title></rect>'
    )


def _title(found: dict[str, Any]) -> str:
    return (
        f"{found['policy']}, {found['environment']}, {found['attack']}, budget "
        f"{count(found['budget'])}: "
        f"{figure(found['pseudo_regret_mean'])}, {figure(found['relative'])} x best"
    )


def heat_tables(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    """The figures of the heat map, one table per environment."""
    tables = []
    for environment in relative["environment"].unique(maintain_order=True):
        inside = relative.filter(pl.col("environment") == environment)
        tables.append(
            fold(f"{environment}: the figures", _heat_table(inside, policies, environment))
        )
    return "".join(tables)


def _heat_table(inside: pl.DataFrame, policies: Sequence[str], environment: str) -> str:
    cells = _cells(inside)
    found = {
        (each["policy"], each["attack"], each["budget"]): each["relative"]
        for each in inside.iter_rows(named=True)
    }
    body = []
    for policy in policies:
        values = [found.get((policy, attack, budget)) for _, attack, budget in cells]
        body.append(row(policy, map(_value, values)))
    heads = [f"{attack} {short(budget)}" for _, attack, budget in cells]
    return table(["policy", *heads], body, f"Relative regret: {environment}", "heat")


def _value(relative: float | None) -> str:
    if relative is None:
        return '<td class="absent">-</td>'
    return f'<td class="{heat_class(relative)}">{figure(relative)}</td>'
