"""``armrace simulate``: the exact JSON, what goes where, and every way to describe arms."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import armrace
from armrace.cli.main import run
from processes import started

SMALL = ["simulate", "ucb1", "--horizon", "200", "--replications", "3"]
PROGRAM = Path(sys.executable).with_name("armrace")


def figures(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert run([*SMALL, *more, "--json", "-"]) == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_json_has_exactly_the_promised_shape(capsys):
    printed = figures(capsys, "--means", "0.5,0.4,0.4")
    assert list(printed) == [
        "spec", "horizon", "replications", "seconds", "rounds_per_second", "summary", "engine",
    ]  # fmt: skip
    assert (printed["horizon"], printed["replications"]) == (200, 3)
    summary = printed["summary"]
    assert list(summary) == [
        "regret", "pseudo_regret", "clean_regret", "corruption", "seen_corruption", "pulls",
    ]  # fmt: skip
    for measure in list(summary)[:5]:
        assert list(summary[measure]) == ["mean", "stderr", "p05", "p50", "p95", "max"]
    assert {len(summary["pulls"][part]) for part in ("mean", "stderr")} == {3}
    assert sum(summary["pulls"]["mean"]) == pytest.approx(200)


def test_spec_runs_it_again(capsys):
    printed = figures(capsys, "--seed", "7")
    spec = {key: value for key, value in printed["spec"].items() if key != "name"}
    assert armrace.simulate(**spec, progress=False).summary() == printed["summary"]


def test_a_budget_without_an_attack_is_pointed_out(capsys):
    small = ["simulate", "ucb1", "--horizon", "100", "--replications", "2", "--budget", "10"]
    assert run(small) == 0
    assert "nothing is corrupted without an attack" in capsys.readouterr().err
    assert run([*small, "--attack", "zero-best"]) == 0
    assert "nothing is corrupted" not in capsys.readouterr().err


def test_other_laws_by_environment(capsys):
    beta = figures(
        capsys, "--environment", "beta",
        "--environment-set", "alphas=4,2", "--environment-set", "betas=[2, 2.5]",
    )  # fmt: skip
    assert beta["spec"]["environment"] == {
        "name": "beta",
        "alphas": [4.0, 2.0],
        "betas": [2.0, 2.5],
    }
    stars = figures(
        capsys, "--environment", "finite-support",
        "--environment-set", "values=0,0.5,1",
        "--environment-set", "probabilities=[[0.2,0.3,0.5],[0.5,0.3,0.2]]",
    )  # fmt: skip
    assert len(stars["summary"]["pulls"]["mean"]) == 2


def test_parameters_of_policy_and_attack(capsys):
    arguments = [
        "simulate", "active-arm-elimination", "--delta", "0.2", "--horizon", "50",
        "--replications", "1", "--attack", "outage", "--attack-set", "first=3", "--budget", "5",
        "--json", "-",
    ]  # fmt: skip
    assert run(arguments) == 0
    spec = json.loads(capsys.readouterr().out)["spec"]
    assert spec["policy"]["delta"] == 0.2
    assert spec["adversary"]["first"] == 3
    assert spec["budget"] == 5


INTERRUPTED = """
import signal, sys
import armrace
from armrace.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests are in a background
armrace.simulate("ucb1", [0.5, 0.4], horizon=10, replications=1)
print("running", flush=True)
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interruption_shows_what_is_finished(tmp_path):
    saved = tmp_path / "r.parquet"
    more = ["--horizon", "1e5", "--replications", "100000", "--workers", "1"]
    command = [sys.executable, "-c", INTERRUPTED, "simulate", "ucb1", *more, "--output", str(saved)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        # A replication takes some milliseconds; a busy machine takes longer to give them.
        spent = processor_time(process.pid)
        while processor_time(process.pid) < spent + 1:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=60)
    assert process.returncode == 130
    finished = armrace.load(saved).replications
    assert f"interrupted after {finished} of 100000 replications" in error
    assert "95% interval" in output


def processor_time(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def test_a_long_run_is_announced_and_a_leap_is_not(capsys):
    from armrace.cli.arguments import warn_of_long_run
    from armrace.simulation import make_experiment

    def announced(
        policy: str, attack: str = "none", budget: float = 0.0, other: float = 0.4
    ) -> str:
        experiment = make_experiment(
            policy=policy,
            environment=[0.5, other],
            adversary=attack,
            budget=budget,
            horizon=10**12,
            replications=1,
        )
        warn_of_long_run([experiment])
        return capsys.readouterr().err

    assert announced("sharp-race") == ""
    assert announced("sharp-race", "observation-free", 100.0) == ""
    assert "28 hours" in announced("ucb1")
    assert "28 hours" in announced("ucb1", "zero-best", 100.0)
    assert "until the attack can spend no more" in announced("sharp-race", "zero-best", 100.0)
    assert announced("sharp-race", "zero-best", 0.5) == ""
    assert "28 hours" in announced("sharp-race", other=0.5)
