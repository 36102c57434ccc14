"""The arena's page: the leaderboard, the heat map, regret against corruption, worst cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl
from markupsafe import Markup

from armrace.environments import Environment
from armrace.formatting import count, figure, short
from armrace.policies import POLICIES
from armrace.red_team.batches import WORST_COLUMNS, worst_standings, worst_verdict
from armrace.reports import kit
from armrace.reports.charts import (
    Chart,
    Line,
    Panel,
    Plot,
    budget_axis,
    mean_line,
    other_lines,
    regret_axis,
)
from armrace.reports.comparison import grey_words
from armrace.reports.text import LEADERBOARD_COLUMNS
from armrace.reports.theme import GREY, Style, choose_styles
from armrace.simulation.arena import (
    ENVIRONMENTS_OF_THE_ARENA,
    Grid,
    leaderboard,
    relative_regret,
    verdict,
    worst_cases,
)
from armrace.simulation.experiment import USUAL_REFRESH, refresh_words
from armrace.statistics.summaries import mean_margin

_SHOWN_ATTACKS = ("zero-best-when-likely", "swap-best", "adaptive-constant")


def render_arena(
    grid: Grid, figures: pl.DataFrame, command: str = "", worst: pl.DataFrame | None = None
) -> str:
    """Render the page as HTML, from the figures of the grid's cells."""
    board = leaderboard(figures)
    policies = board["policy"].to_list()
    styles = _styles(grid, policies)
    sections = [
        kit.header("The arena", verdict(board, smoke_test=grid.is_smoke_test), _setting(grid)),
        "" if worst is None else _worst_found_section(worst, styles),
        _leaderboard_section(board, styles),
        _heat_section(relative_regret(figures), policies),
        *map(kit.plot_section, _attack_plots(figures, styles)),
        _worst_section(figures),
        _environments_section(grid),
        kit.rerun_section(
            command,
            "from pathlib import Path; from armrace.simulation.arena import Grid, run_arena; "
            "run_arena(Grid(**specification), Path('armrace-arena'))",
            [msgspec.to_builtins(grid)],
            words="The same figures, bit for bit, on any machine; with the same folder, nothing is "
            "played twice",
        ),
    ]
    return kit.document("the arena", sections)


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


def _board_rows(
    board: pl.DataFrame, columns: Iterable[str], styles: dict[str, Style]
) -> list[Markup]:
    """One row per policy, with the mark of its line."""
    names = list(columns)
    return [
        kit.row(
            found["policy"],
            [figure(found[name]) for name in names],
            kit.line_mark(styles[found["policy"]]),
        )
        for found in board.iter_rows(named=True)
    ]


def _worst_found_section(worst: pl.DataFrame, styles: dict[str, Style]) -> Markup:
    """Each policy under its own worst attack: the standings, and every cell folded away."""
    board = worst_standings(worst)
    rows = _board_rows(board, WORST_COLUMNS, styles)
    words = (
        "Each policy under the worst attack that a search found against it, on held-out seeds: "
        "geometric means over the cells of its mean and its 95th percentile, relative to the least "
        "of any policy there; the largest mean per unit of budget; and the cells in which it loses "
        "more than half of all there is to lose."
    )
    cells = [
        (
            found["policy"],
            found["environment"],
            figure(found["budget"]),
            f"{figure(found['mean'])} ± {figure(found['high'] - found['mean'])}",
            figure(found["p95"]),
            figure(found["largest"]),
            kit.cell(found["description"]),
        )
        for found in worst.sort("environment", "budget", "mean").iter_rows(named=True)
    ]
    columns = ("policy", "environment", "budget", "mean", "p95", "max", "attack")
    every = kit.listing(columns, cells, "Every cell searched")
    standings = kit.table(["policy", *WORST_COLUMNS.values()], rows, "Worst found")
    parts = [
        kit.paragraphs([worst_verdict(board)]),
        standings,
        kit.note(words),
        kit.fold("Every cell, and what the attack does", every),
        kit.plot_section(worst_plot(worst, styles), 3),
    ]
    return kit.section("Worst found", parts)


def _leaderboard_section(board: pl.DataFrame, styles: dict[str, Style]) -> Markup:
    costly = [name for name in board["policy"] if not POLICIES.find(name).exact_tickets]
    rows = _board_rows(board, LEADERBOARD_COLUMNS, styles)
    words = (
        "Pseudo-regret relative to the best policy of each cell: geometric means over the cells "
        "with and without attack, the same of the 95th percentile, and the worst cell. Policies "
        "that take the corruption as a parameter are told the budget. "
        f"{refresh_words(costly, USUAL_REFRESH)}"
    )
    listed = kit.table(["policy", *LEADERBOARD_COLUMNS.values()], rows, "Leaderboard")
    return kit.section("Leaderboard", [listed, kit.note(words)])


def _heat_section(relative: pl.DataFrame, policies: Sequence[str]) -> Markup:
    caption = (
        f"{heat_caption(relative)} The tip of a cell gives its mean pseudo-regret with an interval "
        "of 95%; the tables below have the relative figures."
    )
    parts = [heat_maps(relative, policies, caption), *heat_tables(relative, policies)]
    return kit.section("Regret relative to the best", parts)


def _worst_section(figures: pl.DataFrame) -> Markup:
    columns = (
        "policy",
        "environment",
        "attack",
        "budget",
        "pseudo-regret",
        "times the best",
        "best there",
    )
    listed = kit.listing(columns, map(_worst_row, worst_cases(figures).to_dicts()), "Worst cases")
    words = "Where each policy does worst, relative to the best policy of the cell."
    return kit.section("Worst cases", [kit.paragraphs([words]), listed])


def _worst_row(found: dict[str, Any]) -> Sequence[str]:
    return (
        found["policy"],
        found["environment"],
        found["attack"],
        count(found["budget"]),
        figure(found["pseudo_regret_mean"]),
        figure(found["relative"]),
        found["best"],
    )


def _environments_section(grid: Grid) -> Markup:
    rows = [(name, kit.cell(_arms(ENVIRONMENTS_OF_THE_ARENA[name]))) for name in grid.environments]
    listed = kit.listing(("environment", "arms"), rows, "Environments")
    return kit.section("Environments", [listed])


def _arms(environment: Environment) -> str:
    means = environment.mean_rewards(1)
    listed = pl.Series(means).value_counts(sort=False).sort("", descending=True).rows()
    arms = ", ".join(
        figure(mean) + (f" ({times} arms)" if times > 1 else "") for mean, times in listed
    )
    return f"{environment.tag()}, {environment.arms} arms with the means {arms}"


def attack_plot(figures: pl.DataFrame, attack: str, styles: Mapping[str, Style]) -> Plot:
    """Describe regret against the budget of one attack of the arena."""
    data = _with_intervals(
        figures.filter(pl.col("attack").is_in([attack, "none"])).select(
            "environment", "policy", "budget", "replications",
            mean="pseudo_regret_mean", stderr="pseudo_regret_stderr",
        )
    )  # fmt: skip
    return Plot(
        name=f"budgets-{attack}",
        heading=f"Regret against corruption: {attack}",
        chart=_panels(data, styles),
        data=lambda: data,
        description=f"Mean pseudo-regret against the budget of {attack}, one panel per "
        "environment.",
        caption=f"Mean pseudo-regret of {_runs(data)} runs with 95% intervals against the budget, "
        "both logarithmic "
        "except at a budget of 0; each panel has its own scale. Where a line jumps, the attack has "
        "misled the policy for good." + grey_words(styles, "policies of the leaderboard"),
    )


def worst_plot(worst: pl.DataFrame, styles: Mapping[str, Style]) -> Plot:
    """Describe the worst regret found against the budget."""
    data = worst.select("environment", "policy", "budget", "mean", "stderr", "low", "high")
    return Plot(
        name="worst-found",
        heading="The worst attack found against each policy",
        chart=_panels(data, styles),
        data=lambda: data,
        description="Mean pseudo-regret of each policy under its own worst attack found, against "
        "the budget, one panel per environment.",
        caption=f"Mean pseudo-regret of {_runs(worst)} runs with 95% intervals on held-out seeds, "
        "each policy under the "
        "worst attack that a search found against it; both axes are logarithmic."
        + grey_words(styles, "policies of the leaderboard"),
    )


def _runs(data: pl.DataFrame) -> str:
    """How many runs there are, which may differ from cell to cell."""
    return " or ".join(map(count, data["replications"].unique().sort()))


def _with_intervals(data: pl.DataFrame) -> pl.DataFrame:
    """Add the ends of Student's 95% interval; a single run has none."""
    factors = {runs: mean_margin(1.0, runs) for runs in data["replications"].unique()}
    half = pl.col("stderr") * pl.col("replications").replace_strict(
        factors, return_dtype=pl.Float64
    )
    return data.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half)


def _panels(data: pl.DataFrame, styles: Mapping[str, Style]) -> Chart:
    """Means with intervals at each budget, a panel for each environment."""
    panels = []
    for (environment,), cells in data.group_by("environment", maintain_order=True):
        own = {name: cells.filter(pl.col("policy") == name).sort("budget") for name in styles}
        lines = [mean_line(name, styles[name], "budget", rows) for name, rows in own.items()]
        budgets = cells["budget"].unique().sort().to_list()
        panels.append(
            Panel(
                budget_axis("budget C", budgets),
                regret_axis("mean pseudo-regret", lines),
                lines,
                title=str(environment),
            )
        )
    keys = [Line(n, s.ink, (), (), dashes=s.dashes) for n, s in styles.items() if s != GREY]
    keys += other_lines(style.ink for style in styles.values())
    return Chart(panels, 250, min(3, len(panels)), keys)


STEPS = (1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Where the colour changes, on a roughly logarithmic scale: light is near the best policy."""


def heat_class(relative: float) -> str:
    """The class of a relative regret in the style sheet.

    >>> heat_class(1.0), heat_class(3.0), heat_class(1e6)
    ('h0', 'h2', 'h7')
    """
    return f"h{sum(relative >= step for step in STEPS)}"


def heat_caption(relative: pl.DataFrame) -> str:
    """Say what the cells are, and of how many runs."""
    return (
        f"Each cell is one environment, attack and budget: the mean pseudo-regret of "
        f"{_runs(relative)} runs "
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
            chart=None,
            data=lambda: inside,
            description="Pseudo-regret relative to the best policy, policies by cells.",
            caption=heat_caption(inside),
            draw=lambda width: _draw_heat(inside, policies, width),
        )

    return [plot(name) for name in relative["environment"].unique(maintain_order=True)]


def _draw_heat(inside: pl.DataFrame, policies: Sequence[str], width: float) -> Any:
    from armrace.reports.figures import Tile, draw_tiles

    columns = _cells(inside)
    tiles = [
        Tile(
            policies.index(each["policy"]),
            columns.index((each["environment"], each["attack"], each["budget"])),
            f"heat-{heat_class(each['relative'])[1:]}",
        )
        for each in inside.iter_rows(named=True)
    ]
    heads = [(middle, attack) for attack, middle in _attacks(columns)]
    keys = [(f"heat-{step}", words) for step, words in enumerate(_key_words())]
    return draw_tiles(tiles, policies, heads, len(columns), width, keys)


def _key_words() -> list[str]:
    edges = ["1", *(f"{step:g}" for step in STEPS)]
    return [*(f"{low} to {high}" for low, high in pairwise(edges)), f"{edges[-1]} and more"]


def heat_maps(relative: pl.DataFrame, policies: Sequence[str], caption: str = "") -> Markup:
    """A map of each environment as SVG, below what its colours mean."""
    maps = []
    for (environment,), inside in relative.group_by("environment", maintain_order=True):
        columns = _cells(inside)
        drawn = [
            (
                columns.index((each["environment"], each["attack"], each["budget"])),
                policies.index(each["policy"]),
                heat_class(each["relative"]),
                _tip(each),
            )
            for each in inside.iter_rows(named=True)
        ]
        maps.append(
            {
                "environment": environment,
                "columns": len(columns),
                "attacks": _attacks(columns),
                "cells": drawn,
            }
        )
    template = kit.templates().get_template("heat.html")
    return Markup(template.render(keys=_key_words(), maps=maps, policies=policies, caption=caption))


def _cells(relative: pl.DataFrame) -> list[tuple[str, str, float]]:
    """Environment, attack and budget of each cell, in order of appearance."""
    return list(
        relative.select("environment", "attack", "budget").unique(maintain_order=True).rows()
    )


def _attacks(cells: Sequence[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """The attacks, each with the middle of its columns."""
    names = [each[1] for each in cells]
    return [
        (name, float(np.mean([n for n, each in enumerate(names) if each == name])) + 0.5)
        for name in dict.fromkeys(names)
    ]


def _tip(found: dict[str, Any]) -> str:
    half = mean_margin(found["pseudo_regret_stderr"], found["replications"])
    return (
        f"{found['policy']}, {found['environment']}, {found['attack']}, budget "
        f"{count(found['budget'])}: {figure(found['pseudo_regret_mean'])} ± {figure(half)}, "
        f"{figure(found['relative'])} x best"
    )


def heat_tables(relative: pl.DataFrame, policies: Sequence[str]) -> list[Markup]:
    """The figures of the heat map, one table per environment."""
    tables = []
    for environment in relative["environment"].unique(maintain_order=True):
        inside = relative.filter(pl.col("environment") == environment)
        tables.append(
            kit.fold(f"{environment}: the figures", _heat_table(inside, policies, environment))
        )
    return tables


def _heat_table(inside: pl.DataFrame, policies: Sequence[str], environment: str) -> Markup:
    cells = _cells(inside)
    found = {
        (each["policy"], each["attack"], each["budget"]): each["relative"]
        for each in inside.iter_rows(named=True)
    }
    body = []
    for policy in policies:
        values = [found.get((policy, attack, budget)) for _, attack, budget in cells]
        body.append(kit.row(policy, map(_value, values)))
    heads = [f"{attack} {short(budget)}" for _, attack, budget in cells]
    return kit.table(["policy", *heads], body, f"Relative regret: {environment}", "heat")


def _value(relative: float | None) -> Markup:
    return (
        kit.cell("-", "absent")
        if relative is None
        else kit.cell(figure(relative), heat_class(relative))
    )
