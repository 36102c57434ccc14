"""Digests of code: whatever takes part in a simulation changes them, and nothing else does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import armrace
from armrace.policies import POLICIES, Policy
from armrace.simulation import make_experiment
from armrace.simulation.code_digest import _IDLE, experiment_code
from processes import python

PROBE = """
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.dispatch import implementations
from armrace.simulation import make_experiment
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.replication import make_parts

for policy in ("ucb1", "sharp-race"):
    made = make_experiment(policy=policy, environment=[0.5, 0.4], horizon=100)
    print(experiment_code(made))
    print(fingerprint(implementations(make_parts(made, 0).policy)))
"""


class Package:
    """A copy of the package that can be changed."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(
            Path(armrace.__file__).parent,
            folder / "armrace",
            ignore=shutil.ignore_patterns("__pycache__"),
        )

    def digests(self, probe=PROBE):
        """What is stored, and what is compiled, of UCB1; then the same of the sharp race."""
        answer = subprocess.run(
            [sys.executable, "-c", probe],
            # Kept bytecode spares most of the start; a change is noticed by the size of the file.
            env={**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        return answer.stdout.split("\n")[:4]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return Package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def before(package):
    return package.digests()


@pytest.fixture
def change(package):
    """Changes a file of the package for the length of a test."""
    changed = {}

    def append(*parts, text="\n# changed\n"):
        file = package.folder.joinpath("armrace", *parts)
        changed.setdefault(file, file.read_text() if file.exists() else None)
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as source:
            source.write(text)

    yield append
    for file, usual in changed.items():
        if usual is None:
            file.unlink()
        else:
            file.write_text(usual)


def test_an_allowance_counts_for_what_is_stored_and_not_for_machine_code(package, before, change):
    change("theory", "allowance.py")
    stored, compiled, stored_race, compiled_race = package.digests()
    assert stored != before[0]
    assert stored_race != before[2]
    assert [compiled, compiled_race] == [before[1], before[3]]


@pytest.mark.parametrize(
    "parts",
    [
        ("__init__.py",),
        pytest.param(("randomness.py",), marks=pytest.mark.long),
        ("statistics", "summaries.py"),
        pytest.param(("audit", "auditing.py"), marks=pytest.mark.long),
        ("policies", "family", "new.py"),
    ],
    ids="/".join,
)
def test_all_that_takes_part_counts_for_what_is_stored(package, before, change, parts):
    change(*parts)
    stored, compiled, *_ = package.digests()
    assert stored != before[0]
    assert compiled == before[1]


def test_another_policy_does_not_count_for_machine_code(package, before, change):
    change("policies", "ucb.py")
    _, compiled, _, compiled_race = package.digests()
    assert compiled != before[1]
    assert compiled_race == before[3]


def test_kernels_count_for_all_machine_code(package, before, change):
    change("kernels", "deeper", "new.py")
    _, compiled, _, compiled_race = package.digests()
    assert compiled != before[1]
    assert compiled_race != before[3]


def test_what_takes_no_part_does_not_count(package, before, change):
    for room in _IDLE:
        change(room, "__init__.py")
    assert package.digests() == before


def test_what_does_not_count_is_not_loaded_by_a_simulation():
    script = """
import sys
from armrace.simulation.code_digest import _IDLE
import armrace

result = armrace.simulate("ucb1", [0.6, 0.4], horizon=10, replications=1, audit=0.05)
print([name for name in sys.modules if name.startswith(tuple(f"armrace.{room}" for room in _IDLE))])
"""
    answer = python("-c", script, check=True)
    # Results inherit their methods that make pages, which say only where those are made.
    assert answer.stdout.strip() == "['armrace.reports']"


class Several(POLICIES["ucb1"], frozen=True, tag="several"):
    """A policy with others in a list."""

    others: tuple[Policy, ...] = ()


class Renamed(POLICIES["ucb1"], frozen=True, tag="renamed"):
    """A policy outside the package."""


def test_classes_of_the_user_in_a_list_count():
    one, two = (
        experiment_code(make_experiment(policy=policy, environment=[0.5, 0.4], horizon=10))
        for policy in (Several(others=(POLICIES.make("ucb1"),)), Several(others=(Renamed(),)))
    )
    assert one != two
