"""Rewarding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

import msgspec

from armrace.errors import DecisionExpired, ForeignTicket, RewardConflict
from armrace.limits import Limits, check_number
from armrace.service.books import Books, KeptRefusal
from armrace.service.chain import Record
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
            return self._answer_late(books, experiment, token, steps)
        if not _names(token, experiment, decision.arm, decision.time):
            raise ForeignTicket(_ELSEWHERE)
        # A reward that is sent again is answered as the first time, even after the window has
        # closed.
        if decision.steps is None and experiment.is_closed(decision, books.time):
            raise _expired(experiment)
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
        self, books: Books, experiment: Experiment, token: TokenContent, steps: int
    ) -> RewardStatus:
        """Answer when the decision is not open: from the log, or with a refusal."""
        events = [decode(record.payload) for record in _look_up(books, token.sequence)]
        decided = events[0] if events else None
        if (
            not isinstance(decided, Decided)
            or decided.experiment != experiment.number
            or not _names(token, experiment, decided.arm, decided.time)
        ):
            raise ForeignTicket(_ELSEWHERE)
        if len(events) == 1:
            raise _expired(experiment)
        rewarded = events[1]
        assert isinstance(rewarded, Rewarded)
        return self._answer_again(books, experiment, token.sequence, rewarded.steps, steps)


def _look_up(books: Books, sequence: int) -> list[Record]:
    """Return what the log holds of a decision that is not open: itself, and its reward."""
    if books.late is None or sequence not in books.late:
        # For all rewards of the turn at once, since a store on another machine takes time for each
        # question. Those of open decisions are among them: they have no record that would be wrong.
        wanted = {sequence, *_named_in_turn(books)}
        books.late = {each: [] for each in wanted}
        turn = books.flush()
        for record in turn.read_many(wanted):
            books.late[record.sequence].append(record)
        for record in turn.find_many(wanted):
            assert record.subject is not None
            books.late[record.subject].append(record)
    return books.late[sequence]


def _named_in_turn(books: Books) -> Iterator[int]:
    for request in chain.from_iterable(books.batches):
        if isinstance(request, Reward):
            with suppress(ForeignTicket):
                yield books.keys.read(request.tenant, request.decision).sequence


def _expired(experiment: Experiment) -> DecisionExpired:
    return DecisionExpired(
        f"the decision could be rewarded for {experiment.settings.window:g} seconds, "
        "which are over."
    )


def _names(token: TokenContent, experiment: Experiment, arm: int, time: int) -> bool:
    """Whether a token names a decision, and not one that had its number in another log.

    After a restore from an older backup, numbers are given out again.
    """
    return token.place == arm and token.closes == time + experiment.window
