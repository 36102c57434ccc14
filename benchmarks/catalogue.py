"""Time a round of every policy of the catalogue, beside UCB1 in plain C."""

from __future__ import annotations

from collections.abc import Iterator

from armrace.policies import POLICIES
from benchmarks.figures import Figure, ratio_figure
from benchmarks.plain_c import compile_program, run_program
from benchmarks.problem import HARD, run_armrace
from benchmarks.speed import HORIZON, Effort

__all__ = ["all_policies"]

_YARDSTICK = "ucb1"
_TO_YARDSTICK = 10.0
_OWN_TARGETS = {"tsallis-inf": 6.0}


def all_policies(effort: Effort) -> Iterator[Figure]:
    """Each policy in turns with UCB1 in plain C, on the same problem."""
    program = compile_program(_YARDSTICK)
    for name in POLICIES:
        run_armrace(name, HARD, 1, 1, seed=0)  # compiles, or loads what is compiled
        ours: list[float] = []
        theirs: list[float] = []
        for seed in effort.seeds():
            plain = run_program(program, HARD, HORIZON, effort.replications, seed)
            theirs.append(plain.nanoseconds(HORIZON))
            run = run_armrace(name, HARD, HORIZON, effort.replications, seed)
            ours.append(run.nanoseconds(HORIZON))
        target = _OWN_TARGETS.get(name, _TO_YARDSTICK)
        yield ratio_figure(name, ours, theirs, "ucb1 in plain C", target)
