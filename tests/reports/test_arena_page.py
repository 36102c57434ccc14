"""The arena's page: well formed, with every cell, policy and figure."""

import re

import polars as pl
import pytest

from armrace.formatting import figure
from armrace.red_team.batches import worst_frame
from armrace.reports.arena import arena_plots, render_arena
from reports.conftest import GRID, Results
from reports.test_page import assert_only_own_script, outline

STUDENT = 4.302653
"""The 0.975 quantile of Student's law with two degrees of freedom: there are three replications."""


@pytest.fixture(scope="module")
def figures(results: Results) -> pl.DataFrame:
    return results.arena


def test_page_is_well_formed_and_self_contained(figures: pl.DataFrame) -> None:
    text = render_arena(GRID, figures, "armrace arena <&>")
    page = outline(text)
    assert len(page.labels) == 4  # two heat maps, and a plot for screens and phones
    assert all(page.labels)
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") for link in page.links)
    assert "armrace arena &lt;&amp;&gt;" in text
    assert_only_own_script(text)


def test_every_cell_of_every_policy_is_in_the_heat_map_and_in_a_table(
    figures: pl.DataFrame,
) -> None:
    text = render_arena(GRID, figures, "")
    assert len(re.findall(r"<rect class=", text)) == figures.height == 2 * 5 * 3
    assert len(re.findall(r'<td class="h\d"', text)) == figures.height


def test_a_cell_that_was_not_played_is_left_white(figures: pl.DataFrame) -> None:
    text = render_arena(GRID, figures.slice(1), "")
    assert text.count('class="absent"') == 1


def test_intervals_are_those_of_few_runs(figures: pl.DataFrame) -> None:
    half = STUDENT * figures["pseudo_regret_stderr"]
    text = render_arena(GRID, figures, "")
    shown = re.findall(r"(\S+) ± (\S+), \S+ x best", text)
    assert sorted(shown) == sorted(
        zip(map(figure, figures["pseudo_regret_mean"]), map(figure, half), strict=True)
    )
    summary = {"mean": 30.0, "stderr": 1.0, "low": 17.3, "high": 42.7, "p95": 31.0, "max": 31.0}
    summary["replications"] = 2
    worst = worst_frame(
        [
            {
                "environment_name": "two-arms", "budget": 5, "policy_name": policy,
                "attack": {"name": "swap-best"}, "held_out": summary, "all_lost": 40,
                "best_builtin": {"attack": {"name": "swap-best"}, "held_out": summary},
                "description": "swaps",
            }
            for policy in GRID.policies
        ]
    )  # fmt: skip
    assert render_arena(GRID, figures, "", worst).count("<td>30 ± 12.7</td>") == 3
    plot = arena_plots(GRID, figures, worst)[0]
    assert "of 2 runs" in plot.caption
    drawn = plot.data()
    assert drawn.select("low", "high").unique().rows() == [(17.3, 42.7)]
