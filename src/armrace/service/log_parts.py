"""Reading a long log beside the turns that serve others: each part in a turn of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from armrace.service.aside import uncollected
from armrace.service.books import Books
from armrace.service.chain import BEGINNING, Head, Record, verify
from armrace.service.folding import check_subjects, shortened
from armrace.service.ledger import Ledger
from armrace.service.stores.base import Store

__all__ = ["PART", "FindEnd", "ReadPart", "back_up_log", "read_log", "verify_log"]

PART = 20_000
"""How many records are read in one turn."""


class ReadPart(msgspec.Struct, frozen=True):
    """Return some records of the log."""

    after: int

    def perform(self, books: Books) -> list[Record]:
        """Return the records that follow, at most ``PART`` of them."""
        with uncollected():
            return list(books.flush().read(self.after, PART))


class FindEnd(msgspec.Struct, frozen=True):
    """Return the end of the log."""

    def perform(self, books: Books) -> Head:
        """Return the head."""
        return books.flush().head


def read_log(ledger: Ledger, end: int) -> Iterator[list[Record]]:
    """Yield the log from its beginning, in parts that were checked against the chain.

    Args:
        ledger: performs the turns.
        end: the last record that is wanted.

    Raises:
        DamagedFile: a record is missing or was changed; the service stops.
    """
    head = BEGINNING
    while head.sequence < end:
        # What was appended since is not wanted: the caller sees the log of one moment.
        part = ledger.ask(ReadPart(head.sequence))[: end - head.sequence]
        with ledger.stopped_by_damage():
            if not part:
                raise shortened(head, end)
            verify(head, part)
        yield part
        head = Head(part[-1].sequence, part[-1].digest)


def verify_log(ledger: Ledger) -> int:
    """Check every record of the log, and what the store keeps beside; return their number.

    Args:
        ledger: performs the turns in which the log is read.

    Raises:
        DamagedFile: something is damaged; the service stops.
    """
    end = ledger.ask(FindEnd()).sequence
    with ledger.stopped_by_damage():
        ledger.store.check()
    for part in read_log(ledger, end):
        with ledger.stopped_by_damage():
            check_subjects(part)
    return end


def back_up_log(ledger: Ledger, target: Path | str) -> None:
    """Write a copy of the log into a new file, after it was verified.

    Args:
        ledger: performs the turns in which the log is verified.
        target: the file, which must not exist.
    """
    store = ledger.store
    if type(store).back_up is not Store.back_up:  # otherwise it is refused, and need not wait
        verify_log(ledger)
    store.back_up(target)
