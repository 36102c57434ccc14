"""Files in the format that their ending names, tables within 80 columns, help that flows."""

import itertools
import json

import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.cli.tables import new_table, print_tables

SMALL = ["simulate", "ucb1", "--horizon", "50", "--replications", "3", "--means", "0.9,0.5"]


@pytest.fixture
def saved(tmp_path, capsys):
    places = {
        ending: tmp_path / f"rows.{ending}" for ending in ("parquet", "csv", "json", "ndjson")
    }
    for place in places.values():
        assert run([*SMALL, "--output", str(place)]) == 0
        assert f"The result is in {place}." in capsys.readouterr().err
    return places


def test_every_ending_has_its_format(saved):
    rows = armrace.load(saved["parquet"]).rows
    table = pl.read_csv(saved["csv"])
    assert table.height == rows.height
    assert table["pulls_1"].to_list() == [pulls[1] for pulls in rows["pulls"].to_list()]
    assert table["pseudo_regret"].to_list() == rows["pseudo_regret"].to_list()
    entries = json.loads(saved["json"].read_text())
    assert [entry["pulls"] for entry in entries] == [list(p) for p in rows["pulls"].to_list()]
    lines = [json.loads(line) for line in saved["ndjson"].read_text().splitlines()]
    assert lines == entries


def test_a_wide_table_is_printed_in_parts_of_80_columns(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = new_table("policy", *(f"column {number}" for number in range(12)))
    table.add_row("multi-layer-race", *(f"{number:,}" for number in range(10**6, 10**6 + 12)))
    print_tables(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    for number in range(12):
        assert f"1,000,{number:03}" in "".join(lines)
    assert sum(line.startswith("multi-layer-race") for line in lines) == 3


def test_words_take_several_lines_before_a_word_is_lost(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = new_table("policy", "limit", "setting", words=("policy", "setting"))
    policy = "multi-layer-race (intervals=kl-jeffreys, pool=True)"
    setting = f"means 0.9, 0.5; {'lower-bound-switch after C = 320,000; ' * 3}promised at last"
    table.add_row(policy, "31,751", setting)
    print_tables(table)
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    assert page.count("limit") == 1  # in one part
    cells = ["policy", "limit", "setting", policy, "31,751", setting]
    assert sorted(page.split()) == sorted(" ".join(cells).split())


def test_the_usual_comparison_fits_80_columns_in_one_part(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    words = ["--policies", "multi-layer-race,ucb1", "--horizon", "20000", "--replications", "3"]
    assert run(["compare", *words, "--no-report"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    # A row in each of two tables, and perhaps the beginning of each verdict.
    assert sum(line.startswith("multi-layer-race ") for line in lines) <= 4


@pytest.mark.parametrize("command", ["", "compare", "simulate", "scenarios", "plan", "verify"])
def test_help_flows_and_flags_have_no_type(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*command.split(), "--help"]) == 0
    page = capsys.readouterr().out
    assert "<bool>" not in page
    assert "``" not in page
    assert max(map(len, page.splitlines())) <= 80
    # A line that ends early although the first word of the next one would fit is ragged.
    prose = page.split("╭")[0].splitlines()
    for line, following in itertools.pairwise(prose):
        if line.strip() and following.strip():
            assert len(line.rstrip()) + 1 + len(following.split()[0]) > 78
