"""What an experiment shows of itself."""

from __future__ import annotations

from functools import partial

import msgspec

from armrace.service.answers import ArmSummary, ExperimentView, LayerView
from armrace.service.aside import Later
from armrace.service.books import Books
from armrace.service.experiment import Experiment
from armrace.service.history import learned_of
from armrace.service.rewards import GRID

__all__ = ["Describe", "view_of"]

_AT_ONCE = 50
"""With so many arms, the state of an experiment is shown in a millisecond or two."""
_IMMEDIATE = (
    "Rewards are learned as they come. Where rewards that come late differ from those that come at "
    "once, as clicks differ from their absence, means are biased, and neither the guarantee nor "
    "the audit covers that."
)


class Describe(msgspec.Struct, frozen=True):
    """Return the state of an experiment."""

    tenant: str
    name: str

    def perform(self, books: Books) -> ExperimentView | Later[ExperimentView]:
        """Settle what is due, and return the state."""
        experiment = books.settled(self.tenant, self.name)
        if len(experiment.arms) <= _AT_ONCE:
            return view_of(experiment)
        return Later(partial(view_of, experiment.still(), len(experiment.open)))


def view_of(experiment: Experiment, opened: int | None = None) -> ExperimentView:
    """Return the state of an experiment as plain data.

    Args:
        experiment: the experiment, or how it was.
        opened: how many decisions were open; by default as many as are now.
    """
    settings = msgspec.to_builtins(experiment.settings)
    del settings["seed"]  # with the seed, decisions can be predicted
    return ExperimentView(
        experiment.name,
        experiment.phase,
        settings,
        experiment.created,
        experiment.generation.number,
        experiment.generation.horizon,
        experiment.decisions,
        len(experiment.open) if opened is None else opened,
        _arms(experiment),
        _layers(experiment),
        [_IMMEDIATE] if experiment.settings.settle == "immediate" else [],
        experiment.conflicts,
    )


def _arms(experiment: Experiment) -> list[ArmSummary]:
    weights = experiment.generation.learner.distribution()
    found = []
    for place, (arm, status) in enumerate(zip(experiment.arms, experiment.statuses, strict=True)):
        totals = experiment.totals.arms[place]
        learned, steps = learned_of(experiment, totals)
        mean = steps / learned if learned else None
        found.append(
            ArmSummary(
                arm,
                status,
                totals.decisions,
                totals.closed,
                totals.rewarded,
                totals.withheld,
                None if mean is None else experiment.scale.reward(mean),
                weights.get(place),
            )
        )
    return found


def _layers(experiment: Experiment) -> list[LayerView]:
    def scaled(value: float | None) -> float | None:
        return None if value is None else experiment.scale.reward(value * GRID)

    places = experiment.generation.places
    return [
        LayerView(
            view.layer,
            experiment.arms[places[view.arm]],
            view.assigned,
            view.pulls,
            scaled(view.mean),
            scaled(view.lower),
            scaled(view.upper),
            view.active,
            view.eliminated_at,
            view.eliminated_by,
            view.evidence,
            scaled(view.evidence_mean),
        )
        for view in experiment.generation.learner.inspect()
    ]
