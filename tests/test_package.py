"""Importing the package does no work, and rooms import what they may."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import armrace

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("use", "heavy"),
    [
        ("armrace", {"numba", "numpy", "polars", "matplotlib", "msgspec", "typer"}),
        ("armrace.simulate", {"matplotlib", "typer"}),
        ("armrace.Client", {"numba", "polars", "starlette", "apsw"}),
    ],
)
def test_what_is_not_used_is_not_loaded(use, heavy):
    script = f"import sys, armrace; {use}; print({heavy!r} & sys.modules.keys())"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"set()\n"


@pytest.mark.parametrize("name", armrace.__all__)
def test_every_public_name_is_there(name):
    assert getattr(armrace, name) is not None
    assert name in dir(armrace)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'armrace' has no attribute 'nonsense'"):
        _ = armrace.nonsense


def test_the_version_has_one_home():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "src/armrace/__init__.py"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", armrace.__version__)


@pytest.mark.parametrize(
    "catalogue", [armrace.POLICIES, armrace.ADVERSARIES, armrace.ENVIRONMENTS], ids=lambda c: c.kind
)
def test_every_member_of_a_catalogue_has_a_kebab_case_name_and_a_summary(catalogue):
    for name, member in catalogue.items():
        assert name == member.tag() == name.lower()
        assert "_" not in name
        assert member.summary().endswith(".")
        assert member.kind == catalogue.kind


PROJECT = Path(__file__).parent.parent / "pyproject.toml"
