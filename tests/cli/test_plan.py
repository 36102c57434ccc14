"""``armrace plan``: table, page, figures, interruption."""

import json
import shlex
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


def test_json_on_standard_output_is_alone_there(tmp_path, capsys):
    arms = ["plan", "--arms", "3", "--gap", "0.4", *SMALL[3:], "--json", "-"]
    assert run([*arms, "--report", str(tmp_path / "plan.html")]) == 0
    question = json.loads(capsys.readouterr().out)["question"]
    assert question["means"] == [0.5, 0.5, 0.9]
    assert (question["forged"], question["gap"]) == (0.01, 0.4)


def test_page_says_how_to_run_it_again(tmp_path):
    pages = [tmp_path / "first.html", tmp_path / "second.html"]
    assert run([*SMALL, "--seed", "3", "--gap", "0.1", "--report", str(pages[0])]) == 0
    text = pages[0].read_text()
    command = text.split('<pre class="command"><code>')[1].split("</code>")[0]
    assert run([*shlex.split(command)[1:], "--report", str(pages[1])]) == 0
    assert pages[1].read_text() == text


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


def test_figures_for_a_paper(tmp_path, capsys):
    page, folder = tmp_path / "plan.html", tmp_path / "figures"
    assert run([*SMALL, "--report", str(page), "--figures", str(folder)]) == 0
    assert f"1 figure is in {folder}, 4 files." in capsys.readouterr().err
    assert (folder / "survival.pdf").read_bytes().startswith(b"%PDF")
