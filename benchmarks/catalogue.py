"""Time a round of every policy of the catalogue, beside UCB1."""

from __future__ import annotations

from collections.abc import Iterator

from armrace.policies import POLICIES
from benchmarks.figures import Figure, ratio_figure
from benchmarks.problem import HARD, run_armrace
from benchmarks.speed import HORIZON, Effort

__all__ = ["all_policies"]

_YARDSTICK = "ucb1"
_TO_UCB1 = 10.0
_OWN_TARGETS = {"tsallis-inf": 6.0}


def all_policies(effort: Effort) -> Iterator[Figure]:
    """Each policy in turns with UCB1, on the same problem."""
    for name in POLICIES:
        if name == _YARDSTICK:
            continue
        run_armrace(name, HARD, 1, 1, seed=0)  # compiles, or loads what is compiled
        ours: list[float] = []
        theirs: list[float] = []
        for seed in effort.seeds():
            for policy, times in ((_YARDSTICK, theirs), (name, ours)):
                run = run_armrace(policy, HARD, HORIZON, effort.replications, seed)
                times.append(run.nanoseconds(HORIZON))
        target = _OWN_TARGETS.get(name, _TO_UCB1)
        yield ratio_figure(name, ours, theirs, _YARDSTICK, target)
