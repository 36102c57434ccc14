"""The ledger of the relaxed mode: draw first, then append, then fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from armrace.errors import ArmraceError
from armrace.service.books import Books, Exactly
from armrace.service.events import StreamOpened
from armrace.service.experiment import Experiment
from armrace.service.folding import apply_events
from armrace.service.ledger import Ledger, Request
from armrace.service.relaxed.books import AheadBooks, Lag, read_news
from armrace.service.relaxed.drafts import Draft, Drafter
from armrace.service.relaxed.names import NamesAside
from armrace.service.requests.decisions import Decide
from armrace.service.requests.rewards import Reward
from armrace.service.state import State
from armrace.service.stores.base import Store, Turn
from armrace.service.tokens import SigningKeys

__all__ = ["RelaxedLedger"]

_Batches = list[Sequence[Request[Any]]]


class RelaxedLedger(Ledger):
    """Performs decisions and rewards in short turns; everything else as :class:`Ledger` does.

    Args:
        store: where the log is kept, by several servers.
        keys: returns the keys that sign the names of decisions.
        clock: returns the time in milliseconds.
        lag: how far the state from which decisions are drawn may be behind; by default 1,000
            records and a second.
    """

    mode = "relaxed"

    def __init__(
        self,
        store: Store,
        keys: Callable[[], SigningKeys],
        clock: Callable[[], int] | None = None,
        lag: Lag | None = None,
    ) -> None:
        self.lag = lag or Lag()
        self._seen = 0
        """When the state was last known to be the true one."""
        self._drafters: dict[int, Drafter] = {}
        self._wanted: set[int] = set()
        """Experiments for which a random stream is needed."""
        self._opened: dict[int, int] = {}
        """Streams that were given to this server in a turn that is not durable yet."""
        super().__init__(store, keys, clock)

    def _give_up(self, error: BaseException) -> None:
        super()._give_up(error)
        # Streams that may not be this server's after all are not used, nor is any number again.
        self._drafters, self._opened, self._wanted = {}, {}, set()

    def _take_turn(self, batches: _Batches) -> list[list[Any]]:
        names = NamesAside(self._keys())
        drafts = self._draft(batches, names)
        books: AheadBooks | None = None
        with self._turn() as turn:
            if drafts is not None:
                try:
                    books, outcomes = self._perform_ahead(turn, batches, drafts, names)
                except Exactly:
                    self._forget_drafts()
            if books is None:
                outcomes = self._perform_in(turn, batches)
        if books is None:
            self._accept_streams()
            return outcomes
        self._seen = books.time
        self.turns["relaxed"] += 1
        # Folded after the turn, when others may have the lock.
        apply_events(books.state, books.records)
        return names.sign_answers(outcomes)

    # --- before the turn ------------------------------------------------------------------

    def _draft(self, batches: _Batches, names: NamesAside) -> list[Draft | None] | None:
        """Draw what is asked for; ``None`` if the turn must be performed on the true state."""
        state = self._state
        if state is None or self._needs_snapshot(state):  # a snapshot is of the true state
            return None
        requests = [request for batch in batches for request in batch]
        if not all(type(request) in (Decide, Reward) for request in requests):
            return None
        followed: dict[int, Drafter] = {}
        drafts: list[Draft | None] = []
        for request in requests:
            if isinstance(request, Decide):
                drafts.append(self._draw_for(state, request, followed))
            else:
                assert isinstance(request, Reward)
                names.read_ahead(request.tenant, request.decision)
                drafts.append(None)
        # A stream is given out by an event, and events are added in exact turns only.
        if self._wanted:
            self._forget_drafts()
            return None
        return drafts

    def _draw_for(
        self, state: State, request: Decide, followed: dict[int, Drafter]
    ) -> Draft | None:
        """Draw for a request, if it seems to need a decision."""
        experiment = state.get(request.tenant, request.name)
        if experiment is None or experiment.is_dormant or experiment.phase != "running":
            return None
        try:
            if request.find_open(experiment, self._seen) is not None:
                return None
            places = experiment.eligible_places(request.eligible)
        except ArmraceError:  # is refused in the turn
            return None
        drafter = followed.get(experiment.number) or self._follow(state, experiment)
        if drafter is None:
            return None
        followed[experiment.number] = drafter
        return drafter.draw(experiment, places)

    def _follow(self, state: State, experiment: Experiment) -> Drafter | None:
        drafter = self._drafters.get(experiment.number)
        if drafter is None:
            self._wanted.add(experiment.number)
        else:
            drafter.follow(experiment, state.head.sequence, self._seen)
        return drafter

    # --- in the turn ----------------------------------------------------------------------

    def _perform_ahead(
        self, turn: Turn, batches: _Batches, drafts: list[Draft | None], names: NamesAside
    ) -> tuple[AheadBooks, list[list[Any]]]:
        state = self._state
        assert state is not None
        news = read_news(state, turn, self.lag.records)
        time = self._time(turn, news[-1][1].time if news else state.time)
        books = AheadBooks(state, turn, news, time, names, self.lag)
        books.batches = batches
        remaining, wasted = iter(drafts), False

        def perform(request: Request[Any]) -> Any:
            nonlocal wasted
            books.draft = next(remaining)
            outcome = self._answer(request, books)
            wasted = wasted or books.draft is not None
            return outcome

        outcomes = [[perform(request) for request in batch] for batch in batches]
        books.append()
        # The copy has counted draws of which no event speaks; it must be made again.
        if wasted:
            self._forget_drafts()
        return books, outcomes

    def _forget_drafts(self) -> None:
        for drafter in self._drafters.values():
            drafter.forget()

    def _conclude(self, books: Books) -> None:
        for number in self._wanted:
            books.add(StreamOpened(books.time, number))
            self._opened[number] = books.numbered(number).streams
        self._wanted = set()
        self._seen = books.time

    def _accept_streams(self) -> None:
        for number, stream in self._opened.items():
            self._drafters[number] = Drafter(stream, self.lag.records)
        self._opened = {}
