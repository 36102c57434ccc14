"""``armrace verify --figures``: the growth for a paper, and a refusal where nothing is drawn."""

import sys
from pathlib import Path

import pytest

from armrace.cli.main import run
from armrace.verification import verify
from armrace.verification.forms import QUICK


def test_only_the_asymptotic_form_has_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = QUICK._replace(asymptotic_runs=2)
    monkeypatch.setattr(sys.modules[verify.__module__], "QUICK", few)
    folder = tmp_path / "figures"
    command = ["verify", "--quick", "--policy", "sharp-race", "--figures", str(folder)]
    assert run(command) == 2
    assert "--figures needs --asymptotic" in capsys.readouterr().err
    assert not folder.exists()
    assert run([*command, "--asymptotic"]) == 0
    assert f"1 figure is in {folder}, 4 files." in capsys.readouterr().err
    head = (folder / "growth.csv").read_text().splitlines()[0]
    assert head == "policy,axis,point,mean,low,high,bound"
