"""Arms that are added, paused, resumed or retired while an experiment runs."""

from __future__ import annotations

import msgspec

from armrace.errors import AlreadyExists, InvalidParameter, NotRunning, UnknownName
from armrace.service.answers import ArmAnswer, ArmStatus
from armrace.service.arguments import check_part
from armrace.service.books import Books
from armrace.service.events import ArmAdded, ArmChanged
from armrace.service.experiment import Experiment
from armrace.service.settings import check_arm_count, check_label

__all__ = ["AddArm", "ChangeArm"]

_CONTINUES = (
    "The policy goes on: an arm that was never played is the same to it whenever it comes. Regret "
    "counts against the new arm only from now on."
)
_NEW_GENERATION = (
    "The policy starts afresh in a new generation. Its guarantee covers the decisions from now on; "
    "open decisions of the old generation are recorded, but teach the new one nothing."
)
_RESUMED = (
    "The policy may choose the arm again and has kept what it knows of it. Regret counts against "
    "the arm while it was active, if it was not paused because of its rewards."
)
_RESTRICTED = (
    "The policy chooses among the remaining arms. Its guarantee covers regret against those, if "
    "the arm was not paused or retired because of its rewards."
)


class AddArm(msgspec.Struct, frozen=True):
    """Add an arm. To add one that is there changes nothing."""

    tenant: str
    name: str
    arm: str

    def perform(self, books: Books) -> ArmAnswer:
        """Check everything, then add events; return the answer."""
        experiment = books.experiment(self.tenant, self.name)
        check_part("arm", check_label("arm", self.arm))
        before = experiment.generation.number
        if self.arm not in experiment.arms:
            check_arm_count(len(experiment.arms) + 1)
            _check_unfinished(experiment)
            books.add(ArmAdded(books.time, experiment.number, self.arm))
        elif experiment.statuses[experiment.arms.index(self.arm)] == "retired":
            raise AlreadyExists(f"the arm {self.arm!r} is retired; give the new arm another name.")
        return _answer(experiment, self.arm, before, _CONTINUES)


class ChangeArm(msgspec.Struct, frozen=True):
    """Pause, resume or retire an arm. A retired arm does not come back."""

    tenant: str
    name: str
    arm: str
    status: ArmStatus

    def perform(self, books: Books) -> ArmAnswer:
        """Check everything, then add events; return the answer."""
        experiment = books.experiment(self.tenant, self.name)
        if self.arm not in experiment.arms:
            raise UnknownName.among("arm", str(self.arm)[:100], experiment.arms)
        place, before = experiment.arms.index(self.arm), experiment.generation.number
        if experiment.statuses[place] != self.status:
            self._check(experiment, place)
            books.add(ArmChanged(books.time, experiment.number, place, self.status, told=True))
        words = _RESUMED if self.status == "active" else _RESTRICTED
        return _answer(experiment, self.arm, before, words)

    def _check(self, experiment: Experiment, place: int) -> None:
        _check_unfinished(experiment)
        if experiment.statuses[place] == "retired":
            raise InvalidParameter(f"the arm {self.arm!r} is retired and stays so.")
        if self.status == "active":
            return
        tag = experiment.generation.learner.policy.tag()
        if self.status == "paused" and not experiment.loses_arms:
            raise InvalidParameter(
                f"{tag} cannot go on without an arm; retire the arm, and it starts afresh."
            )
        left = sum(status == "active" for status in experiment.statuses) - (
            experiment.statuses[place] == "active"
        )
        least = 1 if experiment.restrictable else 2
        if left < least:
            raise InvalidParameter(f"at least {least} arms must stay active; {left} would.")


def _check_unfinished(experiment: Experiment) -> None:
    """Refuse to change arms in the end: a policy might restart and lose what it has learned."""
    if experiment.phase == "finished":
        raise NotRunning(f"the experiment {experiment.name} is finished.")


def _answer(experiment: Experiment, arm: str, before: int, words: str) -> ArmAnswer:
    place = experiment.arms.index(arm)
    status = experiment.statuses[place]
    renewed = experiment.generation.number != before
    return ArmAnswer(
        arm,
        status,
        experiment.generation.number,
        renewed,
        _NEW_GENERATION if renewed else words,
    )
