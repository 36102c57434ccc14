"""The tables of docs/arena.md that follow from its table of five budgets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def arena_page():
    docs = str(Path(__file__).parents[2] / "docs")
    sys.path.insert(0, docs)
    try:
        import arena_page
    finally:
        sys.path.remove(docs)
    return arena_page


@pytest.fixture(scope="module")
def text(arena_page):
    return arena_page.PAGE.read_text(encoding="utf-8")


def test_the_summaries_follow_from_the_cells(arena_page, text):
    assert arena_page.with_tables(text, arena_page.read_cells(text)) == text


def test_a_new_figure_reaches_every_table(arena_page, text):
    cells = arena_page.read_cells(text)
    cells["clicks", "ucb1", 100.0] = (1.0, 1.0)
    changed = arena_page.with_tables(text, cells)
    assert changed.count("| 1 / 1 |") == 2  # its cell, and that of the first table
    assert changed.count("| 1,649 / 1,725 |") == 0
    lines = [page[page.index("\n| policy | mean") :].splitlines()[3] for page in (text, changed)]
    assert lines[0] != lines[1]  # all others are measured by the least of the cell
