"""Policies, attacks and environments of one's own, in processes of their own."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forking import Nursery
from processes import python

PACKAGE = '''
"""A policy, an attack and an environment that a package adds."""

from armrace.adversaries.plain import ZeroBest
from armrace.environments.laws import Bernoulli
from armrace.policies.ucb import Ucb1


class Added(Ucb1, frozen=True, tag="added-policy"):
    """A policy out of an installed package."""


class Struck(ZeroBest, frozen=True, tag="added-attack"):
    """An attack out of an installed package."""


class Paid(Bernoulli, frozen=True, tag="added-environment"):
    """An environment out of an installed package."""


class Clashing(Ucb1, frozen=True, tag="exp3"):
    """A policy that takes the name of another."""
'''
ENTRY_POINTS = """
[armrace.policies]
added-policy = added_package:Added
broken-policy = no_such_module:Policy
exp3 = added_package:Clashing
misnamed = added_package:Added
wrong = added_package:Struck

[armrace.attacks]
added-attack = added_package:Struck

[armrace.environments]
added-environment = added_package:Paid
"""
MODULE = PACKAGE.replace("added", "own").replace("Added", "Own")
SMALL = ["--horizon", "60", "--replications", "2", "--workers", "1"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which a package with entry points is installed."""
    folder = tmp_path / "site"
    metadata = folder / "added_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "added_package.py").write_text(PACKAGE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: added-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module of the user's."""
    place = tmp_path / "here"
    place.mkdir()
    (place / "own.py").write_text(MODULE)
    return place


class Machine:
    """Where programs run, beside the module of the user's and perhaps with the package."""

    def __init__(self, nursery: Nursery, folder: Path, installed: Path | None = None) -> None:
        self.nursery, self.folder = nursery, folder
        self.path = [installed] if installed else []

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.nursery.run(script, *arguments, folder=self.folder, path=self.path)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # As the installed program: the current folder is not on the path by itself.
        return self.run(PROGRAM, *arguments)

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start Python from nothing."""
        path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        return python(
            *arguments,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, self.path), *path])},
        )


PREPARATION = """
import armrace.cli.compare, armrace.cli.main, armrace.learner, armrace.reports.comparison
import armrace.simulation.simulate, matplotlib.figure, matplotlib.style, rich.console, rich.table
"""
PROGRAM = "import sys; sys.path.remove(''); from armrace.cli.main import main; main()"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery.started(PREPARATION) as nursery:
        yield nursery


@pytest.fixture
def alone(nursery: Nursery, folder: Path) -> Machine:
    """A machine without the package."""
    return Machine(nursery, folder)


@pytest.fixture
def extended(nursery: Nursery, folder: Path, installed: Path) -> Machine:
    """A machine with the package."""
    return Machine(nursery, folder, installed)


def test_entry_points_are_listed_and_broken_ones_are_named(extended: Machine) -> None:
    done = extended.cli("policies", "--json", "-")
    assert done.returncode == 0
    names = [entry["name"] for entry in json.loads(done.stdout)]
    assert "added-policy" in names
    assert names.count("exp3") == 1
    assert done.stderr.splitlines() == [
        "armrace: the entry point 'broken-policy' of armrace.policies (no_such_module:Policy) is "
        "left out: ModuleNotFoundError: No module named 'no_such_module'.",
        "armrace: the entry point 'exp3' of armrace.policies (added_package:Clashing) is left out: "
        "added_package:Clashing must have a tag of its own: 'exp3' is the name of "
        "armrace.policies.exp3:Exp3.",
        "armrace: the entry point 'misnamed' of armrace.policies (added_package:Added) is left "
        "out: the tag of the class is 'added-policy'.",
        "armrace: the entry point 'wrong' of armrace.policies (added_package:Struck) is left out: "
        "it is not a subclass of Policy.",
    ]


def test_entry_points_are_not_loaded_for_a_name_of_the_package(extended: Machine) -> None:
    done = extended.cli("simulate", "ucb1", *SMALL)
    assert done.returncode == 0
    assert "entry point" not in done.stderr  # those that are broken would be named


def test_an_entry_point_is_first_class(extended: Machine) -> None:
    arguments = [
        "simulate", "added-policy", "--attack", "added-attack", "--budget", "3", "--environment",
        "added-environment", "--environment-set", "means=0.9,0.5", "--json", "-", *SMALL,
    ]  # fmt: skip
    done = extended.cli(*arguments)
    spec = json.loads(done.stdout)["spec"]
    assert [spec[part]["name"] for part in ("policy", "adversary", "environment")] == [
        "added-policy",
        "added-attack",
        "added-environment",
    ]


COMPARE = [
    "compare", "--policies", "own:Own,ucb1", "--attack", "own:Struck", "--budget", "5",
    "--means", "0.9,0.5", *SMALL,
]  # fmt: skip


def test_a_class_of_the_current_folder_is_compared_and_reported(
    alone: Machine, folder: Path
) -> None:
    done = alone.cli(*COMPARE, "--report", "page.html", "--json", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "own-policy" in done.stdout
    page = (folder / "page.html").read_text()
    assert "own-policy" in page
    assert "--policies own:Own,ucb1" in page
    entries = json.loads((folder / "figures.json").read_text())
    assert [entry["policy"] for entry in entries] == ["own-policy", "ucb1"]
    assert entries[0]["spec"]["policy"]["name"] == "own:Own"
    assert entries[0]["spec"]["adversary"]["name"] == "own:Struck"


def test_a_module_that_fails_is_refused_in_a_sentence(alone: Machine, folder: Path) -> None:
    (folder / "failing.py").write_text("1 / 0\n")
    done = alone.cli("simulate", "failing:Own", *SMALL)
    assert done.returncode == 2
    assert done.stderr == (
        "armrace: policy 'failing:Own' cannot be used: importing failing raises "
        "ZeroDivisionError: division by zero.\n"
    )


def test_the_package_runs_as_a_module(alone: Machine) -> None:
    done = alone.start("-m", "armrace", "simulate", "own:Own", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "own-policy" in done.stdout
