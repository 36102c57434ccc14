"""A shell completes the names of policies, attacks and scenarios in every command."""

import os

import pytest
from typer.main import get_command

from armrace.cli.main import app, run
from processes import python

NAMED = (
    "policy", "policies", "attack", "attacks", "scenario", "environment", "measure", "family",
    "effort", "objective", "executor", "worst", "paper",
)  # fmt: skip
LINES = {
    "armrace compare click": "click-fraud",
    "armrace compare --policies ucb1,optim": "ucb1,optimistic-log-barrier",
    "armrace plan --attacks double": "double-impact",
    "armrace redteam sharp": "sharp-race",
    "armrace redteam ucb1 --effort q": "quick",
    "armrace compare --executor da": "dask",
    "armrace plan --attacks zero-best-": "zero-best-when-likely",
    "armrace simulate ucb1 --environment bern": "bernoulli",
    "armrace compare --measure clean": "clean_regret",
    "armrace pol": "policies",
    "armrace reproduce lyk": "lykouris-mirrokni-paes-leme-2018",
}


def asked(line: str) -> dict[str, str]:
    """What a shell sets in the environment when it wants the rest of a line."""
    place = str(len(line.split()) - 1)
    return {"COMP_WORDS": line, "COMP_CWORD": place, "_ARMRACE_COMPLETE": "complete_bash"}


@pytest.mark.parametrize(("line", "expected"), LINES.items())
def test_a_name_gets_its_rest(line, expected, capsys, monkeypatch):
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.split() == [expected]


def test_a_shell_gets_it_from_the_program():
    line, expected = next(iter(LINES.items()))
    done = python("-m", "armrace", env={**os.environ, **asked(line)})
    assert done.stdout.split() == [expected]


def test_every_argument_that_takes_a_name_completes_it():
    commands = get_command(app).commands  # type: ignore[attr-defined]
    named = [
        (name, parameter)
        for name, command in commands.items()
        for parameter in command.params
        if parameter.name in NAMED
    ]
    assert len(named) > 15
    for name, parameter in named:
        assert parameter._custom_shell_complete is not None, (name, parameter.name)
