"""Importing the package does no work, and every public name is there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import armrace

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("heavy", ["numba", "numpy", "polars", "matplotlib", "msgspec", "typer"])
def test_importing_the_package_loads_nothing_heavy(heavy):
    script = f"import sys, armrace; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_simulating_loads_no_plotting_and_no_command_line():
    script = "import sys, armrace; armrace.simulate; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("heavy", ["numba", "polars", "starlette", "apsw"])
def test_a_client_loads_no_compiler_and_no_server(heavy):
    script = f"import sys, armrace; armrace.Client; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


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
