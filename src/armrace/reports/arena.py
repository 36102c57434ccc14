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
from armrace.red_team.campaign import WORST_COLUMNS, worst_standings, worst_verdict
from armrace.reports.budgets import attack_plot, worst_plot
from armrace.reports.colours import Style, choose_styles
from armrace.reports.heatmap import heat_caption, heat_maps, heat_plots, heat_tables, legend
from armrace.reports.layout import document, fold, header, line_mark, rerun_section, row, table
from armrace.reports.plots import Plot, plot_section
from armrace.reports.rows import LEADERBOARD_COLUMNS
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA, Grid
from armrace.simulation.experiment import USUAL_REFRESH, refresh_words
from armrace.simulation.leaderboard import leaderboard, relative_regret, verdict, worst_cases

__all__ = ["arena_plots", "render_arena"]

_SHOWN_ATTACKS = ("zero-best-when-likely", "swap-best", "adaptive-constant")


def render_arena(
    grid: Grid, figures: pl.DataFrame, command: str = "", worst: pl.DataFrame | None = None
) -> str:
    """Render the page as HTML, from the figures of the grid's cells.

    Args:
        grid: what was played.
        figures: the figures of its cells, as ``run_arena`` returns them.
        command: the command line that plays the same cells.
        worst: the worst attacks found, if they were searched for; see
            :func:`armrace.red_team.campaign.worst_frame`.
    """
    board = leaderboard(figures)
    policies = board["policy"].to_list()
    styles = _styles(grid, policies)
    sections = [
        header("The arena", verdict(board, smoke_test=grid.is_smoke_test), _setting(grid)),
        "" if worst is None else _worst_found_section(worst, styles),
        _leaderboard_section(board, styles),
        _heat_section(relative_regret(figures), policies),
        *map(plot_section, _attack_plots(figures, styles)),
        _worst_section(figures),
        _environments_section(grid),
        rerun_section(
            command,
            "from pathlib import Path; from armrace.simulation.arena import Grid, run_arena; "
            "run_arena(Grid(**specification), Path('armrace-arena'))",
            [msgspec.to_builtins(grid)],
            words="The same figures, bit for bit, on any machine; with the same folder, nothing is "
            "played twice",
        ),
    ]
    return document("the arena", sections)


def arena_plots(grid: Grid, figures: pl.DataFrame, worst: pl.DataFrame | None = None) -> list[Plot]:
    """All figures of the arena; the arguments are those of :func:`render_arena`."""
    policies = leaderboard(figures)["policy"].to_list()
    styles = _styles(grid, policies)
    found = [] if worst is None else [worst_plot(worst, styles)]
    return [
        *found,
        *heat_plots(relative_regret(figures), policies),
        *_attack_plots(figures, styles),
    ]


def _styles(grid: Grid, policies: Sequence[str]) -> dict[str, Style]:
    return choose_styles([name for name in grid.policies if name in policies], policies)


def _attack_plots(figures: pl.DataFrame, styles: dict[str, Style]) -> list[Plot]:
    present = set(figures["attack"])
    return [attack_plot(figures, name, styles) for name in _SHOWN_ATTACKS if name in present]


def _setting(grid: Grid) -> str:
    return (
        f"{len(grid.environments)} environments; {len(grid.attacks)} attacks at the budgets "
        f"T^(1/2) and T^(3/4), and none; {count(grid.replications)} replications of "
        f"T = {count(grid.horizon)} rounds; seed {grid.seed}."
    )


def _board_rows(board: pl.DataFrame, columns: Iterable[str], styles: dict[str, Style]) -> list[str]:
    """One row per policy, with the mark of its line."""
    names = list(columns)
    return [
        row(
            found["policy"],
            [figure(found[name]) for name in names],
            line_mark(styles[found["policy"]]),
        )
        for found in board.iter_rows(named=True)
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
        row(
            found["policy"],
            (
                found["environment"],
                figure(found["budget"]),
                f"{figure(found['mean'])} ± {figure(found['high'] - found['mean'])}",
                figure(found["p95"]),
                figure(found["largest"]),
                f'<td class="words">{escape(found["description"])}</td>',
            ),
        )
        for found in worst.sort("environment", "budget", "mean").iter_rows(named=True)
    ]
    columns = ("policy", "environment", "budget", "mean", "p95", "max", "attack")
    every = table(columns, cells, "Every cell searched")
    standings = table(["policy", *WORST_COLUMNS.values()], rows, "Worst found")
    return (
        f"<section><h2>Worst found</h2><p>{escape(worst_verdict(board))}</p>{standings}"
        f'<p class="note">{escape(note)}</p>{fold("Every cell, and what the attack does", every)}'
        f"{plot_section(worst_plot(worst, styles), 3)}</section>"
    )


def _leaderboard_section(board: pl.DataFrame, styles: dict[str, Style]) -> str:
    costly = [name for name in board["policy"] if not POLICIES.find(name).exact_tickets]
    rows = _board_rows(board, LEADERBOARD_COLUMNS, styles)
    note = (
        "Pseudo-regret relative to the best policy of each cell: geometric means over the cells "
        "with and without attack, the same of the 95th percentile, and the worst cell. Policies "
        "that take the corruption as a parameter are told the budget. "
        f"{refresh_words(costly, USUAL_REFRESH)}"
    )
    listed = table(["policy", *LEADERBOARD_COLUMNS.values()], rows, "Leaderboard")
    return f'<section><h2>Leaderboard</h2>{listed}<p class="note">{escape(note)}</p></section>'


def _heat_section(relative: pl.DataFrame, policies: Sequence[str]) -> str:
    caption = (
        f"{heat_caption(relative)} The tip of a cell gives its mean pseudo-regret with an interval "
        "of 95%; the tables below have the relative figures."
    )
    return (
        f"<section><h2>Regret relative to the best</h2>{legend()}"
        f"<figure>{heat_maps(relative, policies)}<figcaption>{caption}</figcaption></figure>"
        f"{heat_tables(relative, policies)}</section>"
    )


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
    listed = table(columns, map(_worst_row, worst_cases(figures).to_dicts()), "Worst cases")
    return (
        "<section><h2>Worst cases</h2><p>Where each policy does worst, relative to the best policy "
        f"of the cell.</p>{listed}</section>"
    )


def _worst_row(found: dict[str, Any]) -> str:
    texts = (
        found["environment"],
        found["attack"],
        count(found["budget"]),
        figure(found["pseudo_regret_mean"]),
        figure(found["relative"]),
        found["best"],
    )
    return row(found["policy"], texts)


def _environments_section(grid: Grid) -> str:
    rows = [
        row(name, [f'<td class="words">{escape(_arms(ENVIRONMENTS_OF_THE_ARENA[name]))}</td>'])
        for name in grid.environments
    ]
    listed = table(("environment", "arms"), rows, "Environments")
    return f"<section><h2>Environments</h2>{listed}</section>"


def _arms(environment: Environment) -> str:
    means = environment.mean_rewards(1)
    listed = pl.Series(means).value_counts(sort=False).sort("", descending=True).rows()
    arms = ", ".join(
        figure(mean) + (f" ({times} arms)" if times > 1 else "") for mean, times in listed
    )
    return f"{environment.tag()}, {environment.arms} arms with the means {arms}"
