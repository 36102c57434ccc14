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
