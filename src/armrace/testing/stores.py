"""The contract of stores, as checks of any store; see :mod:`armrace.service.log.store`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from armrace.errors import ArmraceError
from armrace.service.log.chain import BEGINNING, Chain, Head, LogRecord, head_of
from armrace.service.log.store import NO_LOGS, Store, Transaction
from armrace.testing.contract import ContractBroken

Opener = Callable[[], Store]
_THREADS, _TRANSACTIONS = 4, 10
_TENANT = "contract"


class _Interrupted(Exception):
    """Raised within a transaction, to see that nothing of it is kept."""


def check_store(open_store: Opener) -> None:
    """Check that a store does what the service relies on.

    Args:
        open_store: opens the store, which may hold logs already; the checks create their own. Each
            call must lead to the same store; what an earlier call returned has been closed by then.

    Raises:
        ContractBroken: the store breaks a rule; the message says which.
    """
    for check in STORE_CHECKS:
        check(open_store)


def _expect(kept: bool, breach: str) -> None:
    if not kept:
        raise ContractBroken(f"the store {breach}.")


@contextmanager
def _refused(breach: str) -> Iterator[None]:
    """Expect an error of armrace in the block."""
    try:
        yield
    except ArmraceError:
        return
    _expect(False, breach)


@contextmanager
def _opened(open_store: Opener) -> Iterator[Store]:
    store = open_store()
    try:
        yield store
    finally:
        store.close()


def _new_logs(store: Store, count: int = 1) -> list[int]:
    """Create logs with names that no log has."""
    with store.transaction(creates=True) as transaction:
        return [transaction.create_log(_TENANT, uuid.uuid4().hex) for _ in range(count)]


def _append(
    transaction: Transaction, log: int, payloads: Sequence[bytes], subject: int | None = None
) -> list[LogRecord]:
    """Append records to a log; the first of them carries the subject."""
    chain, head = Chain(b"", log), transaction.head(log)
    records = []
    for payload in payloads:
        records.append(chain.link(head, payload, subject))
        head, subject = head_of(records[-1]), None
    transaction.append(log, records)
    return records


def records_come_back(open_store: Opener) -> None:
    """Records come back in order, bit for bit, in the same transaction, later and reopened."""
    payloads = [b"", b"\x00\xff" * 3, bytes(range(256)) * 300]
    with _opened(open_store) as store:
        (log,) = _new_logs(store)
        with store.transaction({log: 0}) as transaction:
            _expect(transaction.head(log) == BEGINNING, "does not begin a log with number 1")
            added = _append(transaction, log, payloads[:1])
            added += _append(transaction, log, payloads[1:])
            _expect([*transaction.read(log)] == added, "does not show a transaction its own")
        for logs in ({}, {log: 0}, {log: 2}, {log: 3}):
            with store.transaction(logs) as transaction:
                _check_reading(transaction, log, added)
    with _opened(open_store) as store, store.transaction() as transaction:
        _expect([*transaction.read(log)] == added, "loses records when it is closed")


def _check_reading(transaction: Transaction, log: int, added: Sequence[LogRecord]) -> None:
    _expect([*transaction.read(log)] == added, "changes records")
    _expect(transaction.head(log) == head_of(added[-1]), "has a wrong head")
    _expect([*transaction.read(log, after=1)] == added[1:], "reads from a wrong place")
    _expect([*transaction.read(log, 2)] == added[2:], "reads from a wrong place")
    _expect([*transaction.read(log, 0, 2)] == added[:2], "reads more than is wanted")
    _expect([*transaction.read(log, 2, 9)] == added[2:], "reads too little")
    _expect(not [*transaction.read(log, 3)], "reads records after the last")
    many = [*transaction.read_many(log, [3, 1, 4, 0])]
    _expect(many == [added[0], added[2]], "does not read records by their numbers")
    _expect(not [*transaction.read_many(log, [])], "reads records that are not wanted")


def failed_transactions_leave_nothing(open_store: Opener) -> None:
    """Nothing of a transaction is kept that ends with an exception."""
    store = open_store()
    kept, deleted = _new_logs(store, 2)
    with store.transaction({kept: 0, deleted: 0}) as transaction:
        before = {log: _append(transaction, log, [b"a", b"b"], 7) for log in (kept, deleted)}
        transaction.save_snapshot(kept, 1, b"kept")
    with store.transaction() as transaction:
        directory = transaction.logs()
    try:
        with store.transaction({kept: 2, deleted: 2}, creates=True) as transaction:
            _append(transaction, kept, [b"lost"], subject=2**40)
            transaction.save_snapshot(kept, 1, b"lost")
            transaction.save_snapshot(kept, 3, b"lost")
            _append(transaction, transaction.create_log(_TENANT, "lost"), [b"lost"])
            transaction.delete_log(deleted)
            list(transaction.read(kept))  # so that nothing waits to be written
            raise _Interrupted
    except _Interrupted:
        pass
    for _ in range(2):
        with store.transaction({kept: 2, deleted: 2}) as transaction:
            for log, records in before.items():
                same = [*transaction.read(log)] == records
                _expect(same, "keeps changes to records of a transaction that failed")
                _expect(transaction.head(log) == head_of(records[-1]), "moves a head in vain")
                found = [*transaction.find_many(log, [7, 2**40])]
                _expect(found == records[:1], "finds records of a transaction that failed")
            same = transaction.snapshots(kept) == {1: 4}
            same = same and transaction.load_snapshot(kept, 1) == b"kept"
            _expect(same, "keeps snapshots of a transaction that failed")
            _expect(transaction.logs() == directory, "keeps logs of a transaction that failed")
        store.close()
        store = open_store()
    with store.transaction({kept: 2}) as transaction:
        _append(transaction, kept, [b"c"])
    store.close()


def only_what_follows_is_appended(open_store: Opener) -> None:
    """Records that do not follow the head are refused."""
    with _opened(open_store) as store:
        (log,) = _new_logs(store)
        with store.transaction({log: 0}) as transaction:
            _append(transaction, log, [b"a", b"b"])
            head = transaction.head(log)
        chain = Chain(b"", log)
        follows = chain.link(head, b"c")
        after_next = chain.link(head_of(follows), b"d")
        before = chain.link(Head(1, head.digest), b"again")
        for wrong in ([before], [after_next], [follows, follows]):
            with (
                _refused("appends records that do not follow the head of their log"),
                store.transaction({log: 2}) as transaction,
            ):
                transaction.append(log, wrong)
        with store.transaction() as transaction:
            _expect(transaction.head(log) == head, "keeps records that it has refused")


def only_opened_logs_are_written(open_store: Opener) -> None:
    """A transaction writes to no log that it was not opened with."""
    with _opened(open_store) as store:
        log, other = _new_logs(store, 2)
        absent = other + 1000
        writes: list[Callable[[Transaction, int], object]] = [
            lambda transaction, which: _append(transaction, which, [b"a"]),
            lambda transaction, which: transaction.save_snapshot(which, 0, b"a"),
            lambda transaction, which: transaction.forget_snapshots(which, [0]),
            lambda transaction, which: transaction.delete_log(which),
        ]
        opened: list[tuple[Mapping[int, int], int]]
        opened = [({log: 0}, other), (NO_LOGS, other), ({absent: 0}, absent)]
        for logs, which in opened:
            for write in writes:
                with (
                    _refused("writes to a log that the transaction was not opened with"),
                    store.transaction(logs) as transaction,
                ):
                    write(transaction, which)
        with (
            _refused("creates logs in a transaction that was not opened for that"),
            store.transaction({log: 0}) as transaction,
        ):
            transaction.create_log(_TENANT, uuid.uuid4().hex)


def subjects_are_found(open_store: Opener) -> None:
    """Records are found by their subject, of their log alone, in the same transaction and later."""
    subject = 2**50
    with _opened(open_store) as store:
        log, other = _new_logs(store, 2)
        with store.transaction({log: 0, other: 0}) as transaction:
            absent = [*transaction.find_many(log, [subject])]
            _expect(not absent, "finds a subject that is not there")
            first = _append(transaction, log, [b"first", b"between"], subject)
            same = _append(transaction, other, [b"of another log"], subject)
            second = _append(transaction, log, [b"second"], subject)
            both = [first[0], second[0]]
            found = [*transaction.find_many(log, [subject])]
            _expect(found == both, "does not find a subject of this transaction")
        with store.transaction() as transaction:
            found = [*transaction.find_many(log, [subject])]
            _expect(found == both, "does not find records by their subject, in order")
            found = [*transaction.find_many(other, [subject])]
            _expect(found == same, "does not keep subjects of two logs apart")
            later = [*transaction.find_many(log, [subject], after=1)]
            _expect(later == both[1:], "does not find records of a subject after a place")


def many_subjects_are_found(open_store: Opener) -> None:
    """Records of many subjects are found by one question, in order."""
    subjects = range(2**51, 2**51 + 2000)
    with _opened(open_store) as store:
        (log,) = _new_logs(store)
        with store.transaction({log: 0}) as transaction:
            wanted: list[LogRecord] = []
            for subject in reversed(subjects):
                wanted += _append(transaction, log, [b"found"], subject)
            _append(transaction, log, [b"not searched"], subjects[-1] + 1)
            found = [*transaction.find_many(log, subjects)]
            _expect(found == wanted, "does not find subjects of this transaction")
        with store.transaction({log: 0}) as transaction:
            found = [*transaction.find_many(log, [*subjects, subjects[-1] + 2, -1])]
            _expect(found == wanted, "does not find many subjects, in order")
            later = [*transaction.find_many(log, subjects, after=wanted[-3].sequence)]
            _expect(later == wanted[-2:], "does not find records of many subjects after a place")
            _expect(not [*transaction.find_many(log, [])], "finds records of no subject")


def snapshots_are_kept(open_store: Opener) -> None:
    """Snapshots come back bit for bit, of their log alone, and can be replaced and removed."""
    with _opened(open_store) as store:
        log, other = _new_logs(store, 2)
        with store.transaction({log: 0, other: 0}) as transaction:
            _append(transaction, log, [b"a", b"b"])
            transaction.save_snapshot(log, 2, b"later")
            transaction.save_snapshot(log, 1, bytes(range(256)))
            transaction.save_snapshot(log, 2, b"replaced")
            transaction.save_snapshot(other, 2, b"of another log")
    with _opened(open_store) as store:
        with store.transaction({log: 2, other: 0}) as transaction:
            listed = [*transaction.snapshots(log).items()]
            _expect(listed == [(1, 256), (2, 8)], "does not list snapshots in order, with sizes")
            _expect(transaction.load_snapshot(log, 2) == b"replaced", "does not replace a snapshot")
            _expect(transaction.load_snapshot(log, 1) == bytes(range(256)), "changes a snapshot")
            transaction.forget_snapshots(log, [1, 2, 3])
            transaction.forget_snapshots(other, [])
        with store.transaction() as transaction:
            _expect(transaction.snapshots(log) == {}, "does not remove snapshots")
            kept = transaction.snapshots(other) == {2: 14}
            kept = kept and transaction.load_snapshot(other, 2) == b"of another log"
            _expect(kept, "does not keep snapshots of two logs apart")


def logs_are_found(open_store: Opener) -> None:
    """Logs are listed and found by tenant and name, in the same transaction, later and reopened."""
    name, mine, theirs = uuid.uuid4().hex, uuid.uuid4().hex, uuid.uuid4().hex
    with _opened(open_store) as store:
        with store.transaction(creates=True) as transaction:
            log = transaction.create_log(mine, name)
            other = transaction.create_log(theirs, name)
            _expect(0 < log < other, "does not number logs in the order of their creation")
            _append(transaction, log, [b"a"])
            _expect(transaction.find_log(mine, name) == log, "does not find a log just created")
        with (
            _refused("creates two logs of one name"),
            store.transaction(creates=True) as transaction,
        ):
            transaction.create_log(mine, name)
    with _opened(open_store) as store, store.transaction() as transaction:
        _expect(transaction.find_log(mine, name) == log, "does not find a log by its name")
        _expect(transaction.find_log(theirs, name) == other, "does not keep tenants apart")
        _expect(transaction.find_log(mine, name + "x") is None, "finds a log that is not there")
        _expect([*transaction.logs(mine)] == [(log, mine, name, False)], "lists logs wrongly")
        numbers = [entry.log for entry in transaction.logs()]
        ordered = all(one < next_ for one, next_ in pairwise(numbers))
        _expect(ordered and {log, other} <= {*numbers}, "does not list all logs in order")


def deleted_logs_are_gone(open_store: Opener) -> None:
    """Of a deleted log the last record is left; its name is free, its number is not given again."""
    tenant = uuid.uuid4().hex
    with _opened(open_store) as store:
        with store.transaction(creates=True) as transaction:
            log, other = (transaction.create_log(tenant, name) for name in ("gone", "stays"))
            records = {each: _append(transaction, each, [b"a", b"b"], 7) for each in (log, other)}
            for each in (log, other):
                transaction.save_snapshot(each, 1, b"state")
        with store.transaction({log: 2}) as transaction:
            last = _append(transaction, log, [b"deleted"])
            transaction.delete_log(log)
            _check_deleted(transaction, log, last)
            with _refused("appends to a log that was deleted"):
                _append(transaction, log, [b"more"])
        with store.transaction({log: 2, other: 2}) as transaction:
            _check_deleted(transaction, log, last)
            with _refused("appends to a deleted log"):
                _append(transaction, log, [b"more"])
            same = [*transaction.read(other)] == records[other]
            same = same and transaction.snapshots(other) == {1: 5}
            _expect(same, "deletes something of another log")
            same = [*transaction.find_many(other, [7])] == records[other][:1]
            _expect(same, "does not find subjects of a log when another was deleted")
    with _opened(open_store) as store:
        for expected in (other, log):
            with store.transaction({other: 2}, creates=True) as transaction:
                _check_deleted(transaction, log, last)
                again = transaction.create_log(tenant, "gone")
                _expect(again > expected, "gives the number of a log again")
                _append(transaction, again, [b"a"])
                transaction.delete_log(again)
        with store.transaction() as transaction:
            flags = [(entry.name, entry.is_deleted) for entry in transaction.logs(tenant)]
            listed = [("gone", True), ("stays", False), ("gone", True), ("gone", True)]
            _expect(flags == listed, "does not list deleted logs")


def _check_deleted(transaction: Transaction, log: int, last: list[LogRecord]) -> None:
    _expect([*transaction.read(log)] == last, "keeps records of a deleted log, or loses its last")
    _expect(transaction.head(log) == head_of(last[0]), "forgets the head of a deleted log")
    _expect([*transaction.read_many(log, [1, 3])] == last, "reads records of a deleted log")
    _expect(not [*transaction.find_many(log, [7])], "finds records of a deleted log")
    _expect(not transaction.snapshots(log), "keeps snapshots of a deleted log")
    (entry,) = (each for each in transaction.logs() if each.log == log)
    _expect(entry.is_deleted, "does not list a log as deleted")
    found = transaction.find_log(entry.tenant, entry.name)
    _expect(found != log, "finds a deleted log by its name")


def many_logs_are_written_at_once(open_store: Opener) -> None:
    """One transaction appends to many logs, mixed, and all of them are numbered for themselves."""
    with _opened(open_store) as store:
        logs = _new_logs(store, min(store.most_logs or 200, 200))
        records: dict[int, list[LogRecord]] = {log: [] for log in logs}
        for count in range(3):
            with store.transaction(dict.fromkeys(reversed(logs), count)) as transaction:
                for log in logs:
                    head = transaction.head(log)
                    _expect(head.sequence == count, "has a wrong head in one of many logs")
                    records[log] += _append(transaction, log, [b"%d of %d" % (count, log)], count)
    with _opened(open_store) as store, store.transaction() as transaction:
        for log in logs:
            _expect([*transaction.read(log)] == records[log], "mixes up records of many logs")
            found = [*transaction.find_many(log, [1, 2], after=1)]
            _expect(found == records[log][1:], "mixes up subjects of many logs")


def _in_threads(works: Collection[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _expect(not failures, f"lets transactions of threads collide: {failures[:1]}")


def transactions_on_a_log_are_serial(open_store: Opener) -> None:
    """Each of several threads sees all that earlier transactions appended to the same log."""
    with _opened(open_store) as store:
        (log,) = _new_logs(store)

        def append() -> None:
            for _ in range(_TRANSACTIONS):
                with store.transaction({log: 0}) as transaction:
                    _append(transaction, log, [b"x", b"y"])

        _in_threads([append] * _THREADS)
        with store.transaction() as transaction:
            records = [*transaction.read(log)]
        numbers = [record.sequence for record in records]
        expected = [*range(1, 1 + 2 * _THREADS * _TRANSACTIONS)]
        _expect(numbers == expected, "lets transactions of threads overlap")
        Chain(b"", log).verify(BEGINNING, records)


def two_logs_are_written_by_two_threads(open_store: Opener) -> None:
    """Threads with logs of their own, and one that both share, do not disturb each other."""
    with _opened(open_store) as store:
        one, other, shared = _new_logs(store, 3)

        def append(log: int) -> None:
            for count in range(_TRANSACTIONS):
                logs = {log: count, shared: 0} if count % 2 else {log: count}
                with store.transaction(logs) as transaction:
                    for each in logs:
                        _append(transaction, each, [b"%d" % log])

        _in_threads([lambda: append(one), lambda: append(other)])
        with store.transaction() as transaction:
            for log in (one, other):
                payloads = [record.payload for record in transaction.read(log)]
                _expect(payloads == [b"%d" % log] * _TRANSACTIONS, "mixes up logs of two threads")
            _expect(transaction.head(shared).sequence == _TRANSACTIONS, "loses what threads append")
            Chain(b"", shared).verify(BEGINNING, transaction.read(shared))


STORE_CHECKS: tuple[Callable[[Opener], None], ...] = (
    records_come_back,
    failed_transactions_leave_nothing,
    only_what_follows_is_appended,
    only_opened_logs_are_written,
    subjects_are_found,
    many_subjects_are_found,
    snapshots_are_kept,
    logs_are_found,
    deleted_logs_are_gone,
    many_logs_are_written_at_once,
    transactions_on_a_log_are_serial,
    two_logs_are_written_by_two_threads,
)
"""The checks; each takes what opens the store."""
