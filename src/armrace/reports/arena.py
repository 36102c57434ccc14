"""The arena's page: the leaderboard, the heat map, regret against corruption, worst cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import msgspec
import polars as pl

from armrace.environments import Environment
from armrace.formatting import count, figure
from armrace.policies import POLICIES
from armrace.red_team.standings import WORST_COLUMNS, worst_standings, worst_verdict
from armrace.reports.budgets import draw_budgets
from armrace.reports.colours import GREY, Style, choose_styles
from armrace.reports.heatmap import heat_map, heat_tables, legend
from armrace.reports.layout import data_block, document, figure_section, line_mark, table
from armrace.reports.plot_style import own_style
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA, Grid
from armrace.simulation.experiment import USUAL_REFRESH, refresh_words
from armrace.simulation.leaderboard import leaderboard, relative_regret, verdict, worst_cases

__all__ = ["render_arena"]

_SHOWN_ATTACKS = ("zero-best-when-likely", "swap-best", "adaptive-constant")

_COLUMNS = {
    "attacked": "attacked",
    "quiet": "quiet",
    "tail": "p95, attacked",
    "worst": "worst cell",
    "rank": "mean rank",
    "wins": "cells won",
    "cells": "cells played",
}


def render_arena(
    grid: Grid, figures: pl.DataFrame, command: str, worst: pl.DataFrame | None = None
) -> str:
    """Render the page as HTML, from the figures of the grid's cells.

    ``worst`` has the worst attacks found, if they were searched for; see
    :func:`armrace.red_team.standings.worst_frame`.
    """
    board = leaderboard(figures)
    policies = board["policy"].to_list()
    styles = choose_styles([name for name in grid.policies if name in policies], policies)
    with own_style():
        sections = [
            _header(grid, board),
            "" if worst is None else _worst_found_section(worst, styles),
            _leaderboard_section(board, styles),
            _heat_section(relative_regret(figures), policies),
            _budget_section(figures, styles),
            _worst_section(figures),
            _environments_section(grid),
            _rerun_section(grid, command),
        ]
    return document("the arena", sections)


def _header(grid: Grid, board: pl.DataFrame) -> str:
    setting = (
        f"{len(grid.environments)} environments; {len(grid.attacks)} attacks at the budgets "
        f"T^(1/2) and T^(3/4), and none; {count(grid.replications)} replications of "
        f"T = {count(grid.horizon)} rounds; seed {grid.seed}."
    )
    return (
        f"<header><h1>The arena</h1><p>{escape(verdict(board, smoke_test=grid.is_smoke_test))}</p>"
        f'<p class="setting">{escape(setting)}</p></header>'
    )


def _row(name: str, cells: Sequence[str], mark: str = "") -> str:
    return f'<tr><th scope="row">{mark}{escape(name)}</th>{"".join(cells)}</tr>'


def _board_rows(board: pl.DataFrame, columns: Iterable[str], styles: dict[str, Style]) -> list[str]:
    """One row per policy, with the mark of its line."""
    names = list(columns)
    return [
        _row(
            row["policy"],
            [f"<td>{figure(row[name])}</td>" for name in names],
            line_mark(styles[row["policy"]]),
        )
        for row in board.iter_rows(named=True)
    ]


def _worst_found_section(worst: pl.DataFrame, styles: dict[str, Style]) -> str:
    """Each policy under its own worst attack: the standings, and every cell folded away."""
    board = worst_standings(worst)
    rows = _board_rows(board, WORST_COLUMNS, styles)
    note = (
        "Each policy under the worst attack that a search found against it, on held-out seeds: "
        "geometric means over the cells of its mean and its 95th percentile, relative to the least "
        "of any policy there; the largest mean per unit of budget; and the cells in which it loses "
        "more than half of all there is to lose."
    )
    cells = [
        _row(
            row["policy"],
            [
                f"<td>{escape(text)}</td>"
                for text in (
                    row["environment"],
                    figure(row["budget"]),
                    f"{figure(row['mean'])} ± {figure(1.96 * row['stderr'])}",
                    figure(row["p95"]),
                    figure(row["largest"]),
                )
            ]
            + [f'<td class="words">{escape(row["description"])}</td>'],
        )
        for row in worst.sort("environment", "budget", "mean").iter_rows(named=True)
    ]
    columns = ("policy", "environment", "budget", "mean", "p95", "max", "attack")
    return (
        f"<section><h2>Worst found</h2><p>{escape(worst_verdict(board))}</p>"
        f"{table(['policy', *WORST_COLUMNS.values()], rows)}"
        f'<p class="note">{escape(note)}</p>'
        f"<details><summary>Every cell, and what the attack does</summary>{table(columns, cells)}"
        "</details></section>"
    )


def _leaderboard_section(board: pl.DataFrame, styles: dict[str, Style]) -> str:
    costly = [name for name in board["policy"] if not POLICIES.find(name).exact_tickets]
    rows = _board_rows(board, _COLUMNS, styles)
    note = (
        "Pseudo-regret relative to the best policy of each cell: geometric means over the cells "
        "with and without attack, the same of the 95th percentile, and the worst cell. Policies "
        "that take the corruption as a parameter are told the budget. "
        f"{refresh_words(costly, USUAL_REFRESH)}"
    )
    return (
        f"<section><h2>Leaderboard</h2>{table(['policy', *_COLUMNS.values()], rows)}"
        f'<p class="note">{escape(note)}</p></section>'
    )


def _heat_section(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    caption = (
        "Policies in the order of the leaderboard; of each attack, the smaller budget is on the "
        "left. White: not played."
    )
    return (
        f"<section><h2>Regret relative to the best</h2>{legend()}"
        f'<figure><div class="wide">{heat_map(relative, policies)}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
        f"{heat_tables(relative, policies)}</section>"
    )


def _budget_section(figures: pl.DataFrame, styles: dict[str, Style]) -> str:
    present = set(figures["attack"])
    attacks = [attack for attack in _SHOWN_ATTACKS if attack in present]
    if not attacks:
        return ""
    caption = (
        "Mean pseudo-regret against the budget, both logarithmic except at a budget of 0. Where a "
        "line jumps, the attack has misled the policy for good."
    )
    if GREY in styles.values():
        caption += " Grey lines are the other policies of the leaderboard."
    drawing = draw_budgets(figures, attacks, styles)
    description = (
        f"Pseudo-regret against the budget of {', '.join(attacks)}, one row per environment."
    )
    return figure_section("Regret against corruption", drawing, "budgets", description, caption)


def _worst_section(figures: pl.DataFrame) -> str:
    columns = (
        "policy",
        "environment",
        "attack",
        "budget",
        "pseudo-regret",
        "times the best",
        "best there",
    )
    return (
        "<section><h2>Worst cases</h2><p>Where each policy does worst, relative to the best policy "
        f"of the cell.</p>{table(columns, map(_worst_row, worst_cases(figures).to_dicts()))}"
        "</section>"
    )


def _worst_row(row: dict[str, Any]) -> str:
    texts = (
        row["environment"],
        row["attack"],
        count(row["budget"]),
        figure(row["pseudo_regret_mean"]),
        figure(row["relative"]),
        row["best"],
    )
    return _row(row["policy"], [f"<td>{escape(text)}</td>" for text in texts])


def _environments_section(grid: Grid) -> str:
    rows = [
        _row(name, [f'<td class="words">{escape(_arms(ENVIRONMENTS_OF_THE_ARENA[name]))}</td>'])
        for name in grid.environments
    ]
    return f"<section><h2>Environments</h2>{table(('environment', 'arms'), rows)}</section>"


def _arms(environment: Environment) -> str:
    means = environment.mean_rewards(1)
    listed = pl.Series(means).value_counts(sort=False).sort("", descending=True).rows()
    arms = ", ".join(
        f"{mean:.3g}" + (f" ({times} arms)" if times > 1 else "") for mean, times in listed
    )
    return f"{environment.tag()}, {environment.arms} arms with the means {arms}"


def _rerun_section(grid: Grid, command: str) -> str:
    return (
        "<section><h2>Run it again</h2><p>The same figures, bit for bit, on any machine; with the "
        "same folder, nothing is played twice:</p>"
        f'<pre class="command"><code>{escape(command)}</code></pre>'
        "<p>or in Python, as <code>run_arena(Grid(**specification), folder)</code> of "
        f"<code>armrace.simulation.arena</code>, with</p>{data_block(msgspec.to_builtins(grid))}"
        "</section>"
    )
