"""The tables of docs/arena.md that are written from docs/arena_cells.ndjson."""

import pytest

from docs.conftest import load_script


@pytest.fixture(scope="module")
def arena_page():
    return load_script("arena_page")


@pytest.fixture(scope="module")
def text(arena_page):
    return arena_page.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cells(arena_page):
    return arena_page.read_cells()


def test_the_tables_follow_from_the_cells(arena_page, text, cells):
    assert arena_page.with_tables(text, cells) == text
    assert arena_page.BUDGET_TABLE.read_text(encoding="utf-8") == arena_page.budget_table(cells)


@pytest.mark.parametrize("environment", ["two-arms", "one-better", "clicks"])
def test_what_readers_choose_among_has_a_hundred_runs_and_an_error(arena_page, cells, environment):
    chosen = {*arena_page.LEADERS, "exp3", "sharp-race", "multi-layer-race", "thompson", "ucb1"}
    own = [cells[key] for key in cells if key[0] == environment and key[1] in chosen]
    assert len(own) == 5 * len(chosen)
    assert all(each.replications >= 100 and each.stderr is not None for each in own)


def test_a_new_figure_reaches_every_table(arena_page, text, cells):
    before = cells["clicks", "ucb1", 100.0]
    changed = arena_page.with_tables(
        text, cells | {("clicks", "ucb1", 100.0): before._replace(mean=1.0, stderr=0.0, p95=1.0)}
    )
    assert changed.count("| 1 ± 0 / 1 |") == 1
    assert changed.count(f"| {before} |") == text.count(f"| {before} |") - 1
    lines = [page[page.index("\n| policy | mean") :].splitlines()[3] for page in (text, changed)]
    assert lines[0] != lines[1]  # all others are measured by the least of the cell
