"""An exception out of a signal handler, at any moment, leaves the learner sound."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

STORM = """
import json
import signal
import sys

from armrace.errors import ForeignTicket
from armrace.online import Learner

CALLS = 20_000


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


learner = Learner("ucb1", 2, 100_000, log=sys.argv[1] == "log")
learner.learn(learner.decide(), 0.0)
signal.signal(signal.SIGALRM, interrupt)
counts = dict(interruptions=0, repeated=0, lost=0)
taken = 1


def attempt(call):
    # Repeat a call until one of its attempts was not interrupted.
    while True:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + 1e-7 * (counts["interruptions"] % 400))
                return call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            counts["interruptions"] += 1


def disarmed(call):
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return call()
        except Interrupted:
            counts["interruptions"] += 1


def learn_once(decision):
    try:
        learner.learn(decision, 1.0)
    except ForeignTicket:  # an interrupted attempt has counted
        counts["repeated"] += 1


for _ in range(CALLS):
    decision = attempt(learner.decide)
    before = disarmed(lambda: (learner.rewards, sum(view.pulls for view in learner.inspect())))
    attempt(lambda: learn_once(decision))
    after = disarmed(lambda: (learner.rewards, sum(view.pulls for view in learner.inspect())))
    if after != (before[0] + 1, before[1] + 1):
        counts["lost"] += 1
disarmed(lambda: None)
sound = Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()
print(json.dumps(dict(counts, rewards=learner.rewards, sound=sound)))
"""


@pytest.mark.parametrize("log", ["log", "no log"])
def test_no_reward_counts_twice_or_is_lost_under_interruptions(log):
    done = subprocess.run(
        [sys.executable, "-c", STORM, log], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["interruptions"] > 100
    assert found["repeated"] > 0
    assert found["lost"] == 0
    assert found["rewards"] == 20_001
    assert found["sound"]
