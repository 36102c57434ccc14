"""The examples of every help page are command lines that the program accepts."""

import shlex

import pytest

from armrace.cli.main import _COMMANDS, run

WORK = {
    "compare": "armrace.cli.compare._compare",
    "arena": "armrace.cli.arena._play",
    "redteam": "armrace.red_team.redteam",
    "plan": "armrace.planning.answer",
    "simulate": "armrace.cli.simulate.run",
    "verify": "armrace.verification.verify",
    "reproduce": "armrace.reproduction.running.reproduce",
    "warm-up": "armrace.compilation.warm_up",
}
"""For each command that simulates, the function that begins with the work."""

NEEDED = ("clicks.", "my_module", "dask", "NUMBA_CACHE_DIR", "--list")
"""Examples with files, modules and clusters of the reader's, or that only list something."""


class Reached(Exception):
    """The command line was accepted."""


def examples() -> list[str]:
    pages = [epilog or "" for epilog in _COMMANDS.values()]
    lines = [line for page in pages for line in page.splitlines() if "armrace " in line]
    return [line for line in lines if not any(words in line for words in NEEDED)]


@pytest.mark.parametrize("example", [line for line in examples() if line.split()[1] in WORK])
def test_an_example_is_accepted(example, monkeypatch, tmp_path):
    words = shlex.split(example)

    def reach(*arguments: object, **named: object) -> None:
        raise Reached

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(WORK[words[1]], reach)
    with pytest.raises(Reached):
        run(words[1:])


def test_every_command_that_simulates_has_an_example():
    assert {line.split()[1] for line in examples()} >= WORK.keys()
