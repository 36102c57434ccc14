"""Time a round against plain C: the race, UCB1, and the race under attack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import armrace
from benchmarks.agreement import Agreement, compare_runs, pool
from benchmarks.attack import FlipWhatMayBePlayed
from benchmarks.figures import Figure, ratio_figure
from benchmarks.plain_c import compile_program, run_program
from benchmarks.problem import EASY, HARD, Problem, Run, run_armrace

__all__ = ["HORIZON", "Effort", "against_c", "under_attack"]

HORIZON = 1_000_000
_RACE = "multi-layer-race"
_PROGRAMS = {_RACE: "race", "ucb1": "ucb1"}
_ATTACKS: dict[str, armrace.Adversary | str] = {
    "race, zero-best-when-likely": "zero-best-when-likely",
    "race, every reward rewritten": FlipWhatMayBePlayed(),
}
_LASTING = 2.0 * HORIZON
_TO_C = {_RACE: 0.4, "ucb1": 0.5}
_ATTACKED_TO_C = 2.0


class Effort(NamedTuple):
    """How often the sides take turns, and how many replications a turn has."""

    turns: int
    replications: int

    def seeds(self) -> Iterator[int]:
        """A seed a turn, far enough from the next for all replications of a turn."""
        return (turn * self.replications for turn in range(self.turns))


def against_c(effort: Effort) -> Iterator[Figure | Agreement]:
    """Each algorithm beside its C program, and whether the two agree in law."""
    replications = effort.replications
    for policy, name in _PROGRAMS.items():
        program = compile_program(name)
        run_armrace(policy, HARD, 1, 1, seed=0)  # compiles, or loads what is compiled
        ours: list[Run] = []
        theirs: list[Run] = []
        for seed in effort.seeds():
            theirs.append(run_program(program, HARD, HORIZON, replications, seed))
            ours.append(run_armrace(policy, HARD, HORIZON, replications, seed))
        yield ratio_figure(policy, _times(ours), _times(theirs), "plain C", _TO_C[policy])
        yield _agreement(policy, HARD, ours, theirs)
        total = effort.turns * replications
        yield _agreement(
            policy,
            EASY,
            [run_armrace(policy, EASY, HORIZON, total, seed=1)],
            [run_program(program, EASY, HORIZON, total, seed=1)],
        )


def under_attack(effort: Effort) -> Iterator[Figure]:
    """The race under attacks that look at its distribution and at all rewards, all along.

    The C program beside it is not attacked.
    """
    program = compile_program(_PROGRAMS[_RACE])
    plain: list[Run] = []
    attacked: dict[str, list[Run]] = {name: [] for name in _ATTACKS}
    for adversary in _ATTACKS.values():
        run_armrace(_RACE, HARD, 1, 1, 0, adversary, _LASTING)
    for seed in effort.seeds():
        plain.append(run_program(program, HARD, HORIZON, effort.replications, seed))
        for name, adversary in _ATTACKS.items():
            attacked[name].append(
                run_armrace(_RACE, HARD, HORIZON, effort.replications, seed, adversary, _LASTING)
            )
    for name, runs in attacked.items():
        yield ratio_figure(name, _times(runs), _times(plain), "plain C, no attack", _ATTACKED_TO_C)


def _times(runs: list[Run]) -> list[float]:
    return [run.nanoseconds(HORIZON) for run in runs]


def _agreement(policy: str, problem: Problem, ours: list[Run], theirs: list[Run]) -> Agreement:
    name = f"{policy}, means {problem.best} and {problem.others}"
    return compare_runs(name, problem, HORIZON, pool(ours), pool(theirs))
