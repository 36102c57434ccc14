"""The tables of docs/arena.md that follow from its table of five budgets."""

from __future__ import annotations

import pytest

import arena_page


@pytest.fixture(scope="module")
def text():
    return arena_page.PAGE.read_text(encoding="utf-8")


def test_the_summaries_follow_from_the_cells(text):
    assert arena_page.with_tables(text, arena_page.read_cells(text)) == text


def test_a_new_figure_reaches_every_table(text):
    cells = arena_page.read_cells(text)
    cells["clicks", "ucb1", 100.0] = (1.0, 1.0)
    changed = arena_page.with_tables(text, cells)
    assert changed.count("1 / 1 |") == 2  # its cell, and that of the first table
    first = changed[changed.index(arena_page._SUMMARY) :].splitlines()
    assert first[2] != text[text.index(arena_page._SUMMARY) :].splitlines()[2]
