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
from armrace.reports.plot_style import empty_figure
from armrace.reports.plots import Plot
from armrace.reports.theme import LIGHT

__all__ = ["STEPS", "draw_heat", "heat_class", "heat_map", "heat_plot", "heat_tables", "legend"]

STEPS = (1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Where the colour changes, on a roughly logarithmic scale: light is near the best policy."""

_CELL, _ROW, _LEFT, _TOP, _GAP = 9.0, 17.0, 178.0, 126.0, 6.0


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


def heat_plot(relative: pl.DataFrame, policies: Sequence[str]) -> Plot:
    """Describe the heat map; pages show it as :func:`heat_map`, which has a tip on each cell."""
    return Plot(
        name="heat",
        heading="Regret relative to the best",
        draw=lambda width: draw_heat(relative, policies, width),
        data=lambda: relative,
        description="Pseudo-regret relative to the best policy, policies by cells.",
        caption="Each cell is one environment, attack and budget: the mean pseudo-regret divided "
        "by that of the best policy there. Policies in the order of the leaderboard; of each "
        "attack, the smaller budget is on the left. Empty: not played. The figures are in the "
        "tables below, and their errors in the plots.",
    )


def draw_heat(relative: pl.DataFrame, policies: Sequence[str], width: float) -> Figure:
    """Draw the heat map for a paper, one strip per environment below the other."""
    environments = relative["environment"].unique(maintain_order=True).to_list()
    strip = 0.35 + 0.115 * len(policies)
    drawing = empty_figure(width, 0.5 + (strip + 0.75) * len(environments))
    grid = drawing.subplots(len(environments), 1, squeeze=False).ravel()
    colours = ListedColormap([LIGHT[f"heat-{step}"] for step in range(len(STEPS) + 1)])
    norm = BoundaryNorm([1.0, *STEPS, 10 * STEPS[-1]], colours.N, extend="neither")
    for axes, environment in zip(grid, environments, strict=True):
        inside = relative.filter(pl.col("environment") == environment)
        cells = _cells(inside)
        values = np.full((len(policies), len(cells)), np.nan)
        for found in inside.iter_rows(named=True):
            place = cells.index((found["environment"], found["attack"], found["budget"]))
            values[policies.index(found["policy"]), place] = min(found["relative"], 9 * STEPS[-1])
        image = axes.pcolormesh(values, cmap=colours, norm=norm, edgecolors="white", lw=0.3)
        axes.set_title(environment)
        axes.set_yticks(np.arange(len(policies)) + 0.5, policies, fontsize=5)
        attacks = dict.fromkeys(cell[1] for cell in cells)
        middles = [
            np.mean([place for place, cell in enumerate(cells) if cell[1] == attack]) + 0.5
            for attack in attacks
        ]
        axes.set_xticks(middles, list(attacks), fontsize=5, rotation=45, ha="right")
        axes.tick_params(length=0)
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
    bar = drawing.colorbar(image, ax=list(grid), location="top", shrink=0.8, aspect=40)
    bar.set_ticks([1.0, *STEPS], labels=[f"{step:g}" for step in (1.0, *STEPS)])
    bar.set_label("mean pseudo-regret, times the best of the cell")
    return drawing


def heat_map(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    """All cells as one SVG; a tooltip on each cell gives its figures."""
    cells = _cells(relative)
    columns: dict[tuple[str, str, float], float] = {}
    parts, x = [], _LEFT
    for environment in dict.fromkeys(cell[0] for cell in cells):
        inside = [cell for cell in cells if cell[0] == environment]
        parts.append(_environment_name(environment, x, len(inside)))
        parts += _attack_names(inside, x)
        for position, cell in enumerate(inside):
            columns[cell] = x + position * _CELL
        x += len(inside) * _CELL + _GAP
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


def _environment_name(environment: str, x: float, width: int) -> str:
    middle = x + width * _CELL / 2
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
