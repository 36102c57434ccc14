"""Runs of published experiments: what is played, judged, shown and refused."""

import msgspec
import numpy as np
import polars as pl
import pytest

from armrace.cli.main import run
from armrace.errors import UnknownName
from armrace.reproduction import PAPERS, Paper, Reproduction, Statement, Study, reproduce
from armrace.reproduction.pages import markdown_of, render_reproduction, reproduction_plots
from armrace.reproduction.studies import Form, Point, point

NAME = "tried-2000"


def arms(form: Form) -> list[Point]:
    return [
        point(
            f"pays {mean:g}", None if mean == 1.0 else 5.0, policy="ucb1", environment=[mean, 0.0],
            horizon=50, replications=form.of(2, 3), seed=form.seed,
        )
        for mean in (1.0, 0.5, 0.5)
    ]  # fmt: skip


TRIED = Study(
    "plays", "Plays", "Figure 9", "Much <is> said.", arms, "round", "mean plays",
    (
        Statement("plays are counted", lambda found: (found.mean("pays 1") > 40, "many")),
        Statement("the moon is cheese", lambda found: (False, "none"), "It is rock."),
    ),
    value=pl.col("pulls").arr.get(0),
    formulas=lambda form: {"all": [(1.0, 1.0), (50.0, 50.0)]},
)  # fmt: skip


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(PAPERS, NAME, Paper(NAME, "Nobody (2000)", "Nothing was read.", (TRIED,)))
    return NAME


def test_a_study_is_played_and_judged(tried: str) -> None:
    found = reproduce(tried, quick=True, progress=False)
    (study,) = found.studies
    assert [finding.agrees for finding in study.findings] == [True, False]
    assert [finding.why for finding in study.findings] == ["", "It is rock."]
    assert found.verdict == "1 of 2 statements agree."
    frame = study.frame
    curve = frame.filter(pl.col("line") == "pays 1")
    assert curve["x"].to_list()[-1] == 50
    assert curve["runs"].unique().to_list() == [2]
    # UCB1 on arms that pay 1 and 0 plays the worse one while its bonus exceeds the lead of 1.
    assert curve["mean"][-1] > 40
    assert frame.filter(pl.col("line") == "all")["runs"].to_list() == [0, 0]


def test_points_of_the_same_place_are_one_sample(tried: str) -> None:
    (study,) = reproduce(tried, quick=True, progress=False).studies
    (row,) = study.frame.filter(pl.col("line") == "pays 0.5").rows(named=True)
    assert (row["x"], row["runs"]) == (5.0, 4)


def test_the_same_seed_gives_the_same_figures_and_another_one_others(tried: str) -> None:
    rows = [
        reproduce(tried, seed=seed, quick=True, progress=False).studies[0].rows
        for seed in (1, 1, 2)
    ]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_a_run_survives_json_and_is_shown(tried: str) -> None:
    found = reproduce(tried, quick=True, progress=False)
    again = msgspec.json.decode(msgspec.json.encode(found), type=Reproduction)
    assert markdown_of(again) == markdown_of(found)
    page = render_reproduction(found)
    assert "Much &lt;is&gt; said." in page
    assert "differs: the moon is cheese: none. It is rock." in page
    (plot,) = reproduction_plots(found)
    lines = plot.chart.panels[0].lines
    assert [bool(line.dashes) for line in lines] == [False, False, True]
    assert np.isclose(plot.data()["mean"][-1], 50.0)


def test_the_command_prints_verdicts(tried: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", tried, "--quick"]) == 0
    said = capsys.readouterr().out
    assert "agrees: plays are counted: many." in said
    assert "1 of 2 statements agree. Quick form: 6 runs, seed 0" in said


def test_what_does_not_exist_is_refused(tried: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName, match="there is no paper named 'x'"):
        reproduce("x")
    with pytest.raises(UnknownName, match="there is no study named 'y'"):
        reproduce(tried, ["y"])
    assert run(["reproduce"]) == 2
    assert "reproduce --list" in capsys.readouterr().err


def test_the_list_names_every_paper_and_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list"]) == 0
    said = capsys.readouterr().out
    for paper in PAPERS.values():
        assert f"\n{paper.name}\n" in f"\n{said}"
        assert all(f"    {study.name}: " in said for study in paper.studies)
