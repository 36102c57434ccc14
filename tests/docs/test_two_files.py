"""A policy and an attack take two files each, as CONTRIBUTING says: everything else finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

POLICY = '''"""Plays arms in turn."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.policies.common.counts import CountingPolicy
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.specification import Limits

__all__ = ["InTurn"]


class InTurnState(NamedTuple):
    counts: Counts
    step: int


class InTurn(CountingPolicy, frozen=True, tag="in-turn"):
    """Plays arms in turn, whatever they pay."""

    family: ClassVar[str] = "stochastic"
    reference: ClassVar[str] = "no paper"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "There is nothing to compare with."

    step: Annotated[int, Limits("arms to go on by", 1, 1)] = 1

    def start(self, arms: int, horizon: int) -> InTurnState:
        return InTurnState(make_counts(arms), self.step)


@implement(distribution, InTurnState)
def in_turn_distribution(state, out):
    out.fill(0.0)
    out[state.counts.rounds[0] % out.size] = 1.0


@implement(choose, InTurnState)
def in_turn_choose(state, stream):
    return make_ticket(state.counts.rounds[0] % state.counts.pulls.size)


@implement(assign, InTurnState)
def in_turn_assign(state, ticket):
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, InTurnState)
def in_turn_learn(state, ticket, reward):
    record(state.counts, ticket.arm, reward)
'''

ATTACK = '''"""Zeroes every arm."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import corrupt

__all__ = ["ZeroAll"]


class ZeroAllState(NamedTuple):
    rounds: np.ndarray


class ZeroAll(Adversary, frozen=True, tag="zero-all"):
    """Zeroes every arm while the budget lasts."""

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = "no paper"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "There is nothing to compare with."

    def start(self, setting):
        return ZeroAllState(np.zeros(1))


@implement(corrupt, ZeroAllState)
def zero_all_corrupt(state, round, weights, rewards, left, stream):
    rewards[:] = 0.0
'''

FILES = {
    "src/armrace/policies/in_turn.py": POLICY,
    "src/armrace/adversaries/zero_all.py": ATTACK,
    "tests/policies/test_in_turn.py": "",
    "tests/adversaries/test_zero_all.py": "",
}
CHECKS = (
    "tests/docs/test_completeness.py",
    "tests/reports/test_colours.py",
    "tests/test_catalogue.py",
    "tests/test_figures.py",
    "tests/adversaries/test_smallest_cost.py",
    "tests/adversaries/test_attacks.py",
)
"""Tests that read the catalogues; of those that play, only the new members are tried."""

NEW = "test_completeness or test_catalogue or test_colours or every_attack or in-turn or zero-all"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree with a policy and an attack more, and with what ``make reference`` writes."""
    ignored = shutil.ignore_patterns(".*")
    for folder in ("src", "docs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy(file, tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text or '"""Tests of its own."""\n', encoding="utf-8")
    return tmp_path


def run(copy: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout


def test_nothing_else_has_to_be_told_of_a_policy_or_an_attack(copy: Path) -> None:
    run(copy, "docs/generate.py")
    run(copy, "tests/pinning.py")
    passed = run(copy, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-k", NEW, *CHECKS)
    assert "figures_is_raised_with_them[in-turn]" in passed
    assert "test_no_round_is_charged_less_than_was_declared[zero-all" in passed
