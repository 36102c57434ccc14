"""Time a round: some policies against plain C, the race and a leader under attack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from armrace.adversaries.two_phase import TwoPhase
from benchmarks.agreement import Agreement, compare_runs, pool
from benchmarks.attack import FlipWhatMayBePlayed
from benchmarks.figures import Figure, ratio_figure
from benchmarks.plain_c import compile_program, run_program
from benchmarks.problem import EASY, HARD, Problem, Run, run_armrace

__all__ = ["HORIZON", "MATCHES", "Effort", "Match", "against_c", "searched", "under_attack"]

HORIZON = 1_000_000
_RACE = "multi-layer-race"
_TO_C = 1.2
_ATTACKED_TO_C = 2.0
_SEARCHED_NANOSECONDS = 250.0


class Match(NamedTuple):
    """A policy, perhaps under attack, and the C program that plays the same."""

    policy: str
    program: str
    target: float
    """The largest time of armrace, in times of the C program."""
    adversary: str = "none"

    @property
    def name(self) -> str:
        """What is played."""
        return self.policy if self.adversary == "none" else f"{self.policy}, {self.adversary}"

    def run(self, problem: Problem, horizon: int, replications: int, seed: int) -> Run:
        """Some replications by armrace, with a budget that outlasts the run."""
        budget = 0.0 if self.adversary == "none" else 2.0 * horizon
        return run_armrace(
            self.policy, problem, horizon, replications, seed, self.adversary, budget
        )


MATCHES = (
    Match(_RACE, "race", 0.35),
    Match("ucb1", "ucb1", 0.25),
    Match("exp3", "exp3", _TO_C),
    Match("tsallis-inf", "tsallis_inf", _TO_C),
    Match("kl-ucb", "kl_ucb", _TO_C),
    Match("thompson", "thompson", _TO_C),
    Match(_RACE, "race_attacked", _TO_C, "zero-best-when-likely"),
)
"""The race and UCB1 do most rounds without any computation, so more is asked of them."""


class Effort(NamedTuple):
    """How often the sides take turns, how many replications a turn has, and of how many rounds."""

    turns: int
    replications: int
    horizon: int = HORIZON

    def seeds(self) -> Iterator[int]:
        """A seed a turn, far enough from the next for all replications of a turn."""
        return (turn * self.replications for turn in range(self.turns))

    def times(self, runs: list[Run]) -> list[float]:
        """Nanoseconds a round."""
        return [run.nanoseconds(self.horizon) for run in runs]


def against_c(effort: Effort) -> Iterator[Figure | Agreement]:
    """Each match, and whether the two sides agree in law."""
    _, replications, horizon = effort
    for match in MATCHES:
        program = compile_program(match.program)
        match.run(HARD, 1, 1, seed=0)  # compiles, or loads what is compiled
        ours: list[Run] = []
        theirs: list[Run] = []
        for seed in effort.seeds():
            theirs.append(run_program(program, HARD, horizon, replications, seed))
            ours.append(match.run(HARD, horizon, replications, seed))
        yield ratio_figure(
            match.name, effort.times(ours), effort.times(theirs), "plain C", match.target
        )
        yield _agreement(match, HARD, horizon, ours, theirs)
        total = effort.turns * replications
        yield _agreement(
            match,
            EASY,
            horizon,
            [match.run(EASY, horizon, total, seed=1)],
            [run_program(program, EASY, horizon, total, seed=1)],
        )


def under_attack(effort: Effort) -> Iterator[Figure]:
    """The race under an attack that reads all weights and writes all rewards, all along.

    The C program beside it is not attacked.
    """
    _, replications, horizon = effort
    program = compile_program("race")
    attack, budget = FlipWhatMayBePlayed(), 2.0 * horizon
    run_armrace(_RACE, HARD, 1, 1, 0, attack, budget)
    plain: list[Run] = []
    attacked: list[Run] = []
    for seed in effort.seeds():
        plain.append(run_program(program, HARD, horizon, replications, seed))
        attacked.append(run_armrace(_RACE, HARD, horizon, replications, seed, attack, budget))
    yield ratio_figure(
        "race, every reward rewritten",
        effort.times(attacked),
        effort.times(plain),
        "plain C, no attack",
        _ATTACKED_TO_C,
    )


def searched(effort: Effort) -> Figure:
    """A leader under an attack of the family that searches vary, which looks at its weights."""
    attack = TwoPhase(first="double-impact", first_low=0.5)
    run_armrace("tsallis-inf", HARD, 1, 1, 0, attack, 1.0)
    _, replications, horizon = effort
    runs = [
        run_armrace("tsallis-inf", HARD, horizon, replications, seed, attack, 2.0 * horizon)
        for seed in effort.seeds()
    ]
    nanoseconds = min(effort.times(runs))
    return Figure(
        "tsallis-inf, attack that looks at w", nanoseconds, "ns", target=_SEARCHED_NANOSECONDS
    )


def _agreement(
    match: Match, problem: Problem, horizon: int, ours: list[Run], theirs: list[Run]
) -> Agreement:
    name = f"{match.name}, means {problem.best} and {problem.others}"
    return compare_runs(name, problem, horizon, pool(ours), pool(theirs))
