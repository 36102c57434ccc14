"""The check of a whole store: its log, its snapshots, and the state that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from armrace.errors import DamagedFile
from armrace.service.chain import BEGINNING, Head, Record, verify
from armrace.service.events import RULINGS, rulings_in
from armrace.service.folding import (
    check_subjects,
    contradicts,
    fold_records,
    in_parts,
    load_state,
    shortened,
)
from armrace.service.log_parts import PART
from armrace.service.state import State
from armrace.service.stores.base import Store, Turn

__all__ = ["StoreReport", "check_store_content"]


class StoreReport(msgspec.Struct, frozen=True):
    """What an intact store holds."""

    records: int
    experiments: int
    decisions: int
    open_decisions: int
    snapshots: int
    """The snapshots that were compared with the log; those of an older schema are not."""


def check_store_content(
    store: Store, note: Callable[[float], None] = lambda share: None
) -> StoreReport:
    """Check all that a store holds, and change nothing.

    The digests that chain the records, what records are found by, the store's own structures, that
    each snapshot is the fold of the log up to it, and that the state a server starts with, from the
    latest snapshot on, is the fold of the whole log.

    Args:
        store: the store, opened to be read only.
        note: is told the share of the work that is done.

    Raises:
        DamagedFile: something is damaged; the sentence says what.
    """
    store.check()
    with store.turn() as turn:
        return _Check(turn, store.is_current, note).perform()


class _Check:
    def __init__(self, turn: Turn, compares: bool, note: Callable[[float], None]) -> None:
        self._turn = turn
        self._end = turn.head
        self._head = BEGINNING
        self._snapshots = turn.snapshots() if compares else []
        self._rulings = list(turn.find(RULINGS))
        # With rulings, the log is folded twice: as it was at each snapshot, and as it is now.
        self._work = self._end.sequence * (2 if self._rulings else 1)
        self._done = 0
        self._note = note

    def perform(self) -> StoreReport:
        state = State()
        found: list[int] = []
        for last in [*self._snapshots, self._end.sequence]:
            if last > self._end.sequence:
                raise shortened(self._end, last)
            rulings = rulings_in(self._ruled(state.head.sequence, last))
            if contradicts(state, rulings):
                raise DamagedFile(
                    f"the snapshot after record {state.head.sequence} has learned rewards that a "
                    "later record rules out."
                )
            fold_records(state, self._read(state.head.sequence, last, found), rulings)
            if last in self._snapshots and self._turn.load_snapshot(last) != state.save():
                raise DamagedFile(
                    f"the snapshot after record {last} is not the fold of the log up to it."
                )
        if state.head != self._end:
            raise shortened(self._end, state.head.sequence + 1)
        if found != [record.sequence for record in self._rulings]:
            raise DamagedFile("the log is damaged: not all rulings are found by their subject.")
        self._check_state(state)
        return StoreReport(
            self._end.sequence,
            len(state.experiments),
            sum(each.decisions for each in state.experiments),
            state.open_decisions(),
            len(self._snapshots),
        )

    def _ruled(self, after: int, last: int) -> list[Record]:
        return [record for record in self._rulings if after < record.sequence <= last]

    def _read(self, after: int, last: int, rulings: list[int] | None) -> Iterator[Record]:
        """Yield records; note which of them are rulings, after their subjects were checked."""
        records = self._turn.read(after, last - after)
        for part in in_parts(records, PART):
            if rulings is not None:
                verify(self._head, part)  # before anything else is read from the records
                self._head = Head(part[-1].sequence, part[-1].digest)
                check_subjects(part)
                rulings += [record.sequence for record in part if record.subject == RULINGS]
            yield from part
            self._done += len(part)
            self._note(self._done / max(1, self._work))

    def _check_state(self, state: State) -> None:
        """Compare the state of a start, and the fold of the whole log, with a state."""
        if self._rulings:
            whole = State()
            records = self._read(0, self._end.sequence, None)
            fold_records(whole, records, rulings_in(self._rulings))
            if whole.save() != state.save():
                raise DamagedFile("the log folded as a whole is not the log folded in parts.")
        if self._snapshots and load_state(self._turn).save() != state.save():
            raise DamagedFile("the state from the latest snapshot on is not the fold of the log.")
