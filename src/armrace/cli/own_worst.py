"""Each policy of a comparison under the worst attack that searches have found for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from armrace.simulation import Experiment

__all__ = ["under_own_worst"]


def under_own_worst(cell: Sequence[Experiment]) -> list[list[Experiment]]:
    """Return the same experiments, each with its own attack; nothing without a budget.

    The attacks come from the library of winners: for a policy that was never searched, from
    searches against others.
    """
    from armrace.red_team.library import winners_for
    from armrace.red_team.target import Target
    from armrace.simulation.experiment import refresh_for

    attacked = []
    for experiment in cell:
        if experiment.budget == 0:
            return []
        target = Target(
            policy=experiment.policy,
            environment=experiment.environment,
            budget=experiment.budget,
            horizon=experiment.horizon,
        )
        attack = winners_for(target)[0]
        refresh = refresh_for(experiment.policy, attack)
        attacked.append(msgspec.structs.replace(experiment, adversary=attack, refresh=refresh))
    return [attacked]
