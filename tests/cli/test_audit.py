"""``--audit``: shares, certificate and words, and nothing else changed."""

import json
from typing import Any

import msgspec
import pytest

import armrace
from armrace.cli.main import run

ATTACKED = [
    "simulate", "multi-layer-race", "--means", "0.5,0.4", "--attack", "swap-best",
    "--budget", "400", "--horizon", "5000", "--replications", "3",
]  # fmt: skip
COMPARED = [
    "compare", "quiet", "--policies", "multi-layer-race,ucb1", "--horizon", "2000",
    "--replications", "3", "--attack", "swap-best", "--means", "0.5,0.4",
]  # fmt: skip


def figures(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_audit_beside_figures_that_are_unchanged(capsys):
    plain, audited = figures(capsys, *ATTACKED), figures(capsys, *ATTACKED, "--audit")
    assert audited["summary"] == plain["summary"]
    assert {**plain["spec"], "audit": 0.05} == audited["spec"]
    assert "audit" not in plain
    found = audited["audit"]
    assert list(found) == ["level", "alarms", "certificate", "exceeded", "first"]
    assert list(found["alarms"]) == ["any", "disagreement", "change", "waves", "failed-layer"]
    assert found["alarms"]["any"] == 1.0
    assert 0 < found["certificate"]["mean"] < 400
    assert found["first"]["alarms"][0]["words"] in found["first"]["words"]
    again = armrace.simulate(**audited["spec"], progress=False).to_builtins()
    assert json.loads(msgspec.json.encode(again["audit"])) == found


def test_the_table_says_it_in_words(capsys):
    assert run([*ATTACKED, "--audit-level", "0.01"]) == 0
    output = capsys.readouterr().out
    for words in ("runs with", "certified,", "The first replication:", "If the arms", "0.01"):
        assert words in output


@pytest.mark.parametrize(
    ("level", "sentence"),
    [("2", "audit-level must be in [1e-300, 1); got 2"), ("x", "audit-level")],
)
def test_a_bad_level_is_refused(level, sentence, capsys):
    assert run([*ATTACKED, "--audit", "--audit-level", level]) == 2
    assert sentence in capsys.readouterr().err


def test_the_report_has_a_section_if_asked(tmp_path, capsys):
    page = tmp_path / "report.html"
    words = [*COMPARED, "--budget", "200", "--no-sweep", "--report", str(page)]
    assert run([*words, "--audit"]) == 0
    text = page.read_text()
    assert "What the feedback shows of the attack" in text
    assert text.count("says in the first replication") == 2
    assert "--audit-level 0.05<" in text
    assert "layers" in capsys.readouterr().out
    assert run([*words, "--force"]) == 0
    assert "What the feedback shows" not in page.read_text()


def test_every_cell_of_a_grid_has_its_audit(tmp_path):
    page = tmp_path / "grid.html"
    assert run([*COMPARED, "--budget", "20,200", "--audit", "--report", str(page)]) == 0
    assert page.read_text().count("<h3>What the feedback shows of the attack</h3>") == 2
