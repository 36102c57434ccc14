"""The programs of ``examples/`` run and do what their page says."""

import re
from pathlib import Path

import pytest

from docs.conftest import RunFile

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = {
    "flask_shop": r"green: shown \d{3} times, clicked \d+ times(.|\n)*a forged token: 400",
    "web_shop": r"the red banner for now: .* be reached(.|\n)*'red': 600(.|\n)*0 were refused",
    "late_rewards": r"'green': [3-9]\d{3}(.|\n)*'green': 0\.[89](.|\n)*alarm: False",
    "broken_agent": r"no attack: [12]\d lost(.|\n)*found, for 1\d: 1[1-6]\d(.|\n)*there: [4-6]\d",
    "own_attack": r"optimistic-log-barrier: [\d,]+ of 4,000(.|\n)*the worst that a search finds",
    "resumable_sweep": r"4 results of the first run, 4 of them kept, 8 at the end",
    "audit_and_void": r"suspect: partner 7\n\d+ visits voided(.|\n)*alarm: False",
}


@pytest.mark.parametrize(("name", "expected"), PROGRAMS.items())
def test_program_runs(name: str, expected: str, tmp_path: Path, run_file: RunFile) -> None:
    printed = run_file(FOLDER / f"{name}.py", tmp_path)
    assert re.search(expected, printed), printed
    assert list(tmp_path.iterdir()) == []


def test_every_program_is_described_and_tried() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| \[`(\w+)\.py`\]\(\1\.py\) \|", page, re.MULTILINE))
    programs = {
        path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text()
    }
    assert named == programs == PROGRAMS.keys()
