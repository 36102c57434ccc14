"""Rewarding."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from armrace.errors import DecisionExpired, ForeignTicket, RewardConflict
from armrace.limits import Limits, check_number
from armrace.service.books import Books, KeptRefusal
from armrace.service.events import Contradicted, Decided, Rewarded, decode
from armrace.service.experiment import Experiment
from armrace.service.settings import check_label
from armrace.service.tokens import TokenContent

__all__ = ["Reward", "RewardStatus"]

RewardStatus = Literal["accepted", "duplicate"]
_ELSEWHERE = "the decision is of another log, or of one that was restored from an older backup."
_SUSPICION = Limits("suspicion", 0, 1)


class Reward(msgspec.Struct, frozen=True):
    """Say what a decision earned.

    The answer does not tell whether the reward is in quarantine.
    """

    tenant: str
    decision: Any
    """The signed name of the decision."""
    value: Any
    source: str | None = None
    suspicion: float | None = None

    def perform(self, books: Books) -> RewardStatus:
        """Check everything, then add events; return the answer."""
        token = books.keys.read(self.tenant, self.decision)
        experiment = self._experiment(books, token)
        steps = experiment.scale.steps(self.value)
        self._check_labels()
        decision = experiment.open.get(token.sequence)
        if decision is None:
            _check_settled(books, experiment, token)
            return self._answer_late(books, experiment, token.sequence, steps)
        if not _names(token, experiment, decision.arm, decision.time):
            raise ForeignTicket(_ELSEWHERE)
        if decision.steps is None and experiment.is_closed(decision, books.time):
            return self._answer_late(books, experiment, token.sequence, steps)
        if decision.steps is not None:
            return self._answer_again(books, experiment, token.sequence, decision.steps, steps)
        books.add(
            Rewarded(
                books.time,
                experiment.number,
                token.sequence,
                steps,
                self.source,
                None if self.suspicion is None else float(self.suspicion),
            )
        )
        return "accepted"

    def _experiment(self, books: Books, token: TokenContent) -> Experiment:
        if token.experiment >= len(books.state.experiments):
            raise ForeignTicket(_ELSEWHERE)
        found = books.numbered(token.experiment)
        if found.tenant != self.tenant:
            raise ForeignTicket(_ELSEWHERE)
        return found

    def _check_labels(self) -> None:
        if self.source is not None:
            check_label("source", self.source)
        if self.suspicion is not None:
            check_number("suspicion", self.suspicion, _SUSPICION)

    def _answer_again(
        self, books: Books, experiment: Experiment, sequence: int, stored: int, steps: int
    ) -> RewardStatus:
        if stored == steps:
            return "duplicate"
        books.add(Contradicted(books.time, experiment.number, sequence))
        raise KeptRefusal(
            RewardConflict(
                f"the decision has had the reward {experiment.scale.reward(stored):g}; "
                f"got {experiment.scale.reward(steps):g}."
            )
        )

    def _answer_late(
        self, books: Books, experiment: Experiment, sequence: int, steps: int
    ) -> RewardStatus:
        """Answer when the window has closed: from the log, or with a refusal."""
        found = next(books.flush().find(sequence), None)
        if found is None:
            raise DecisionExpired(
                f"the decision could be rewarded for {experiment.settings.window:g} seconds, "
                "which are over."
            )
        event = decode(found.payload)
        assert isinstance(event, Rewarded)
        return self._answer_again(books, experiment, sequence, event.steps, steps)


def _check_settled(books: Books, experiment: Experiment, token: TokenContent) -> None:
    """Refuse a token whose number is not that of this decision in the log."""
    found = next(books.flush().read(token.sequence - 1, 1), None)
    event = None if found is None else decode(found.payload)
    if (
        not isinstance(event, Decided)
        or event.experiment != experiment.number
        or not _names(token, experiment, event.arm, event.time)
    ):
        raise ForeignTicket(_ELSEWHERE)


def _names(token: TokenContent, experiment: Experiment, arm: int, time: int) -> bool:
    """Whether a token names a decision, and not one that had its number in another log.

    After a restore from an older backup, numbers are given out again.
    """
    return token.place == arm and token.closes == time + experiment.window
