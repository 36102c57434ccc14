"""The table of proved bounds says what the functions return."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_bounds_is_what_the_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    specification = importlib.util.spec_from_file_location("sharpening", DOCS / "sharpening.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.print_bounds()
    assert capsys.readouterr().out in (DOCS / "theory.md").read_text(encoding="utf-8")
