"""The contract of stores, as checks of any store; see :mod:`armrace.service.stores.base`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from armrace.checking.contract import ContractBroken
from armrace.errors import InvalidParameter
from armrace.service.chain import Head, Record, link
from armrace.service.stores.base import Store

__all__ = ["STORE_CHECKS", "check_store"]

Opener = Callable[[], Store]
_THREADS, _TURNS = 4, 10


class _Interrupted(Exception):
    """Raised within a turn, to see that nothing of it is kept."""


def check_store(open_store: Opener) -> None:
    """Check that a store does what the service relies on.

    Args:
        open_store: opens the store, which may hold records already. Each call must lead to the same
            log; what an earlier call returned has been closed by then.

    Raises:
        ContractBroken: the store breaks a rule; the message says which.
    """
    for check in STORE_CHECKS:
        check(open_store)


def _expect(kept: bool, breach: str) -> None:
    if not kept:
        raise ContractBroken(f"the store {breach}.")


def _records(head: Head, payloads: Sequence[bytes], subject: int | None = None) -> list[Record]:
    """Return records that continue a log; the first of them carries the subject."""
    records = []
    for payload in payloads:
        record = link(head, payload, subject)
        records.append(record)
        head, subject = Head(record.sequence, record.digest), None
    return records


def records_come_back(open_store: Opener) -> None:
    """Records come back in order, bit for bit, in the same turn, in later ones and reopened."""
    payloads = [b"", b"\x00\xff" * 3, bytes(range(256)) * 300]
    store = open_store()
    with store.turn() as turn:
        start = turn.head
        added = _records(start, payloads)
        turn.append(added[:1])
        turn.append(added[1:])
        _expect(list(turn.read(after=start.sequence)) == added, "does not show a turn its own")
    with store.turn() as turn:
        _expect(list(turn.read(after=start.sequence)) == added, "changes records")
        _expect(turn.head == Head(added[-1].sequence, added[-1].digest), "has a wrong head")
        _expect(len(list(turn.read(after=start.sequence + 1))) == 2, "reads from a wrong place")
        _expect([*turn.read(start.sequence, 2)] == added[:2], "reads more than is wanted")
        _expect([*turn.read(added[1].sequence, 9)] == added[2:], "reads too little")
        numbers = [added[2].sequence, added[0].sequence, added[2].sequence + 1, 0]
        _expect([*turn.read_many(numbers)] == added[::2], "does not read records by their numbers")
        _expect(not [*turn.read_many([])], "reads records that are not wanted")
        _expect(len(list(turn.read())) == turn.head.sequence, "does not number without gaps")
    store.close()
    store = open_store()
    with store.turn() as turn:
        _expect(list(turn.read(after=start.sequence)) == added, "loses records when it is closed")
    store.close()


def failed_turns_leave_nothing(open_store: Opener) -> None:
    """Nothing of a turn is kept that ends with an exception."""
    store = open_store()
    with store.turn() as turn:
        before = turn.head
        kept = turn.snapshots()
    try:
        with store.turn() as turn:
            turn.append(_records(before, [b"lost"], subject=2**40))
            turn.save_snapshot(before.sequence + 1, b"lost")
            raise _Interrupted
    except _Interrupted:
        pass
    for _ in range(2):
        with store.turn() as turn:
            same = turn.head == before and not list(turn.read(after=before.sequence))
            _expect(same, "keeps records of a turn that failed")
            _expect(not [*turn.find(2**40)], "finds records of a turn that failed")
            _expect(turn.snapshots() == kept, "keeps snapshots of a turn that failed")
        store.close()
        store = open_store()
    store.close()


def only_what_follows_is_appended(open_store: Opener) -> None:
    """Records that do not follow the head are refused."""
    store = open_store()
    with store.turn() as turn:
        head = turn.head
    for step in (-1, 1):
        wrong = link(Head(head.sequence + step, head.digest), b"wrong")
        try:
            with store.turn() as turn:
                turn.append([wrong])
        except InvalidParameter:
            continue
        _expect(False, "appends records that do not follow its head")
    store.close()


def subjects_are_found(open_store: Opener) -> None:
    """Records are found by their subject, in the turn that appends them and later."""
    store = open_store()
    subject = 2**50
    with store.turn() as turn:
        _expect(not [*turn.find(subject)], "finds a subject that is not there")
        first = _records(turn.head, [b"first", b"between"], subject)
        turn.append(first)
        second = _records(turn.head, [b"second"], subject)
        turn.append(second)
        both = [first[0], second[0]]
        _expect([*turn.find(subject)] == both, "does not find a subject of this turn")
    with store.turn() as turn:
        _expect([*turn.find(subject)] == both, "does not find records by their subject, in order")
        later = [*turn.find(subject, after=both[0].sequence)]
        _expect(later == both[1:], "does not find records of a subject after a place")
    store.close()


def many_subjects_are_found(open_store: Opener) -> None:
    """Records of many subjects are found by one question, in order."""
    store = open_store()
    subjects = range(2**51, 2**51 + 2000)
    with store.turn() as turn:
        wanted: list[Record] = []
        for subject in reversed(subjects):
            wanted += _records(turn.head, [b"found"], subject)
            turn.append(wanted[-1:])
        turn.append(_records(turn.head, [b"not searched"], subjects[-1] + 1))
        _expect([*turn.find_many(subjects)] == wanted, "does not find subjects of this turn")
    with store.turn() as turn:
        absent = [*subjects, subjects[-1] + 2, -1]
        _expect([*turn.find_many(absent)] == wanted, "does not find many subjects, in order")
        later = [*turn.find_many(subjects, after=wanted[-3].sequence)]
        _expect(later == wanted[-2:], "does not find records of many subjects after a place")
        _expect(not [*turn.find_many([])], "finds records of no subject")
    store.close()


def snapshots_are_kept(open_store: Opener) -> None:
    """Snapshots come back bit for bit, in order, and can be replaced and removed."""
    store = open_store()
    with store.turn() as turn:
        turn.forget_snapshots(turn.snapshots())
        turn.append(_records(turn.head, [b"a", b"b"]))
        last = turn.head.sequence
        turn.save_snapshot(last, b"later")
        turn.save_snapshot(last - 1, bytes(range(256)))
        turn.save_snapshot(last, b"replaced")
    store.close()
    store = open_store()
    with store.turn() as turn:
        _expect(turn.snapshots() == [last - 1, last], "does not list snapshots in order")
        _expect(turn.load_snapshot(last) == b"replaced", "does not replace a snapshot")
        _expect(turn.load_snapshot(last - 1) == bytes(range(256)), "changes a snapshot")
        turn.forget_snapshots([last - 1, last])
    with store.turn() as turn:
        _expect(turn.snapshots() == [], "does not remove snapshots")
    store.close()


def turns_exclude_one_another(open_store: Opener) -> None:
    """Turns of several threads are serial: each sees all that earlier ones appended."""
    store = open_store()
    failures: list[BaseException] = []

    def append() -> None:
        try:
            for _ in range(_TURNS):
                with store.turn() as turn:
                    turn.append(_records(turn.head, [b"x", b"y"]))
        except BaseException as error:
            failures.append(error)

    with store.turn() as turn:
        before = turn.head.sequence
    threads = [threading.Thread(target=append) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _expect(not failures, f"lets turns of threads collide: {failures[:1]}")
    with store.turn() as turn:
        numbers = [record.sequence for record in turn.read(after=before)]
    expected = range(before + 1, before + 1 + 2 * _THREADS * _TURNS)
    _expect(numbers == list(expected), "lets turns of threads overlap")
    store.close()


STORE_CHECKS: tuple[Callable[[Opener], None], ...] = (
    records_come_back,
    failed_turns_leave_nothing,
    only_what_follows_is_appended,
    subjects_are_found,
    many_subjects_are_found,
    snapshots_are_kept,
    turns_exclude_one_another,
)
"""The checks; each takes what opens the store."""
