"""``armrace policies``, ``attacks``, ``environments``, ``scenarios``, and the help pages."""

import json
import re
import subprocess
import sys

import pytest

from armrace import ADVERSARIES, ENVIRONMENTS, FIGURES, POLICIES, __version__
from armrace.cli.main import run
from armrace.simulation import SCENARIOS

CATALOGUES = {
    "policies": POLICIES,
    "attacks": ADVERSARIES,
    "environments": ENVIRONMENTS,
    "scenarios": SCENARIOS,
}


@pytest.mark.parametrize("command", ["policies", "attacks", "environments"])
def test_json_lists_all_with_parameters(command, capsys):
    assert run([command, "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(CATALOGUES[command])
    for entry in listed:
        assert list(entry) == ["name", "summary", "parameters", "reference"]
        assert entry["summary"]
        for parameter in entry["parameters"]:
            assert list(parameter) == ["name", "type", "default", "limits", "meaning"]


def test_json_of_scenarios(capsys):
    assert run(["scenarios", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(SCENARIOS)


@pytest.mark.parametrize("command", CATALOGUES)
def test_everything_is_shown_to_a_person(command, capsys):
    assert run([command]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert set(CATALOGUES[command]) <= set(lines)
    assert all(line == line.rstrip() for line in lines)


FLAGS = {
    "simulate": (
        "--set --delta --means --environment --environment-set --attack --attack-set --budget "
        "--account --refresh --horizon --replications --seed --engine --workers --executor "
        "--address --audit --audit-level --json --output"
    ),
    "compare": (
        "--policies --set --measure --means --environment --environment-set --attack --attack-set "
        "--no-worst --horizon --replications --seed --workers --executor --address "
        "--audit --audit-level --json --folder --report --figures --no-report --no-sweep"
    ),
    "arena": (
        "--quick --full --policies --worst --replications --seed --workers --executor --address "
        "--json --folder --report --figures"
    ),
    "redteam": (
        "--set --delta --objective --measure --means --environment --environment-set "
        "--family --account --horizon --effort --seed --workers --executor --address "
        "--json --report --figures --folder"
    ),
    "policies": "--json",
    "attacks": "--json",
    "environments": "--json",
    "scenarios": "--json",
}


@pytest.mark.parametrize("command", FLAGS)
def test_help_documents_every_flag(command, capsys):
    assert run([command, "--help"]) == 0
    # An option with two names, such as --budget,--budgets, is left to its own tests.
    shown = set(re.findall(r"^\W*(--[a-z-]+) ", capsys.readouterr().out, flags=re.MULTILINE))
    assert shown == {*FLAGS[command].split(), "--force", "--help"}


def test_help_and_version(capsys):
    assert run([]) == 0
    listed = capsys.readouterr().out
    assert all(command in listed for command in FLAGS)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"armrace {__version__} (figures {FIGURES})\n"


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from armrace.cli.main import run; run(['--help']); "
        "print(sorted({'numba', 'numpy', 'polars', 'matplotlib'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
