"""Each policy of a comparison under the worst known attack on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.simulation import Comparison, Experiment

__all__ = ["at_least_as_bad", "under_own_worst"]


def under_own_worst(
    cell: Sequence[Experiment], executor: Executor | None, workers: int | None
) -> list[Experiment]:
    """Return the same experiments, each with the attack that trials showed to be its worst.

    Tried are the cell's own attack, what searches have found for the policy in similar settings,
    and some fixed attacks; the trials have other seeds than the experiments.

    Args:
        cell: the experiments, one for each policy.
        executor: runs the trials in place of threads.
        workers: how many threads run at once; by default one per core.
    """
    from armrace.red_team.target import Target
    from armrace.red_team.worst_known import worst_known
    from armrace.simulation.experiment import refresh_for

    attacked = []
    for experiment in cell:
        target = Target(
            policy=experiment.policy,
            environment=experiment.environment,
            budget=experiment.budget,
            horizon=experiment.horizon,
        )
        own = experiment.adversary
        attack = worst_known(target, experiment.seed, [own], executor, workers)
        refresh = refresh_for(experiment.policy, attack)
        attacked.append(msgspec.structs.replace(experiment, adversary=attack, refresh=refresh))
    return attacked


def at_least_as_bad(own: Comparison, shared: Comparison) -> Comparison:
    """Return ``own`` with the shared attack for policies to which that has cost more after all.

    A few trials choose an attack, so the choice can be wrong; the table would then show a worst
    attack that costs less than the one beside it.
    """
    from armrace.simulation import Comparison

    pairs = zip(own.results.values(), shared.results.values(), strict=True)
    costlier = [max(pair, key=lambda result: result.figure(own.measure).mean) for pair in pairs]
    return Comparison(costlier, own.measure)
