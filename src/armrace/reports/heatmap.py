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
from armrace.statistics.summaries import mean_margin

__all__ = [
    "STEPS",
    "draw_heat",
    "heat_caption",
    "heat_class",
    "heat_maps",
    "heat_plots",
    "heat_tables",
    "legend",
]

STEPS = (1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Where the colour changes, on a roughly logarithmic scale: light is near the best policy."""

_CELL, _ROW, _LEFT, _TOP = 10, 18, 182, 176
"""In pixels: pages show maps at this size, so that names stay legible."""


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


def heat_caption(relative: pl.DataFrame) -> str:
    """Say what the cells are, and of how many runs."""
    runs = " or ".join(map(count, relative["replications"].unique().sort()))
    return (
        f"Each cell is one environment, attack and budget: the mean pseudo-regret of {runs} runs "
        "divided by that of the best policy there. Policies in the order of the leaderboard; of "
        "each attack, the smaller budget is on the left. Empty: not played."
    )


def heat_plots(relative: pl.DataFrame, policies: Sequence[str]) -> list[Plot]:
    """Describe the heat map of each environment, for papers.

    Pages show all of them together (:func:`heat_maps`), with a tip on each cell.
    """

    def plot(environment: str) -> Plot:
        inside = relative.filter(pl.col("environment") == environment)
        return Plot(
            name=f"heat-{environment}",
            heading=f"Regret relative to the best: {environment}",
            draw=lambda width: draw_heat(inside, policies, width),
            data=lambda: inside,
            description="Pseudo-regret relative to the best policy, policies by cells.",
            caption=heat_caption(inside),
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


def heat_maps(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    """A map of each environment as SVG; a tooltip on each cell gives its figures."""
    maps = [
        f'<div class="heat-frame" role="region" tabindex="0" aria-label="{_title_of(environment)}">'
        f"<h3>{escape(environment)}</h3>{_heat_map(inside, policies, environment)}</div>"
        for (environment,), inside in relative.group_by("environment", maintain_order=True)
    ]
    return f'<div class="heats">{"".join(maps)}</div>'


def _title_of(environment: Any) -> str:
    return f"Heat map: {escape(str(environment))}"


def _heat_map(inside: pl.DataFrame, policies: Sequence[str], environment: Any) -> str:
    cells = _cells(inside)
    columns = {cell: _LEFT + place * _CELL for place, cell in enumerate(cells)}
    rows = {policy: _TOP + place * _ROW for place, policy in enumerate(policies)}
    parts = [
        *_attack_names(cells),
        *(
            f'<text x="{_LEFT - 6}" y="{y + 13}" text-anchor="end">{escape(policy)}</text>'
            for policy, y in rows.items()
        ),
        *(_rectangle(each, columns, rows) for each in inside.iter_rows(named=True)),
    ]
    width, height = _LEFT + len(cells) * _CELL + 2, _TOP + len(rows) * _ROW
    return (
        f'<svg class="heat" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="Pseudo-regret relative to the best policy in '
        f'{escape(str(environment))}; the figures are below." '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _cells(relative: pl.DataFrame) -> list[tuple[str, str, float]]:
    """Environment, attack and budget of each cell, in order of appearance."""
    return list(
        relative.select("environment", "attack", "budget").unique(maintain_order=True).rows()
    )


def _attack_names(cells: Sequence[tuple[str, str, float]]) -> list[str]:
    """The name of each attack, turned upright, above its budgets."""
    names = []
    for attack in dict.fromkeys(cell[1] for cell in cells):
        places = [position for position, cell in enumerate(cells) if cell[1] == attack]
        middle = _LEFT + (places[0] + places[-1] + 1) / 2 * _CELL + 4
        names.append(
            f'<text class="attack" transform="translate({middle:g} {_TOP - 6}) rotate(-90)">'
            f"{escape(attack)}</text>"
        )
    return names


def _rectangle(
    found: dict[str, Any], columns: dict[tuple[str, str, float], int], rows: dict[str, int]
) -> str:
    x = columns[found["environment"], found["attack"], found["budget"]]
    y = rows[str(found["policy"])]
    return (
        f'<rect class="{heat_class(found["relative"])}" x="{x}" y="{y}" '
        f'width="{_CELL - 1}" height="{_ROW - 1}"><title>{escape(_tip(found))}</title></rect>'
    )


def _tip(found: dict[str, Any]) -> str:
    half = mean_margin(found["pseudo_regret_stderr"], found["replications"])
    return (
        f"{found['policy']}, {found['environment']}, {found['attack']}, budget "
        f"{count(found['budget'])}: {figure(found['pseudo_regret_mean'])} ± {figure(half)}, "
        f"{figure(found['relative'])} x best"
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
