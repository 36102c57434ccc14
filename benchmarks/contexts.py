"""Time a round where visitors differ: against plain C, and beyond what drawing visitors costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

import armrace
from armrace.environments.visitors import MixedVisitors
from armrace.extending import (
    Eligible,
    Stream,
    Ticket,
    assign,
    choose,
    distribution,
    implement,
    learn,
    make_ticket,
)
from armrace.policies import Policy
from benchmarks.agreement import Agreement, Averages, compare_runs, pool
from benchmarks.figures import Figure, ratio_figure
from benchmarks.plain_c import compile_program, run_program
from benchmarks.problem import BUILD, Run
from benchmarks.speed import Effort

__all__ = ["PROGRAMS", "contextual"]

PLACE = MixedVisitors()
"""Five arms, ten coordinates, eight leaves."""
PROGRAMS = {"linear-ucb": "linear_ucb", "leaf-barrier": "leaf_barrier"}
_TO_C = 1.2
_NANOSECONDS = {"leaf-barrier": 400.0, "expert-barrier": 2_000.0}
"""The most that a round may take beyond drawing the visitor and rewards."""


class NothingState(NamedTuple):
    """A policy without a memory."""

    unused: np.ndarray


class FirstArm(Policy, frozen=True, tag="first-arm"):
    """Plays the first arm: what is left is the cost of visitors and rewards."""

    takes_contexts: ClassVar[bool] = True

    def start(self, arms: int, horizon: int, shape: object = None) -> NothingState:
        """An empty state."""
        return NothingState(np.zeros(1))


@implement(choose, NothingState)
def choose_first(state: NothingState, stream: Stream, eligible: Eligible = None) -> Ticket:
    """The first arm."""
    return make_ticket(0)


@implement(assign, NothingState)
def assign_nothing(state: NothingState, ticket: Ticket) -> Ticket:
    """Add nothing to a ticket."""
    return ticket


@implement(distribution, NothingState)
def first_distribution(state: NothingState, out: np.ndarray) -> None:
    """All weight on the first arm."""
    out.fill(0.0)
    out[0] = 1.0


@implement(learn, NothingState)
def learn_nothing(state: NothingState, ticket: Ticket, reward: float) -> None:
    """Learn nothing."""


def run_contextual(policy: Policy | str, horizon: int, replications: int, seed: int) -> Run:
    """Some replications with one worker, timed as the user sees them: the whole call."""
    started = time.process_time()
    result = armrace.simulate(
        policy, PLACE, horizon=horizon, replications=replications, seed=seed, workers=1,
        progress=False,
    )  # fmt: skip
    seconds = time.process_time() - started
    return Run(result.final["pulls"].to_numpy(), seconds / replications)


def contextual(effort: Effort) -> Iterator[Figure | Agreement]:
    """Policies against plain C, and what they add to a round of their environment."""
    turns, replications, horizon = effort
    for policy in (FirstArm(), *PROGRAMS, *_NANOSECONDS):
        run_contextual(policy, 1, 1, seed=0)  # compiles, or loads what is compiled
    table = write_table()
    means = PLACE.mean_rewards(1).tolist()
    for policy, source in PROGRAMS.items():
        program = compile_program(source)
        ours, theirs = [], []
        for seed in effort.seeds():
            theirs.append(run_program(program, (table,), horizon, replications, seed))
            ours.append(run_contextual(policy, horizon, replications, seed))
        yield ratio_figure(policy, effort.times(ours), effort.times(theirs), "plain C", _TO_C)
        averages = Averages(max(means), means)
        yield compare_runs(f"{policy}, visitors-mid", averages, horizon, pool(ours), pool(theirs))
    own: list[Run] = []
    runs: dict[str, list[Run]] = {policy: [] for policy in _NANOSECONDS}
    for seed in effort.seeds():
        own.append(run_contextual(FirstArm(), horizon, replications, seed))
        for policy, found in runs.items():
            found.append(run_contextual(policy, horizon, replications, seed))
    least = min(effort.times(own))
    for policy, found in runs.items():
        name = f"{policy}, d = 10, K = 5, beyond its visitors"
        value = min(effort.times(found)) - least
        note = f"drawing visitors and rewards: {least:.0f} ns; {turns} turns"
        yield Figure(name, value, "ns a round", target=_NANOSECONDS[policy], note=note)


def write_table() -> Path:
    """Write the kinds of visitors for the C programs."""
    BUILD.mkdir(exist_ok=True)
    file, kinds = BUILD / "visitors.bin", PLACE.kinds()
    columns = kinds.vectors, kinds.means, kinds.leaves
    file.write_bytes(b"".join(np.ascontiguousarray(c, dtype=np.float64).tobytes() for c in columns))
    return file
