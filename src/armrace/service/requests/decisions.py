"""Deciding."""

from __future__ import annotations

import msgspec

from armrace.errors import NotRunning, TooManyOpen
from armrace.service.answers import Decision
from armrace.service.books import Books
from armrace.service.events import Decided
from armrace.service.experiment import Experiment
from armrace.service.open_decisions import OpenDecision
from armrace.service.settings import check_label
from armrace.service.tokens import TokenContent

__all__ = [
    "Decide",
]


class Decide(msgspec.Struct, frozen=True):
    """Make a decision, or return the open one of the same request or unit."""

    tenant: str
    name: str
    eligible: list[str] | None = None
    unit: str | None = None
    request: str | None = None

    def perform(self, books: Books) -> Decision:
        """Check everything, then add events; return the answer."""
        experiment = books.experiment(self.tenant, self.name)
        known = self.find_open(experiment, books.time)
        if known is not None:
            return _answer(books, experiment, known, repeated=True)
        if experiment.phase != "running":
            raise NotRunning(f"the experiment {self.name} is {experiment.phase}.")
        most = experiment.settings.most_open
        # If some are due, settling them below makes room.
        if len(experiment.open) >= most and not experiment.is_due(books.time):
            raise TooManyOpen(
                f"open decisions must be at most {most}; wait until the window of some closes."
            )
        places = experiment.eligible_places(self.eligible)
        # Only now, after all that can be refused: settling changes the state.
        books.advance(experiment)
        drawn = experiment.draw(places)
        event = Decided(books.time, experiment.number, *drawn, self.unit, self.request)
        sequence = books.add(event)
        made = experiment.open.get(sequence)
        assert made is not None
        return _answer(books, experiment, made, repeated=False)

    def find_open(self, experiment: Experiment, time: int) -> OpenDecision | None:
        """Return the open decision of the same request or unit, if there is one.

        Args:
            experiment: the experiment.
            time: the time of the request: a decision whose window has closed by then is not open.
        """
        if self.request is not None:
            found = experiment.open.of_request(check_label("request", self.request))
            if found is not None and not experiment.is_closed(found, time):
                return found
        if self.unit is not None:
            found = experiment.open.of_unit(check_label("unit", self.unit))
            if (
                found is not None
                and not experiment.is_closed(found, time)
                and self._may_show(experiment, found.arm)
            ):
                return found
        return None

    def _may_show(self, experiment: Experiment, place: int) -> bool:
        """Whether an arm may be shown again: it is active and, if arms are named, among them."""
        named = self.eligible is None or experiment.arms[place] in self.eligible
        return named and experiment.statuses[place] == "active"


def _answer(books: Books, experiment: Experiment, made: OpenDecision, repeated: bool) -> Decision:
    content = TokenContent(
        experiment.number, made.sequence, made.arm, made.time + experiment.window
    )
    return Decision(
        books.keys.sign(experiment.tenant, content),
        experiment.name,
        experiment.arms[made.arm],
        made.probability,
        repeated,
    )
