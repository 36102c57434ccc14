"""The books of a turn that is short: what others have appended is looked at, and folded later.

Under the lock only so much is found out about others' records as decisions and rewards need: which
requests and units have a decision, and which decisions have a reward. The state stays as it is
until the turn has ended. Decisions were drawn before; whatever could make a draw wrong raises
:class:`Exactly`, and all requests of the turn are performed on the true state instead. Whether
that happens does not depend on the arm that was drawn, so that the probability on a ticket is the
true one.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

from armrace.service.books import Books, Exactly
from armrace.service.chain import Head, Record, link
from armrace.service.drawing import Drawn
from armrace.service.events import (
    Contradicted,
    Decided,
    DecidedAhead,
    Event,
    Rewarded,
    Ticked,
    encode,
    subject,
)
from armrace.service.experiment import Experiment
from armrace.service.folding import events_of
from armrace.service.open_decisions import OpenDecision, OpenDecisions
from armrace.service.relaxed.drafts import Draft
from armrace.service.state import State
from armrace.service.stores.base import Turn
from armrace.service.tokens import SigningKeys

__all__ = ["AheadBooks", "Lag", "read_news"]

_PLAIN = frozenset((Decided, DecidedAhead, Rewarded, Ticked, Contradicted))
"""The events that nearly all of a log consists of; the others change arms, phases or rulings."""


class Lag(NamedTuple):
    """How far the state from which a decision is drawn may be behind the log."""

    records: int = 1000
    """Records that were appended since, those of the same turn aside."""
    milliseconds: int = 1000


def read_news(state: State, turn: Turn, most: int) -> list[tuple[Record, Event]]:
    """Return what was appended since a state was folded.

    Args:
        state: the state.
        turn: the turn of the store.
        most: how many records to look at.

    Raises:
        Exactly: there are more, or some are neither decisions nor rewards.
    """
    if turn.head == state.head:
        return []
    # A log that has become shorter is for the exact turn to refuse.
    if not 0 < turn.head.sequence - state.head.sequence <= most:
        raise Exactly
    found = list(events_of(state.head, list(turn.read(after=state.head.sequence))))
    if any(type(event) not in _PLAIN for _, event in found):
        raise Exactly
    return found


class AheadBooks(Books):
    """The state that a server last knew, with the records that follow it as notes.

    Args:
        state: the state that the server last knew, which is not changed.
        turn: the turn of the store.
        news: the records that follow the state.
        time: the time of all events of this turn.
        keys: the keys that sign the names of decisions.
        lag: how far draws may be behind.
    """

    def __init__(
        self,
        state: State,
        turn: Turn,
        news: list[tuple[Record, Event]],
        time: int,
        keys: SigningKeys,
        lag: Lag,
    ) -> None:
        super().__init__(state, turn, time, keys)
        self.draft: Draft | None = None
        """What was drawn for the request that is being performed, unless it was taken."""
        self._taken: Draft
        self.records = news
        """The records that follow the state, with those that were added."""
        self._appended = len(news)
        self._head = turn.head
        self._oldest = (turn.head.sequence - lag.records, time - lag.milliseconds)
        self._views: dict[int, _View] = {}
        for record, event in news:
            # Of a dormant experiment nothing is answered, so that nothing need be known.
            if event.experiment not in state.dormant:
                self.numbered(event.experiment).note(record.sequence, event)

    def add(self, event: Event) -> int:
        """Note an event and return its sequence number."""
        record = link(self._head, encode(event), subject(event))
        self._head = Head(record.sequence, record.digest)
        self.records.append((record, event))
        self.numbered(event.experiment).note(record.sequence, event)
        self.changes += 1
        return record.sequence

    def flush(self) -> Turn:
        """Return the turn; nothing is appended before all requests were performed."""
        return self._turn

    def append(self) -> None:
        """Append to the log what was added."""
        self._turn.append([record for record, _ in self.records[self._appended :]])

    def experiment(self, tenant: str, name: str) -> Experiment:
        """Return an experiment as far as decisions need it, or refuse."""
        found = self.numbered(self.state.find(tenant, name).number)
        if len(found.open) >= found.settings.most_open:
            raise Exactly  # some may have closed, which the fold finds out
        return found

    def numbered(self, number: int) -> _View:
        """Return an experiment as far as decisions and rewards need it."""
        found = self._views.get(number)
        if found is None:
            found = self._views[number] = _View(self.state.numbered(number), self)
        return found

    def settled(self, tenant: str, name: str) -> Experiment:
        """Refuse to settle: that is for the fold."""
        raise Exactly

    def take_draft(self, places: list[int] | None) -> Drawn:
        """Return what was drawn for this request, if it may be appended."""
        draft, self.draft = self.draft, None
        if draft is None or draft.places != places:
            raise Exactly
        if draft.known < self._oldest[0] or draft.time < self._oldest[1]:
            raise Exactly
        self._taken = draft
        return draft.drawn

    def decided(
        self, experiment: Experiment, drawn: Drawn, unit: str | None, request: str | None
    ) -> DecidedAhead:
        """Return the event of the decision that was taken last, with how it was drawn."""
        how = self._taken
        number, time = experiment.number, self.time
        return DecidedAhead(time, number, *drawn, unit, request, how.stream, how.taken, how.known)


class _View(Experiment):
    """An experiment with notes about what follows its state."""

    open: _OpenView

    def __init__(self, experiment: Experiment, books: AheadBooks) -> None:
        # Shares all with the experiment except what notes change; nothing is copied under the lock.
        self.__dict__.update(experiment.__dict__)
        self.open = _OpenView(experiment.open)
        self._books = books
        generation = self.generation
        left = generation.horizon - generation.learner.decisions
        self._left = left if self.may_start_afresh else math.inf
        """Decisions left until the policy restarts."""

    def note(self, sequence: int, event: Event) -> None:
        """Take note of an event that the fold will apply."""
        if isinstance(event, Decided):
            self.open.add_made(sequence, event)
            self._left -= event.ticket is not None
        elif isinstance(event, Rewarded):
            self.open.reward(event)

    def advance(self, time: int) -> None:
        """Settle nothing: the fold will."""

    def draw(self, places: list[int] | None) -> Drawn:
        """Return what was drawn ahead."""
        if self._left <= 0:
            raise Exactly
        return self._books.take_draft(places)


class _OpenView(OpenDecisions):
    """Open decisions of a state, with later ones and with rewards that came later."""

    def __init__(self, known: OpenDecisions) -> None:
        super().__init__()
        self._before = known
        self._rewarded: dict[int, OpenDecision] = {}

    def __len__(self) -> int:
        return len(self._before) + super().__len__()

    def add_made(self, sequence: int, event: Decided) -> None:
        """Add a decision, of which only answers are made."""
        self.add(
            OpenDecision(
                sequence,
                event.time,
                event.arm,
                event.probability,
                -1,
                -1,
                None,
                event.unit,
                event.request,
            )
        )

    def reward(self, event: Rewarded) -> None:
        """Note the reward of a decision, on a copy: the state's own is for the fold."""
        decision = self.get(event.decision)
        if decision is None:
            raise Exactly
        rewarded = copy.copy(decision)
        rewarded.steps = event.steps
        self._rewarded[event.decision] = rewarded

    def get(self, sequence: int) -> OpenDecision | None:
        # What was noted last hides what was known before.
        return self._rewarded.get(sequence) or super().get(sequence) or self._before.get(sequence)

    def of_unit(self, unit: str) -> OpenDecision | None:
        return super().of_unit(unit) or self._before.of_unit(unit)

    def of_request(self, request: str) -> OpenDecision | None:
        return super().of_request(request) or self._before.of_request(request)
