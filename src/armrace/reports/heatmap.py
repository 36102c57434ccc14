"""The heat map of regret relative to the best policy, and the same figures as tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import polars as pl

from armrace.formatting import count, figure, short

__all__ = ["STEPS", "heat_class", "heat_map", "heat_tables", "legend"]

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
    return f'<p class="note">Times the best policy of the cell: {"".join(marks)}</p>'


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
    parts += [_rectangle(row, columns, rows) for row in relative.iter_rows(named=True)]
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
    row: dict[str, Any], columns: dict[tuple[str, str, float], float], rows: dict[str, float]
) -> str:
    x = columns[row["environment"], row["attack"], row["budget"]]
    y = rows[str(row["policy"])]
    return (
        f'<rect class="{heat_class(row["relative"])}" x="{x:g}" y="{y:g}" '
        f'width="{_CELL - 0.5:g}" height="{_ROW - 1:g}"><title>{_title(row)}</title></rect>'
    )


def _title(row: dict[str, Any]) -> str:
    return (
        f"{row['policy']}, {row['environment']}, {row['attack']}, budget "
        f"{count(row['budget'])}: "
        f"{figure(row['pseudo_regret_mean'])}, {figure(row['relative'])} x best"
    )


def heat_tables(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    """The figures of the heat map, one table per environment."""
    tables = []
    for environment in relative["environment"].unique(maintain_order=True):
        inside = relative.filter(pl.col("environment") == environment)
        tables.append(
            f"<details><summary>{environment}: the figures</summary>"
            f'<div class="wide">{_heat_table(inside, policies)}</div></details>'
        )
    return "".join(tables)


def _heat_table(inside: pl.DataFrame, policies: Sequence[str]) -> str:
    cells = _cells(inside)
    found = {
        (row["policy"], row["attack"], row["budget"]): row["relative"]
        for row in inside.iter_rows(named=True)
    }
    head = "".join(
        f'<th scope="col">{attack}<br>{short(budget)}</th>' for _, attack, budget in cells
    )
    body = []
    for policy in policies:
        values = [found.get((policy, attack, budget)) for _, attack, budget in cells]
        body.append(f'<tr><th scope="row">{escape(policy)}</th>{"".join(map(_value, values))}</tr>')
    return (
        f'<table class="heat"><thead><tr><th scope="col">policy</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _value(relative: float | None) -> str:
    if relative is None:
        return '<td class="absent">-</td>'
    return f'<td class="{heat_class(relative)}">{figure(relative)}</td>'
