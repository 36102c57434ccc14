"""Creating experiments, and starting and stopping them."""

from __future__ import annotations

import msgspec

from armrace.errors import AlreadyExists, NotRunning
from armrace.service.answers import Phase
from armrace.service.books import Books
from armrace.service.events import Created, PhaseChanged
from armrace.service.settings import Settings, check_name

__all__ = ["ChangePhase", "Create", "ListNames"]


class Create(msgspec.Struct, frozen=True):
    """Create an experiment. To create it again with the same settings changes nothing."""

    tenant: str
    name: str
    settings: Settings
    seed_given: bool = True
    """Whether the seed is one of the settings that must agree with an existing experiment."""

    def perform(self, books: Books) -> bool:
        """Check everything, then add events; return whether the experiment is new."""
        check_name(self.name)
        existing = books.state.get(self.tenant, self.name)
        if existing is not None:
            asked = self.settings
            if not self.seed_given:
                asked = msgspec.structs.replace(asked, seed=existing.settings.seed)
            if existing.settings != asked:
                raise AlreadyExists(
                    f"there is an experiment named {self.name!r} with other settings."
                )
            return False
        settings = msgspec.to_builtins(self.settings)
        number = len(books.state.experiments)
        books.add(Created(books.time, number, self.tenant, self.name, settings))
        return True


class ChangePhase(msgspec.Struct, frozen=True):
    """Pause, resume or finish an experiment."""

    tenant: str
    name: str
    phase: Phase

    def perform(self, books: Books) -> Phase:
        """Check everything, then add events; return the phase."""
        experiment = books.experiment(self.tenant, self.name)
        if experiment.phase == "finished" and self.phase != "finished":
            raise NotRunning(f"the experiment {self.name} is finished.")
        if experiment.phase != self.phase:
            books.add(PhaseChanged(books.time, experiment.number, self.phase))
        return self.phase


class ListNames(msgspec.Struct, frozen=True):
    """Return the names of a tenant's experiments."""

    tenant: str

    def perform(self, books: Books) -> list[str]:
        """Return the names in the order of creation."""
        return [experiment.name for experiment in books.state.of_tenant(self.tenant)]
