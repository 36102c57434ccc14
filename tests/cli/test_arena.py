"""``armrace arena``: leaderboard, page, resuming, interruption."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from armrace.cli import arena as command
from armrace.cli.main import run
from armrace.red_team.target import EFFORTS
from armrace.reports import arena as pages
from armrace.simulation import sweeps
from armrace.simulation.arena import GRIDS
from red_team.test_locked import TINY

ENVIRONMENTS = ("one-better", "two-arms")
SMALL = ["arena", "--quick", "--policies", "ucb1,exp3", "--replications", "1"]


@pytest.fixture(scope="module", autouse=True)
def _few_environments():
    """A hundred arms take as long as all other environments of the quick form."""
    with pytest.MonkeyPatch.context() as patch:
        few = msgspec.structs.replace(GRIDS["quick"], environments=ENVIRONMENTS)
        patch.setitem(GRIDS, "quick", few)
        yield


@pytest.fixture
def outputs(tmp_path):
    return ["--folder", str(tmp_path / "cells"), "--report", str(tmp_path / "arena.html")]


def draw_no_page(patch: pytest.MonkeyPatch) -> None:
    """Leave the page empty where only the leaderboard counts."""
    patch.setattr(pages, "render_arena", lambda *arguments: "")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A folder with the cells of the small arena and its leaderboard, played once for all tests."""
    folder = tmp_path_factory.mktemp("played")
    files = ["--folder", "cells", "--report", "arena.html", "--json", "board.json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        draw_no_page(patch)
        assert run([*SMALL, *files]) == 0
    return folder


@pytest.fixture
def cells(tmp_path, played):
    """The cells, where the outputs have theirs."""
    return Path(shutil.copytree(played / "cells", tmp_path / "cells"))


@pytest.mark.usefixtures("cells")
def test_leaderboard_report_and_json(tmp_path, outputs, capsys):
    figures = tmp_path / "board.json"
    assert run([*SMALL, *outputs, "--json", str(figures)]) == 0
    output, error = capsys.readouterr()
    for words in ("attacked", "quiet", "This is a smoke test"):
        assert words in output
    assert f"The report is in {tmp_path / 'arena.html'}." in error
    board = json.loads(figures.read_text())
    assert {entry["policy"] for entry in board} == {"ucb1", "exp3"}
    assert {entry["cells"] for entry in board} == {len(ENVIRONMENTS) * (1 + 2 * 14)}
    assert len(list((tmp_path / "cells").iterdir())) == len(ENVIRONMENTS)
    assert "leads" not in output + (tmp_path / "arena.html").read_text()


@pytest.mark.usefixtures("cells")
def test_a_second_run_plays_nothing_and_says_the_same(played, outputs, capsys, monkeypatch):
    monkeypatch.setattr(sweeps, "run_missing", None)
    draw_no_page(monkeypatch)
    assert run([*SMALL, *outputs, "--json", "-"]) == 0
    board = json.loads(capsys.readouterr().out)
    assert board
    assert board == json.loads((played / "board.json").read_text())


@pytest.mark.usefixtures("cells")
def test_each_policy_under_its_own_worst_attack(tmp_path, outputs, capsys, monkeypatch):
    monkeypatch.setitem(EFFORTS, "quick", TINY)
    command = [*SMALL, *outputs, "--worst", "quick", "--force"]
    with monkeypatch.context() as patch:
        draw_no_page(patch)
        assert run([*command, "--json", "-"]) == 0
    board = json.loads(capsys.readouterr().out)
    found = board[0]["worst_found"]
    assert len(found) == len(ENVIRONMENTS) * 5
    assert {row["environment"] for row in found} == set(ENVIRONMENTS)
    assert len(list((tmp_path / "cells" / "worst").iterdir())) == 2 * len(ENVIRONMENTS) * 5
    monkeypatch.setattr("armrace.red_team.batches.search", None)
    assert run(command) == 0
    output = capsys.readouterr().out
    assert "lower bounds on the worst case" in output
    page = (tmp_path / "arena.html").read_text()
    assert "<h2>Worst found</h2>" in page
    assert "--worst quick" in page
    assert run([*SMALL, *outputs, "--worst", "quikc", "--force"]) == 2


def test_ctrl_c_says_how_to_go_on(outputs, capsys, monkeypatch):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "run_missing", interrupt)
    assert run([*SMALL, *outputs]) == 130
    output, error = capsys.readouterr()
    assert output == ""
    assert error.count("\n") == 1
    assert "run the same command to continue." in error


def test_forms_differ_in_length():
    grids = [command._grid(quick, full, None, None, "0") for quick, full in _FORMS]
    assert [grid.horizon for grid in grids] == [2_000, 100_000, 1_000_000]


_FORMS = [(True, False), (False, False), (False, True)]
