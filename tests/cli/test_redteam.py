"""``armrace redteam``: the verdict, JSON, the page with the curve, and going on after Ctrl-C."""

import json
import shlex

import pytest

from armrace.cli.main import run
from armrace.red_team.target import EFFORTS, SearchBudget

TINY = SearchBudget(
    rungs=((40, 1), (6, 2)),
    parents=1,
    children=2,
    generations=1,
    replications=2,
    finalists=2,
    selecting=3,
    confirming=5,
)
SMALL = ["redteam", "ucb1", "--means", "0.4,0.6", "--horizon", "2000", "--effort", "quick"]


@pytest.fixture(autouse=True)
def tiny_effort(monkeypatch):
    monkeypatch.setitem(EFFORTS, "quick", TINY)


def test_the_verdict_in_words_and_a_command_that_replays_it(capsys):
    assert run([*SMALL, "--budget", "30"]) == 0
    output, error = capsys.readouterr()
    assert "worst found: a lower bound on the worst case" in " ".join(output.split())
    assert error == ""
    (command,) = [line for line in output.splitlines() if line.startswith("armrace simulate")]
    assert run([*shlex.split(command)[1:], "--json", "-"]) == 0
    replayed = json.loads(capsys.readouterr().out)["summary"]["pseudo_regret"]
    assert run([*SMALL, "--budget", "30", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["held_out"]["mean"] == replayed["mean"]
    assert {"attack", "search", "best_builtin", "held_out"} <= found.keys()


def test_several_budgets_give_a_curve_and_the_page_says_how_to_search_again(tmp_path, capsys):
    page, again = tmp_path / "worst.html", tmp_path / "again.html"
    assert run([*SMALL, "--budgets", "30,10", "--report", str(page)]) == 0
    capsys.readouterr()
    text = page.read_text()
    assert text.count("<svg ") == 2 * 3  # the curve and two budgets, for desks and phones
    assert text.index("a budget of 10") < text.index("a budget of 30")
    command = text.split("<h2>Search again</h2>")[1].split("<code>")[1].split("</code>")[0]
    assert run([*shlex.split(command)[1:], "--report", str(again)]) == 0
    assert again.read_text() == text


def test_ctrl_c_keeps_what_is_played(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    folder = tmp_path / "search"
    with monkeypatch.context() as patched:
        patched.setattr("armrace.red_team.target.run_missing", interrupt)
        assert run([*SMALL, "--budget", "30", "--folder", str(folder)]) == 130
    assert (
        f"finished results are in {folder}; run the same command to continue."
        in capsys.readouterr().err
    )
    assert run([*SMALL, "--budget", "30", "--folder", str(folder)]) == 0
    assert len(list(folder.glob("*.ndjson"))) == 1


def test_a_policy_that_must_know_the_corruption_is_told_the_budget(capsys):
    words = ["redteam", "enlarged-arm-elimination", *SMALL[2:], "--budget", "30", "--json", "-"]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["policy"]["corruption"] == 30.0


def test_a_search_again_has_families_exact_budgets_and_what_was_set(tmp_path, capsys):
    page, again = tmp_path / "worst.html", tmp_path / "again.html"
    words = [
        "redteam", "enlarged-arm-elimination", *SMALL[2:], "--family", "zero-best-when-likely",
        "--budgets", "10.1234567,30", "--set", "corruption = 20",
    ]  # fmt: skip
    assert run([*words, "--report", str(page)]) == 0
    text = page.read_text()
    command = text.split("<h2>Search again</h2>")[1].split("<code>")[1].split("</code>")[0]
    for part in ("--family zero-best-when-likely", "--budget 10.1234567,30", "--set corruption=20"):
        assert part in command
    assert run([*shlex.split(command)[1:], "--report", str(again)]) == 0
    assert again.read_text() == text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget", "0"], "budget must be above 0; got 0."),
        (["--budget", "30", "--effort", "quck"], "did you mean 'quick'"),
        (["--budget", "30", "--family", "two-phases"], "did you mean 'two-phase'"),
        (["--budget", "30", "--family", "zero-best"], "zero-best has none to search"),
        (["--budget", "30", "--family", "all"], "there is no attack named 'all'"),
        (["--budget", "30", "--objective", "max"], "there is no objective named 'max'"),
        (["--budget", "30", "--account", "both"], "account must be one of largest, seen"),
    ],
)
def test_nonsense_is_one_sentence(words, sentence, capsys):
    assert run([*SMALL, *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
