"""An exception out of a signal handler, at any moment, leaves the learner sound."""

import json

import pytest

from processes import python

STORM = """
import json
import signal
import sys

from armrace.errors import ForeignTicket
from armrace.learner import Learner

CALLS = 20_000
armed = False
counts = dict(interruptions=0, repeated=0, wrong=0)


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    global armed
    if armed:
        armed = False
        counts["interruptions"] += 1
        raise Interrupted


def attempt(call, *arguments):
    # What is interrupted is tried again, without interruptions.
    global armed
    try:
        armed = True
        result = call(*arguments)
        armed = False
    except Interrupted:
        result = call(*arguments)
    return result


def learn(decision):
    try:
        learner.learn(decision, 1.0)
    except ForeignTicket:  # the attempt that was interrupted has counted
        counts["repeated"] += 1


learner = Learner("ucb1", 2, 100_000, log=sys.argv[1] == "log")
learner.learn(learner.decide(), 1.0)
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
for taken in range(1, CALLS + 1):
    attempt(learn, attempt(learner.decide))
    pulls = learner._state.counts.pulls.sum(), learner._live.policy.pulls.sum()
    counts["wrong"] += (learner.rewards, *pulls) != (taken + 1,) * 3
signal.setitimer(signal.ITIMER_REAL, 0)
sound = Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()
if sys.argv[1] == "log":
    folded = Learner.replay(learner.log, "ucb1", 2, 100_000)
    sound = sound and folded.snapshot() == learner.snapshot()
print(json.dumps(dict(counts, rewards=learner.rewards, sound=sound)))
"""


@pytest.mark.parametrize("log", ["log", "no log"])
def test_no_reward_counts_twice_or_is_lost_under_interruptions(log):
    done = python("-c", STORM, log)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["interruptions"] > 100
    assert found["repeated"] > 0
    assert (found["wrong"], found["rewards"], found["sound"]) == (0, 20_001, True)
