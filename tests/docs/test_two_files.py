"""A policy and an attack take two files each, as CONTRIBUTING says: everything else finds them."""

import os
import shutil
from pathlib import Path

import pytest

from processes import python

ROOT = Path(__file__).parents[2]


def source(path: str, name: str, after: str, **renamed: str) -> str:
    """A shipped algorithm in a file of its own and under other names, as a newcomer's."""
    text = (ROOT / path).read_text(encoding="utf-8")
    head = text[: text.index("\nclass ")]
    text = head + text[text.index(f"\nclass {name}State") :].partition(f"\nclass {after}")[0]
    for old, new in {name: renamed.pop("to"), **renamed}.items():
        text = text.replace(old.replace("_", "-"), new)
    return text


FILES = {
    "src/armrace/policies/in_turn.py": source(
        "src/armrace/policies/log_barrier.py", "LogBarrier", "-", to="InTurn", log_barrier="in-turn"
    ),
    "src/armrace/adversaries/zero_all.py": source(
        "src/armrace/adversaries/plain.py",
        "ZeroBest",
        "ZeroBestWhen",
        to="ZeroAll",
        zero_best="zero-all",
    ),
    "tests/policies/test_in_turn.py": "",
    "tests/adversaries/test_zero_all.py": "",
}
CHECKS = (
    "tests/docs/test_completeness.py",
    "tests/reports/test_theme.py",
    "tests/test_catalogue.py",
    "tests/test_figures.py",
    "tests/adversaries/test_smallest_cost.py",
    "tests/adversaries/test_attacks.py",
)
"""Tests that read the catalogues; of those that play, only the new members are tried."""

NEW = "test_completeness or test_catalogue or has_a_style or every_attack or in-turn or zero-all"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree with a policy and an attack more, and with what ``make reference`` writes."""
    ignored = shutil.ignore_patterns(".*")
    for folder in ("src", "docs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy(file, tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text or '"""Tests of its own."""\n', encoding="utf-8")
    return tmp_path


def run(copy: Path, *arguments: str) -> str:
    answer = python(
        *arguments, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy / "src")}, timeout=600
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout


def test_nothing_else_has_to_be_told_of_a_policy_or_an_attack(copy: Path) -> None:
    run(copy, "docs/generate.py")
    run(copy, "tests/pinning.py")
    passed = run(copy, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-k", NEW, *CHECKS)
    assert "figures_is_raised_with_them[in-turn]" in passed
    assert "test_no_round_is_charged_less_than_was_declared[zero-all" in passed
