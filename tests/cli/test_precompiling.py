"""Many policies are compiled in processes of their own, and found on disk afterwards."""

import os
import subprocess
import sys

import pytest

from armrace.cli import precompiling
from armrace.simulation import make_experiment

PROBE = """
from armrace.cli.precompiling import precompile
from armrace.simulation import make_experiment
from armrace.simulation.replication import is_on_disk

names = ["ucb1", "moss", "exp3", "active-arm-elimination"]
experiments = [make_experiment(policy=name, environment=[0.5, 0.4], horizon=10) for name in names]
print([is_on_disk(experiment) for experiment in experiments])
precompile(experiments)
print([is_on_disk(experiment) for experiment in experiments])
"""


def test_what_is_not_on_disk_is_compiled_by_processes_of_their_own(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [str([False] * 4), str([True] * 4)]


@pytest.mark.parametrize("names", [["ucb1"], ["ucb1", "exp3", "moss"]])
def test_few_policies_start_no_process(monkeypatch, names):
    def refuse(experiments):
        raise AssertionError("a process was started")

    monkeypatch.setattr(precompiling, "_start", refuse)
    monkeypatch.setattr("armrace.simulation.replication.is_on_disk", lambda experiment: False)
    experiments = [make_experiment(policy=name, environment=[0.5, 0.4]) for name in names]
    precompiling.precompile(experiments)
