"""Writers that are killed while they write, and what they had acknowledged.

``python -m torture.kills --kills 100`` is the campaign.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import armrace
from armrace.errors import RewardConflict
from serving import folded_bytes, live_bytes

__all__ = ["kill_writers"]

_WRITER = """
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


def kill_writers(path: Path, kills: int, seed: int = 1) -> tuple[int, int]:
    """Start and kill writers on one store; check that nothing acknowledged is lost.

    Returns:
        How many decisions and how many rewards had been acknowledged.
    """
    rng = random.Random(seed)
    decided: dict[str, str] = {}
    rewarded: set[str] = set()
    for _ in range(kills):
        for line in _run_and_kill(path, rng.uniform(0.02, 0.3)):
            kind, token, *arm = line.split()
            if kind == "d":
                decided[token] = arm[0]
            else:
                rewarded.add(token)
    _check(path, decided, rewarded)
    return len(decided), len(rewarded)


def _check(path: Path, decided: dict[str, str], rewarded: set[str]) -> None:
    with armrace.open(path) as service:
        arms = {row.decision: row.arm for row in service.rows("ads")}
        for token, arm in decided.items():
            number = service.keyring.signing_keys().read("main", token).sequence
            assert arms[number] == arm
        for token in rewarded:
            assert service.reward(token, 1.0) == "duplicate"
            assert _is_conflict(service, token)
        assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


def _is_conflict(service: armrace.service.Service, token: str) -> bool:
    try:
        service.reward(token, 0.0)
    except RewardConflict:
        return True
    return False


def _run_and_kill(path: Path, seconds: float) -> list[str]:
    """Start a writer, kill it some time after it is ready, and return its whole lines."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        writer.send_signal(signal.SIGKILL)
        output, _ = writer.communicate()
    return [line for line in output.splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    """Run a campaign and print its figures."""
    parser = argparse.ArgumentParser(description="Kill writers of the embedded store.")
    parser.add_argument("--kills", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        decided, rewarded = kill_writers(Path(folder) / "clicks.db", asked.kills)
    print(f"{asked.kills} kills, {decided} decisions and {rewarded} rewards acknowledged, 0 lost.")


if __name__ == "__main__":
    main()
