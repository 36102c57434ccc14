"""Borrowed states: what may be in one."""

import subprocess
import sys

STATE_WITH_A_TEXT = """
from typing import NamedTuple

import armrace
from armrace.adversaries import Adversary
from armrace.kernels.generics import corrupt, implement

class TextState(NamedTuple):
    text: str

class Texting(Adversary, frozen=True, tag="texting"):
    def start(self, setting):
        return TextState("a text of some length " * 3)

@implement(corrupt, TextState)
def corrupt_by_text(state, round, weights, rewards, left, stream):
    if len(state.text) > 3:
        rewards[0] = 0.0

for _ in range(20):
    try:
        armrace.simulate("ucb1", [0.5, 0.4], Texting(), 1.0, horizon=100, replications=4)
    except Exception as error:
        print(type(error).__name__)
        break
else:
    print("ran")
"""


def test_a_state_with_what_has_an_owner_is_refused_or_runs_but_never_breaks_memory(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", STATE_WITH_A_TEXT],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr[-300:]
    assert run.stdout.strip()
