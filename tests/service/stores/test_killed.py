"""A process that is killed at any moment has kept everything that it acknowledged."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import armrace
from armrace.errors import RewardConflict
from serving import folded_bytes, live_bytes

WRITER = """
import sys, armrace
service = armrace.open(sys.argv[1])
service.create("ads", ["a", "b", "c"], 0, seed=1)
print("ready", flush=True)
while True:
    decisions = service.decide_many("ads", 5)
    for decision in decisions:
        print("d", decision.decision, decision.arm, flush=True)
    for decision, answer in zip(decisions, service.reward_many([(d, 1.0) for d in decisions])):
        assert answer.status == "accepted"
        print("r", decision.decision, flush=True)
"""
KILLS = 3


def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path):
    path, rng = tmp_path / "clicks.db", random.Random(1)
    decided: dict[str, str] = {}
    rewarded: set[str] = set()
    for _ in range(KILLS):
        for line in run_and_kill(path, rng.uniform(0.02, 0.3)):
            kind, token, *arm = line.split()
            if kind == "d":
                decided[token] = arm[0]
            else:
                rewarded.add(token)
    assert len(rewarded) > 5 * KILLS
    with armrace.open(path) as service:
        assert service.describe("ads").decisions >= len(decided)
        arms = {row.decision: row.arm for row in service.rows("ads")}
        for token, arm in decided.items():
            number = service.keyring.signing_keys().read("main", token).sequence
            assert arms[number] == arm
        for token in rewarded:
            assert service.reward(token, 1.0) == "duplicate"
            try:
                service.reward(token, 0.0)
                raise AssertionError("a second reward was taken")
            except RewardConflict:
                pass
        assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


def run_and_kill(path, seconds):
    """Start a writer, kill it some time after it is ready, and return its whole lines."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        writer.send_signal(signal.SIGKILL)
        output, _ = writer.communicate()
    return [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
