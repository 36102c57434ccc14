"""The arena: cells that are played once, and what their figures say."""

import msgspec
import polars as pl
import pytest

from armrace.policies import in_the_arena
from armrace.simulation import arena, sweeps
from armrace.simulation.arena import (
    ATTACKS,
    GRIDS,
    Grid,
    leaderboard,
    load_cells,
    make_arena_attack,
    relative_regret,
    run_arena,
    verdict,
    worst_cases,
)

TINY = Grid(
    horizon=60,
    replications=2,
    environments=("two-arms",),
    attacks=("zero-best", "zero-best-when-likely"),
    policies=("ucb1", "exp3"),
)


@pytest.fixture
def played(monkeypatch):
    """The experiments of which something was really played, in their order."""
    experiments = []
    usual = sweeps.run_missing

    def run(given, *rest):
        experiments.extend(given)
        return usual(given, *rest)

    monkeypatch.setattr(sweeps, "run_missing", run)
    return experiments


def test_the_grid_is_as_large_as_promised():
    grid = GRIDS["usual"]
    assert len(grid.environments) >= 6
    assert len(grid.attacks) >= 6
    assert grid.policies == in_the_arena()
    assert (grid.horizon, GRIDS["full"].horizon) == (10**5, 10**6)
    cells = list(grid.cells())
    assert len(cells) == 6 * (1 + 2 * len(ATTACKS))
    assert {cell.budget for cell in cells} == {0.0, 316.0, 5623.0}


def test_every_policy_plays_every_cell_and_costly_distributions_are_refreshed_now_and_then():
    for cell in GRIDS["quick"].cells():
        looks = make_arena_attack(cell.attack, cell.budget).sees_weights
        found = {each.policy.tag(): each.refresh for each in cell.experiments()}
        assert set(found) == set(in_the_arena())
        assert found["thompson"] == (0.03 if looks else 0.0)
        assert found["multi-layer-race"] == 0.0


def test_every_cell_is_played_once(tmp_path, played):
    reports = []
    first = run_arena(
        TINY, tmp_path, workers=1, report=lambda done, total: reports.append((done, total))
    )
    assert len(played) == first.height == 5 * 2
    assert len(list((tmp_path / "two-arms").glob("*.parquet"))) == 5 * 2
    assert (reports[0], reports[-1], sorted(reports)) == ((0, 5), (5, 5), reports)
    assert run_arena(TINY, tmp_path, workers=1).equals(first)
    assert len(played) == 5 * 2
    more = msgspec.structs.replace(TINY, policies=("ucb1", "exp3", "moss"))
    assert run_arena(more, tmp_path, workers=1).height == 5 * 3
    assert {experiment.policy.tag() for experiment in played[5 * 2 :]} == {"moss"}


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, played):
    run_arena(TINY, tmp_path, workers=1)
    for file in sorted((tmp_path / "two-arms").glob("*.parquet"))[7:]:
        file.unlink()
    played.clear()
    figures = run_arena(TINY, tmp_path, workers=1)
    assert len(played) == 3
    assert figures.equals(load_cells(TINY, tmp_path))


def frame(*rows):
    """Figures from rows of attack, budget, policy, mean and 95th percentile."""
    columns = ["attack", "budget", "policy", "pseudo_regret_mean", "pseudo_regret_p95"]
    figures = pl.DataFrame(rows, schema=columns, orient="row")
    return figures.select(pl.lit("somewhere").alias("environment"), pl.all())


FIGURES = frame(
    ("none", 0.0, "bold", 10.0, 20.0),
    ("none", 0.0, "wary", 30.0, 30.0),
    ("none", 0.0, "away", 10.0, 20.0),
    ("zero-best", 5.0, "bold", 200.0, 400.0),
    ("zero-best", 5.0, "wary", 50.0, 50.0),
    ("swap-best", 5.0, "bold", 900.0, 900.0),
    ("swap-best", 5.0, "wary", 100.0, 100.0),
)


def test_relative_regret_by_hand():
    relative = relative_regret(FIGURES)["relative"].to_list()
    assert relative == pytest.approx([1.0, 3.0, 1.0, 4.0, 1.0, 9.0, 1.0])


def test_a_best_regret_below_one_counts_as_one():
    figures = frame(("none", 0.0, "lucky", 0.0, 0.0), ("none", 0.0, "other", 8.0, 9.0))
    assert relative_regret(figures)["relative"].to_list() == [0.0, 8.0]


def test_leaderboard_by_hand():
    wary, bold, away = leaderboard(FIGURES).to_dicts()
    assert wary == {
        "policy": "wary", "attacked": 1.0, "quiet": pytest.approx(3.0), "tail": 1.0, "worst": 3.0,
        "rank": pytest.approx(5 / 3), "wins": 2, "cells": 3,
    }  # fmt: skip
    assert bold["attacked"] == pytest.approx(6.0)  # the root of 4 x 9
    assert bold["tail"] == pytest.approx(72**0.5)  # the root of 8 x 9
    assert (bold["quiet"], bold["worst"], bold["wins"]) == (1.0, 9.0, 1)
    assert bold["rank"] == pytest.approx((1.5 + 2 + 2) / 3)
    assert (away["policy"], away["cells"], away["attacked"]) == ("away", 1, None)


def test_worst_cases_by_hand():
    assert worst_cases(FIGURES.filter(pl.col("policy") != "away")).rows() == [
        ("wary", "somewhere", "none", 0.0, 30.0, 3.0, "bold"),
        ("bold", "somewhere", "swap-best", 5.0, 900.0, 9.0, "wary"),
    ]


def test_verdict_names_the_leaders_and_who_is_not_judged():
    words = verdict(leaderboard(FIGURES))
    assert words.startswith("Under attack wary leads")
    assert "Without attack bold leads, with 1 times." in words
    assert words.endswith("some of their cells are missing: away.")


def test_no_environment_favours_the_lowest_index():
    for environment in arena.ENVIRONMENTS_OF_THE_ARENA.values():
        means = environment.mean_rewards(1)
        assert means.argmax() > 0
        assert (means == means.max()).sum() == 1
