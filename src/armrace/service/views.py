"""What an experiment shows of itself."""

from __future__ import annotations

from typing import Any

import msgspec

from armrace.service.books import Books
from armrace.service.events import ArmStatus, Phase
from armrace.service.experiment import Experiment
from armrace.service.rewards import GRID

__all__ = ["ArmSummary", "Describe", "ExperimentView", "LayerView", "view_of"]

_IMMEDIATE = (
    "Rewards are learned as they come. Where rewards that come late differ from those that come at "
    "once, as clicks differ from their absence, means are biased, and neither the guarantee nor "
    "the audit covers that."
)


class ArmSummary(msgspec.Struct, frozen=True):
    """One arm over all generations."""

    arm: str
    status: ArmStatus
    decisions: int
    closed: int
    rewarded: int
    withheld: int
    """Closed decisions whose reward was retracted or is in quarantine."""
    mean: float | None
    """The mean of the rewards that count, without what missing ones count as."""
    probability: float | None
    """The probability with which the policy chooses the arm next, floors not included."""


class LayerView(msgspec.Struct, frozen=True):
    """What one layer of the policy knows of one arm; means are in units of rewards."""

    layer: int
    arm: str
    assigned: int
    pulls: int
    mean: float | None
    lower: float | None
    upper: float | None
    active: bool
    eliminated_at: int | None
    eliminated_by: int | None


class ExperimentView(msgspec.Struct, frozen=True):
    """The state of an experiment."""

    name: str
    phase: Phase
    settings: dict[str, Any]
    created: int
    generation: int
    horizon: int
    decisions: int
    open: int
    arms: list[ArmSummary]
    layers: list[LayerView]
    notes: list[str]
    """What must be known to read the figures."""


class Describe(msgspec.Struct, frozen=True):
    """Return the state of an experiment."""

    tenant: str
    name: str

    def perform(self, books: Books) -> ExperimentView:
        """Settle what is due, and return the state."""
        return view_of(books.settled(self.tenant, self.name))


def view_of(experiment: Experiment) -> ExperimentView:
    """Return the state of an experiment as plain data."""
    settings = msgspec.to_builtins(experiment.settings)
    del settings["seed"]  # whoever knows it can foretell decisions
    return ExperimentView(
        experiment.name,
        experiment.phase,
        settings,
        experiment.created,
        experiment.generation.number,
        experiment.generation.horizon,
        experiment.decisions,
        len(experiment.open),
        _arms(experiment),
        _layers(experiment),
        [_IMMEDIATE] if experiment.settings.settle == "immediate" else [],
    )


def _arms(experiment: Experiment) -> list[ArmSummary]:
    weights = experiment.generation.learner.distribution()
    found = []
    for place, (arm, status) in enumerate(zip(experiment.arms, experiment.statuses, strict=True)):
        totals = experiment.totals.arms[place]
        mean = totals.steps / totals.rewarded if totals.rewarded else None
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
        )
        for view in experiment.generation.learner.inspect()
    ]
