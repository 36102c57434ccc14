"""Every store fulfils the contract, and stores that break it are found out."""

import itertools
import time
from contextlib import contextmanager

import pytest

from armrace.service.log.chain import BEGINNING, head_of
from armrace.service.log.memory import MemoryStore, _MemoryTransaction
from armrace.service.log.postgres import PostgresStore
from armrace.service.log.sqlite import SqliteStore
from armrace.testing.contract import ContractBroken
from armrace.testing.stores import STORE_CHECKS, check_store

_numbers = itertools.count()
each_check = pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)


@each_check
@pytest.mark.parametrize("kind", ["memory", "file", "database"])
def test_every_store_fulfils_the_contract(kind, check, tmp_path, request):
    store, schema = MemoryStore(), f"contract{next(_numbers)}"
    place = request.getfixturevalue("postgres").place if kind == "database" else ""
    openers = {
        "memory": lambda: store,
        "file": lambda: SqliteStore(tmp_path / "log.db"),
        "database": lambda: PostgresStore(place, schema),
    }
    check(openers[kind])


def test_the_whole_suite_twice_on_one_store(tmp_path, postgres):
    for _ in range(2):
        check_store(lambda: SqliteStore(tmp_path / "log.db"))
        check_store(lambda: PostgresStore(postgres.place, "whole"))


class Changed(MemoryStore):
    """A store whose transactions are changed by a subclass."""

    @contextmanager
    def transaction(self, logs=(), *, creates=False):
        with super().transaction(logs, creates=creates) as transaction:
            self.change(transaction)
            yield transaction


class KeepsFailedTransactions(Changed):
    def change(self, transaction):
        transaction.roll_back = lambda: None


class AppendsAnything(Changed):
    def change(self, transaction):
        def append(log, records):
            transaction._append(log, records)
            transaction.heads[log] = head_of(records[-1])

        transaction.append = append


class WritesAnywhere(Changed):
    def change(self, transaction):
        transaction._check_open = lambda log: transaction.heads.setdefault(
            log, transaction._read_head(log)
        )


class FindsBackwards(Changed):
    def change(self, transaction):
        transaction.find_many = lambda log, subjects, after=0: iter(
            [each for each in [*transaction.read(log)][::-1] if each.subject in subjects]
        )


class FindsOne(Changed):
    def change(self, transaction):
        find = transaction.find_many
        transaction.find_many = lambda log, subjects, after=0: find(log, [*subjects][:1], after)


class FindsInAllLogs(Changed):
    def change(self, transaction):
        find = transaction.find_many
        transaction.find_many = lambda log, subjects, after=0: itertools.chain.from_iterable(
            find(each.log, subjects, after) for each in transaction.logs()
        )


class ReadsEverything(Changed):
    def change(self, transaction):
        read = transaction.read
        transaction.read = lambda log, after=0, most=None: read(log, after)


class ForgetsWhenClosed(MemoryStore):
    def close(self):
        for log in self._logs.values():
            log.records.clear()


class KeepsSnapshots(Changed):
    def change(self, transaction):
        transaction._forget = lambda log, sequences: None


class KeepsDeletedRecords(Changed):
    def change(self, transaction):
        def delete(log, head):
            records = transaction._logs[log].records
            _MemoryTransaction._delete(transaction, log, head)
            transaction._logs[log].records = records

        transaction._delete = delete


class ListsWithoutDeleted(Changed):
    def change(self, transaction):
        logs = transaction.logs
        transaction.logs = lambda tenant=None: [
            each for each in logs(tenant) if not each.is_deleted
        ]


class GivesNumbersAgain(Changed):
    def change(self, transaction):
        create = transaction._create

        def create_again(tenant, name):
            for log, kept in [*transaction._logs.items()]:
                if kept.entry.is_deleted:
                    del transaction._logs[log]
            return create(tenant, name)

        transaction._create = create_again


class OneNameTwice(Changed):
    def change(self, transaction):
        def create(tenant, name):
            log = transaction._create(tenant, name)
            transaction.heads[log] = BEGINNING
            return log

        transaction.create_log = create


class TransactionsTogether(MemoryStore):
    @contextmanager
    def transaction(self, logs=(), *, creates=False):
        transaction = _MemoryTransaction(self._logs, logs, creates)
        late = []
        transaction._append = lambda log, records: late.append((log, records))
        yield transaction
        time.sleep(0.001)
        for log, records in late:
            _MemoryTransaction._append(transaction, log, records)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (KeepsFailedTransactions, "keeps changes to records of a transaction that failed"),
        (AppendsAnything, "appends records that do not follow the head"),
        (WritesAnywhere, "writes to a log that the transaction was not opened with"),
        (FindsBackwards, "does not find a subject"),
        (FindsOne, "finds records of a transaction that failed|subjects of this transaction"),
        (FindsInAllLogs, "finds records of a transaction that failed|subjects of two logs apart"),
        (ReadsEverything, "reads more than is wanted"),
        (ForgetsWhenClosed, "loses records when it is closed"),
        (KeepsSnapshots, "does not remove snapshots"),
        (KeepsDeletedRecords, "keeps records of a deleted log"),
    ],
)
def test_a_broken_store_is_found_out(kind, sentence):
    store = kind()
    with pytest.raises(ContractBroken, match=sentence):
        check_store(lambda: store)


@pytest.mark.parametrize("kind", [ListsWithoutDeleted, GivesNumbersAgain])
def test_a_store_that_forgets_deleted_logs_is_found_out(kind):
    store = kind()
    with pytest.raises((ContractBroken, KeyError, ValueError)):
        check_store(lambda: store)


def test_transactions_that_overlap_are_found_out():
    store = TransactionsTogether()
    (check,) = [each for each in STORE_CHECKS if each.__name__.endswith("on_a_log_are_serial")]
    with pytest.raises(ContractBroken, match="lets transactions of threads"):
        check(lambda: store)


def test_two_logs_of_one_name_are_found_out():
    store = OneNameTwice()
    (check,) = [each for each in STORE_CHECKS if each.__name__ == "logs_are_found"]
    with pytest.raises(ContractBroken, match="creates two logs of one name"):
        check(lambda: store)
