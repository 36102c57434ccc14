"""The tables of proved bounds say what the functions return."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("script", ["sharpening", "guarding"])
def test_the_table_of_bounds_is_what_the_script_prints(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    specification = importlib.util.spec_from_file_location(script, DOCS / f"{script}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.print_bounds()
    assert capsys.readouterr().out in (DOCS / "theory.md").read_text(encoding="utf-8")
