"""``armrace plan``: table, page, figures, interruption."""

import json
from typing import Any

import pytest

from armrace.cli.main import run
from armrace.planning import planner
from armrace.planning.question import COUNTED_CLICKS

SMALL = [
    "plan", "--means", "0.5,0.9,0.5", "--traffic", "1000", "--days", "4", "--forged", "1%",
    "--policies", "ucb1,active-arm-elimination,thompson",
    "--attacks", "swap-best,zero-best-when-likely", "--replications", "4",
]  # fmt: skip


def test_table_words_page_and_json(tmp_path, capsys):
    page, figures = tmp_path / "plan.html", tmp_path / "plan.json"
    assert run([*SMALL, "--report", str(page), "--json", str(figures)]) == 0
    output, error = capsys.readouterr()
    assert f"The report is in {page}." in error
    for words in ("no attack", "survives", "see the probabilities of thompson", "rests on"):
        assert words in output
    assert max(map(len, output.splitlines())) <= 80
    data = json.loads(figures.read_text())
    assert {row["policy"] for row in data["table"]} == {
        "ucb1",
        "active-arm-elimination",
        "thompson",
    }
    assert data["recommendation"].split("\n\n")[0] in " ".join(page.read_text().split("<p>"))
    assert (data["horizon"], data["suspected_corruption"]) == (4000, 40.0)


def test_the_share_of_clicks_or_of_visitors_may_be_given_in_place_of_the_share_of_decisions(
    tmp_path, capsys
):
    at = SMALL.index("--forged")
    rest = [*SMALL[:at], *SMALL[at + 2 : at + 2], "--policies", "ucb1", "--replications", "1"]
    page = ["--report", str(tmp_path / "plan.html"), "--attacks", "swap-best", "--json", "-"]
    found = []
    for words in (["--forged-clicks", "10%"], ["--bot-visitors", "9%"], ["--forged", "0.09"]):
        assert run([*rest, *words, *page, "--force"]) == 0
        said = capsys.readouterr()
        found.append(json.loads(said.out)["suspected_corruption"])
        assert (COUNTED_CLICKS in said.err) == (words[0] == "--forged-clicks")
    assert found == pytest.approx([360.0] * 3)
    assert run([*rest, "--forged-clicks", "10%", "--bot-visitors", "9%", *page, "--force"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_interruption_keeps_nothing_and_says_so(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "run_experiments", interrupt)
    assert run([*SMALL, "--report", str(tmp_path / "plan.html")]) == 130
    assert "interrupted; half a plan would mislead" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
