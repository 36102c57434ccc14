"""What requests work on during a turn: the state, the time, and the events they add."""

from __future__ import annotations

from collections.abc import Sequence

from armrace.errors import ArmraceError
from armrace.service.chain import Record, link
from armrace.service.events import Event, Ticked, encode, subject
from armrace.service.experiment import Experiment, Rulings
from armrace.service.folding import Refolded, refold
from armrace.service.state import State
from armrace.service.stores.base import Turn
from armrace.service.tokens import SigningKeys

__all__ = ["Books", "KeptRefusal"]


class KeptRefusal(Exception):
    """A request is refused, and the events that it has added are kept.

    Args:
        refusal: what is answered.
    """

    def __init__(self, refusal: ArmraceError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Books:
    """The state during a turn of the store.

    ``add`` applies an event to the state and notes its record. The ledger answers no request before
    the turn has ended and all records are durable.

    Args:
        state: the state at the end of the log.
        turn: the turn of the store.
        time: the time of all events of this turn.
        keys: the keys that sign the names of decisions.
    """

    def __init__(self, state: State, turn: Turn, time: int, keys: SigningKeys) -> None:
        self.state = state
        self.time = time
        self.keys = keys
        self.changes = 0
        """Grows with each change that a request makes, before it is made."""
        self.snapshot_wanted = False
        self.batches: Sequence[Sequence[object]] = ()
        """The requests of the turn, so that what several of them need is looked up at once."""
        self.late: dict[int, list[Record]] | None = None
        """What the log holds of decisions that are not open and that the turn's rewards name: the
        decision and its reward; ``None`` before it was looked up."""
        self._turn = turn
        self._records: list[Record] = []

    def add(self, event: Event) -> int:
        """Apply an event and return its sequence number."""
        self.changes += 1
        record = link(self.state.head, encode(event), subject(event))
        self.state.apply(record, event)
        self._records.append(record)
        return record.sequence

    def advance(self, experiment: Experiment) -> None:
        """Settle what is due, as the event does that must follow: nothing is refused any more."""
        self.changes += 1
        experiment.advance(self.time)

    def flush(self) -> Turn:
        """Append to the log what was added so far, and return the turn."""
        if self._records:
            self._turn.append(self._records)
            self._records = []
        return self._turn

    def experiment(self, tenant: str, name: str) -> Experiment:
        """Return an experiment by its name, or refuse."""
        return self.state.find(tenant, name)

    def numbered(self, number: int) -> Experiment:
        """Return an experiment by its number, which must exist, or refuse."""
        return self.state.numbered(number)

    def settled(self, tenant: str, name: str) -> Experiment:
        """Return an experiment with all decisions settled whose window has closed by now."""
        experiment = self.state.find(tenant, name)
        if experiment.is_due(self.time):
            before = self.changes
            self.add(Ticked(self.time, experiment.number))
            self.changes = before  # that time has passed is kept, even if the request is refused
        return experiment

    def refolded(self, experiment: Experiment, rulings: Rulings) -> Refolded:
        """Return an experiment as if rulings had been known from the beginning."""
        return refold(self.flush(), experiment.number, rulings)

    def go_on_with(self, refolded: Refolded) -> None:
        """Replace an experiment, and forget the snapshots that the replacement contradicts."""
        turn = self.flush()
        # In the transaction of the ruling: a later snapshot has learned what no longer counts.
        turn.forget_snapshots([each for each in turn.snapshots() if each > refolded.base])
        self.state.replace(refolded.experiment)
        self.snapshot_wanted = True
