"""``--executor``, ``--address`` and ``--folder`` on the command line."""

import json

import pytest

from armrace.cli.main import run

SMALL = ["compare", "--policies", "ucb1,exp3", "--attack", "zero-best", "--budget", "0,10"]
SMALL += ["--horizon", "300", "--replications", "4", "--no-report", "--json", "-"]


def figures(text: str) -> list[object]:
    return [[entry["spec"], entry["summary"]] for entry in json.loads(text)]


@pytest.mark.parametrize("command", ["compare", "simulate ucb1", "arena"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--executor bask", "there is no executor named 'bask'; did you mean 'dask'?"),
        ("--address x:1", "an address is that of a cluster of dask; threads have none."),
        (
            "--executor dask --address x:1 --workers 2",
            "the cluster at x:1 has its own workers; leave the number of workers out.",
        ),
        (
            "--executor dask --address 127.0.0.1:1",
            "no Dask scheduler answers at 127.0.0.1:1; start one with dask scheduler, and give the "
            "address that it prints.",
        ),
    ],
)
def test_refusals(command, options, sentence, capsys):
    assert run([*command.split(), *options.split()]) == 2
    assert capsys.readouterr().err == f"armrace: {sentence}\n"
