"""A saved comparison is run again and compared figure by figure; nothing of its own is imported."""

from pathlib import Path

import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import InvalidParameter
from armrace.reproduction.running import first_difference, read_archive
from armrace.simulation import Comparison


def compared() -> Comparison:
    return armrace.compare(
        ["ucb1", "exp3"], [0.9, 0.5], "zero-best", budget=20, horizon=2_000, replications=3, seed=4
    )


def test_the_same_figures_are_called_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared().save(tmp_path / "runs.zip")
    assert run(["rerun", str(tmp_path / "runs.zip")]) == 0
    assert capsys.readouterr().out == "ucb1, 3 runs: equal\nexp3, 3 runs: equal\n"


def test_a_figure_that_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared()
    changed = found.results["exp3"]
    last = (pl.col("replication") == 1) & (pl.col("round") == 2_000)
    changed.rows = changed.rows.with_columns(
        regret=pl.when(last).then(-1.0).otherwise(pl.col("regret"))
    )
    found.save(tmp_path / "runs.zip")
    assert run(["rerun", str(tmp_path / "runs.zip")]) == 1
    said = capsys.readouterr().out
    assert "ucb1, 3 runs: equal\n" in said
    assert "exp3, 3 runs: differs: regret in replication 1 after 2,000 rounds: -1.0, now " in said


def test_a_single_result_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared().results["ucb1"].save(tmp_path / "one.parquet")
    assert run(["rerun", str(tmp_path / "one.parquet")]) == 0
    assert "ucb1, 3 runs: equal" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["policy", "adversary", "environment"])
def test_a_class_of_the_files_own_is_never_imported(tmp_path: Path, part: str) -> None:
    found = compared()
    found.results["exp3"].spec[part] = {"name": "antigravity:Escape"}
    found.save(tmp_path / "runs.zip")
    with pytest.raises(InvalidParameter, match="a class of its own, 'antigravity:Escape'"):
        read_archive(tmp_path / "runs.zip")


def test_a_class_inside_another_is_found(tmp_path: Path) -> None:
    found = compared()
    found.results["exp3"].spec["policy"] = {"name": "guarded", "base": {"name": "os:system"}}
    found.save(tmp_path / "runs.zip")
    with pytest.raises(InvalidParameter, match="a class of its own, 'os:system'"):
        read_archive(tmp_path / "runs.zip")


def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK not really")
    assert run(["rerun", str(tmp_path / "x.zip")]) == 2
    assert "is not a readable archive" in capsys.readouterr().err


def test_ledgers_of_other_sizes_differ() -> None:
    rows = compared().results["ucb1"].rows
    assert first_difference(rows, rows) == ""
    assert "rows of" in first_difference(rows, rows.head(3))
