"""Ctrl-C in a process of its own."""

import json
import signal
import subprocess
import sys
import time

import pytest

from processes import started

SCRIPT = """
import json, signal, sys
import armrace

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests are in a background

setting = dict(policy="ucb1", environment=[0.5, 0.4], workers=2, seed=2)
armrace.simulate(**setting, horizon=10, replications=1)
print("running", flush=True)
try:
    result = armrace.simulate(**setting, horizon={horizon}, replications={replications})
except KeyboardInterrupt:
    print(json.dumps("nothing finished"))
else:
    alone = armrace.simulate(
        **setting, horizon={horizon}, replications=int(result.final["replication"].max()) + 1
    )
    same = alone.rows.join(result.rows, on="replication", how="semi").equals(result.rows)
    print(json.dumps([result.interrupted, result.replications, result.final.height, same]))
"""

SECONDS_TO_END = 2.0
"""The run itself ends within one; the rest is for a busy machine."""


def interrupt(horizon, replications, after):
    """Run, send one SIGINT, and return the answer and how long the run took to end."""
    script = SCRIPT.replace("{horizon}", str(horizon)).replace("{replications}", str(replications))
    with started(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "running\n"
        time.sleep(after)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        answer, errors = process.communicate(timeout=30)
        return json.loads(answer or json.dumps(errors)), time.monotonic() - sent


def test_an_interrupted_run_keeps_the_replications_that_are_finished():
    answer, seconds = interrupt(horizon=400_000, replications=100_000, after=1.5)
    interrupted, replications, height, same = answer
    assert interrupted
    assert 1 <= replications < 100_000
    assert height == replications
    assert same
    # Running the finished ones again, to compare, takes as long as they took.
    assert seconds < SECONDS_TO_END + 2.5


@pytest.mark.parametrize(
    ("horizon", "replications"), [(10**13, 2), (10**13, 50)], ids=["few", "more than workers"]
)
def test_a_run_without_a_finished_replication_ends_at_once(horizon, replications):
    answer, seconds = interrupt(horizon, replications, after=0.5)
    assert answer == "nothing finished"
    assert seconds < SECONDS_TO_END


def test_very_many_short_replications_can_be_interrupted():
    answer, seconds = interrupt(horizon=100, replications=1_000_000, after=1.0)
    assert answer[0]
    assert seconds < SECONDS_TO_END + 2.0
