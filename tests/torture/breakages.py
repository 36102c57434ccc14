"""Six ways to break the service on purpose, each of which the checker must notice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

from armrace.errors import StoreFailed
from armrace.service.books import Books
from armrace.service.experiment import Experiment
from armrace.service.folding import load_state
from armrace.service.ledger import Ledger
from armrace.service.open_decisions import OpenDecisions
from armrace.service.requests.rewards import Reward
from armrace.service.tokens import SigningKeys

__all__ = ["BREAKAGES"]


def acknowledge_before_commit(patch: Callable[..., None]) -> None:
    """Answer what was performed although the turn was not kept."""

    def take_turn(self, batches):
        outcomes = None
        try:
            with self.store.turn() as turn:
                state = self._current(turn)
                books = Books(state, turn, self._time(turn, state.time), self._keys())
                outcomes = [[self._answer(each, books) for each in batch] for batch in batches]
                books.flush()
        except StoreFailed:
            if outcomes is None:
                raise
            self._state = None
        return outcomes

    patch(Ledger, "_take_turn", take_turn)


def forget_a_duplicate(patch: Callable[..., None]) -> None:
    """Take every reward as the first one."""

    def rewarded(self, event):
        decision = self.open.get(event.decision)
        decision.steps, decision.source = event.steps, event.source
        decision.suspicious = self.is_suspicious(event.suspicion)

    original = Reward.perform

    def perform(self, books):
        token = books.keys.read(self.tenant, self.decision)
        decision = books.state.experiments[token.experiment].open.get(token.sequence)
        if decision is not None:
            decision.steps = None
        return original(self, books)

    patch(Experiment, "_rewarded", rewarded)
    patch(Reward, "perform", perform)


def fold_out_of_order(patch: Callable[..., None]) -> None:
    """Settle the youngest decision whose window has closed before the oldest."""

    def pop_before(self, time):
        due = [decision for decision in self._order if decision.time <= time]
        if not due:
            return None
        self._order.remove(due[-1])
        del self._by_sequence[due[-1].sequence]
        self._by_request.pop(due[-1].request, None)
        return due[-1]

    patch(OpenDecisions, "pop_before", pop_before)


def lose_a_retraction(patch: Callable[..., None]) -> None:
    """Answer a ruling about past rewards without folding the log again."""

    def go_on_with(self, refolded):
        pass

    patch(Books, "go_on_with", go_on_with)


def reuse_a_sequence_number(patch: Callable[..., None]) -> None:
    """Append without reading what other nodes have appended."""
    from torture.world import FaultyStore

    original = FaultyStore.turn

    @contextmanager
    def turn(self):
        with original(self) as turn:
            turn.append = turn._new.extend
            yield turn

    def read_once(self, turn):
        self._state = self._state or load_state(turn)
        return self._state

    patch(FaultyStore, "turn", turn)
    patch(Ledger, "_current", read_once)


def mix_up_names(patch: Callable[..., None]) -> None:
    """Give every other decision the name of the one before it."""
    original = SigningKeys.sign
    before: list[str] = []

    def sign(self, tenant, content):
        name = original(self, tenant, content)
        return before.pop() if before else (before.append(name) or name)

    patch(SigningKeys, "sign", sign)


BREAKAGES: tuple[Callable[..., None], ...] = (
    acknowledge_before_commit,
    forget_a_duplicate,
    fold_out_of_order,
    lose_a_retraction,
    reuse_a_sequence_number,
    mix_up_names,
)
