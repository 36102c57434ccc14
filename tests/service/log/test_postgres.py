"""The shared store: several processes, one database, and a database that goes away."""

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import psycopg
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service import Keyring
from armrace.service.log import postgres as postgres_module
from armrace.service.log.chain import BEGINNING, Chain
from armrace.service.log.postgres import PostgresStore
from log_filling import append, create, payloads
from processes import started
from serving import records

_numbers = itertools.count()


@pytest.fixture
def schema():
    return f"logs{next(_numbers)}"


@pytest.fixture
def store(postgres, schema):
    store = PostgresStore(postgres.place, schema)
    yield store
    store.close()


def execute(place, statement):
    with psycopg.connect(place, autocommit=True) as connection:
        return connection.execute(statement).rowcount


def check_chains(store):
    """Verify all logs; return their lengths."""
    with store.transaction() as transaction:
        logs = [entry.log for entry in transaction.logs()]
        for log in logs:
            Chain(b"", log).verify(BEGINNING, transaction.read(log))
        return {log: transaction.head(log).sequence for log in logs}


WRITER = """
import random, sys, time
from armrace.service.log.chain import Chain, BEGINNING, head_of
from armrace.service.log.postgres import PostgresStore
place, schema, seed, count, logs = sys.argv[1:4] + list(map(int, sys.argv[4:6]))
store, rng = PostgresStore(place, schema), random.Random(seed)
heads = dict.fromkeys(range(1, logs + 1), BEGINNING)
while count:
    count -= 1
    chosen = rng.sample(range(1, logs + 1), rng.randrange(1, logs))
    with store.transaction({log: heads[log].sequence for log in chosen}) as transaction:
        for log in chosen:
            chain = Chain(b"", log)
            news = list(transaction.read(log, heads[log].sequence))
            chain.verify(heads[log], news)
            if news:
                heads[log] = head_of(news[-1])
            assert heads[log] == transaction.head(log)
            record = chain.link(heads[log], seed.encode())
            transaction.append(log, [record])
            heads[log] = head_of(record)
    print(*chosen, flush=True)
"""


def test_processes_share_logs_without_deadlocks(postgres, schema, store):
    """Each on sets of logs of its own choice, in any order; each verifies what others append."""
    create(store, *"abcdef")
    scripts = [
        [sys.executable, "-c", WRITER, postgres.place, schema, str(seed), "150", "6"]
        for seed in range(3)
    ]
    nodes = [subprocess.Popen(script, stdout=subprocess.PIPE, text=True) for script in scripts]
    said = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0, 0]
    assert check_chains(store) == Counter(int(log) for each in said for log in each.split())


def test_a_process_that_is_killed_loses_nothing_acknowledged(postgres, schema, store):
    create(store, *"abc")
    script = [sys.executable, "-c", WRITER, postgres.place, schema]
    nodes = [
        subprocess.Popen([*script, str(seed), "-1", "3"], stdout=subprocess.PIPE, text=True)
        for seed in range(2)
    ]
    lines = [[node.stdout.readline() for _ in range(20)] for node in nodes]
    for node in nodes:
        node.kill()
    rest = [node.communicate()[0].splitlines(keepends=True) for node in nodes]
    whole = [line for each in (*lines, *rest) for line in each if line.endswith("\n")]
    acknowledged = Counter(int(log) for line in whole for log in line.split())
    lengths = check_chains(store)
    assert all(lengths[log] >= acknowledged[log] for log in lengths)
    assert len(whole) >= 40


def test_what_was_acknowledged_survives_a_crash_of_the_database(postgres, store):
    log, other = create(store, "a", "b")
    for count in range(20):
        with store.transaction({log: count, other: count}) as transaction:
            append(transaction, log, b"%d" % count)
            append(transaction, other, b"%d" % count)
        if count % 5 == 4:
            postgres.stop()
            postgres.start()
            with pytest.raises(StoreFailed), store.transaction({log: 0}):
                pass
            assert check_chains(store) == {log: count + 1, other: count + 1}


def test_a_transaction_waits_for_the_disk_where_answers_rest_on_it(postgres, schema, store):
    """Also if it appends nothing, when another process has or what was seen is in doubt."""
    other = PostgresStore(postgres.place, schema)
    (log,) = create(store, "a")
    waited = []

    def look(known, of=store):
        with of.transaction({log: known}) as transaction:
            pass
        waited.append(transaction._changed)

    look(0, other)  # the first transaction of a process
    look(0, other)
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"a")
    look(0, other)
    look(1, other)
    with pytest.raises(ZeroDivisionError), other.transaction({log: 1}):
        _ = 1 / 0
    look(1, other)
    other._idle[0].close()
    with pytest.raises(StoreFailed), other.transaction({log: 1}):
        pass
    look(1, other)
    look(1, other)
    assert waited == [True, False, True, False, False, True, False]
    other.close()


def test_a_database_that_comes_back_is_used_again(postgres, store):
    (log,) = create(store, "a")
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"before")
    postgres.stop()
    try:
        for _ in range(2):
            with (
                pytest.raises(StoreFailed, match="the database cannot be used"),
                store.transaction({log: 1}) as transaction,
            ):
                append(transaction, log, b"never")
    finally:
        postgres.start()
    with store.transaction({log: 1}) as transaction:
        append(transaction, log, b"after")
    assert payloads(store, log) == [b"before", b"after"]


def test_transactions_of_threads_wait_for_their_own_logs_alone(store):
    log, other = create(store, "a", "b")
    free, done = threading.Event(), []

    def hold():
        with store.transaction({log: 0}) as transaction:
            append(transaction, log, b"first")
            free.wait(20)
            done.append("holder")

    def follow():
        with store.transaction({log: 0}) as transaction:
            append(transaction, log, b"second")
        done.append("follower")

    threads = [threading.Thread(target=hold)]
    threads[0].start()
    time.sleep(0.2)
    threads.append(threading.Thread(target=follow))
    threads[1].start()
    for _ in range(3):
        with store.transaction({other: 0}, creates=True) as transaction:
            append(transaction, other, b"other")
    assert payloads(store, log) == []  # who reads does not wait
    free.set()
    for thread in threads:
        thread.join()
    assert done == ["holder", "follower"]
    assert payloads(store, log) == [b"first", b"second"]
    assert payloads(store, other) == [b"other"] * 3


def test_what_is_new_comes_with_the_lock_or_is_read_when_it_is_wanted(store, monkeypatch):
    log, other = create(store, "a", "b")
    with store.transaction({log: 0, other: 0}) as transaction:
        append(transaction, log, *(b"%d" % count for count in range(5003)))
        append(transaction, other, b"x", b"y")
    monkeypatch.setattr(postgres_module._PostgresTransaction, "_execute", lambda *more: None)
    with store.transaction({log: 4, other: 1}) as transaction:
        assert len([*transaction.read(log, 4)]) == 4999
        assert [each.payload for each in transaction.read(other, 1)] == [b"y"]
    monkeypatch.undo()
    with store.transaction({log: 2, other: 0}) as transaction:
        assert log not in transaction._news
        logs = [transaction.read(log, 2), transaction.read(other), transaction.read(log)]
        found = [[*each] for each in zip(*logs, strict=False)]  # two cursors at once
        assert [[each.payload for each in row] for row in found] == [
            [b"2", b"x", b"0"], [b"3", b"y", b"1"],
        ]  # fmt: skip
        assert len([*transaction.read(log)]) == 5003
        assert len([*transaction.read(log, 0, 5001)]) == 5001


def test_subjects_are_found_with_their_index(postgres, schema, store):
    """In a log of many records, with and without statistics, at first and prepared."""
    queries = []
    with store.transaction() as transaction:
        transaction._execute = lambda query, values: queries.append(query) or ()
        transaction.find_many(1, [7, 8], 5)
    query = "EXPLAIN " + queries[0].replace("?", "%s")
    (log,) = create(store, "a")
    execute(
        postgres.place,
        f"INSERT INTO {schema}.records SELECT {log}, number, '', '', number / 2 "
        "FROM generate_series(1, 100000) AS number",
    )
    for _ in range(2):
        with psycopg.connect(postgres.place, autocommit=True) as connection:
            for mode in ("force_custom_plan", "force_generic_plan"):
                connection.execute(f"SET plan_cache_mode = {mode}")
                connection.execute(f"SET search_path = {schema}")
                connection.prepare_threshold = 0
                plan = connection.execute(query, (log, "{7,8}", 5)).fetchall()
                assert any(" subjects " in line for (line,) in plan), plan
                assert not any("records_pkey" in line for (line,) in plan), plan
        with store.transaction() as transaction:
            found = [record.sequence for record in transaction.find_many(log, [8, 7], 14)]
        assert found == [15, 16, 17]
        execute(postgres.place, f"ANALYZE {schema}.records")


def test_a_transaction_has_a_bound_of_logs(store):
    logs = create(store, *map(str, range(65)))
    with (
        pytest.raises(InvalidParameter, match="at most 64 logs; got 65"),
        store.transaction(dict.fromkeys(logs, 0)),
    ):
        pass


def test_the_database_refuses_a_record_twice(store):
    """The second line, should a lock fail."""
    (log,) = create(store, "a")

    def append_twice():
        with store.transaction({log: 0}) as transaction:
            append(transaction, log, b"one")
            transaction.heads[log] = BEGINNING
            append(transaction, log, b"two")

    with pytest.raises(StoreFailed, match="duplicate key"):
        append_twice()
    assert payloads(store, log) == []


def test_a_long_log_is_deleted_in_parts(store, monkeypatch):
    monkeypatch.setattr("armrace.service.log.store._DELETED_AT_ONCE", 7)
    for length in (1, 7, 8, 9, 30):
        (log,) = create(store, "a")
        with store.transaction({log: 0}) as transaction:
            append(transaction, log, *[b"x"] * length)
            transaction.delete_log(log)
        assert payloads(store, log) == [b"x"]


def test_a_reader_takes_no_lock_and_changes_nothing(postgres, schema, store):
    with pytest.raises(InvalidParameter, match="holds no store"):
        PostgresStore(postgres.place, "absent", read_only=True)
    (log,) = create(store, "a")
    reader = PostgresStore(postgres.place, schema, read_only=True)
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"first")
        with reader.transaction({log: 0}, creates=True) as reading:
            assert not [*reading.read(log)]
            with pytest.raises(InvalidParameter, match="cannot write to log"):
                append(reading, log, b"never")
            with pytest.raises(InvalidParameter, match="not opened to create"):
                reading.create_log("tenant", "never")
    with reader.transaction({log: 0}) as reading:
        assert len([*reading.read(log)]) == 1
        with store.transaction({log: 1}) as transaction:
            append(transaction, log, b"second")
        assert reading.head(log).sequence == 1
    assert payloads(reader, log) == [b"first", b"second"]
    reader.close()


def test_what_cannot_be_used_is_refused(postgres, schema, store):
    with pytest.raises(StoreFailed, match="the database cannot be used"):
        PostgresStore(f"postgresql://armrace@/nowhere?host={postgres.folder}", schema)
    with pytest.raises(InvalidParameter, match="must be a plain name"):
        PostgresStore(postgres.place, "x; DROP")
    execute(postgres.place, f"UPDATE {schema}.version SET version = 99")
    with pytest.raises(DamagedFile, match="has the schema 99; this version reads 10"):
        PostgresStore(postgres.place, schema)


def test_tables_with_one_log_for_all_are_refused_and_left(postgres):
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA earlier")
        connection.execute("CREATE TABLE earlier.version AS SELECT 4 AS version")
        connection.execute("CREATE TABLE earlier.records (sequence bigint PRIMARY KEY)")
        for read_only in (False, True):
            with pytest.raises(DamagedFile, match="armrace upgrade OLD NEW"):
                PostgresStore(postgres.place, "earlier", read_only=read_only)
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'earlier'"
        assert connection.execute(tables).fetchone() == (2,)


def test_stores_are_created_by_several_threads_at_once(postgres, schema):
    failures = []

    def open_one():
        try:
            PostgresStore(postgres.place, schema).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_schemas_of_one_database_do_not_wait_for_each_other(postgres, store):
    (log,) = create(store, "a")
    other = PostgresStore(postgres.place, "another")
    if not payloads(other, log):
        create(other, "a")
    with (
        store.transaction({log: 0}, creates=True) as transaction,
        other.transaction({log: 0}, creates=True) as elsewhere,
    ):
        append(transaction, log, b"here")
        append(elsewhere, log, b"there")
    assert payloads(store, log) == [b"here"]
    assert payloads(other, log) == [b"there"]
    other.close()


def test_a_dump_is_a_backup(postgres, schema, store):
    """As the guide says: pg_dump of the schema, and psql into another database."""
    (log,) = create(store, "a")
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, bytes(range(256)), b"")
    address = ["-h", str(postgres.folder), "-U", "armrace"]
    dump = subprocess.run(
        [postgres.bin / "pg_dump", *address, "-n", schema, "postgres"],
        check=True,
        capture_output=True,
    ).stdout
    subprocess.run([postgres.bin / "createdb", *address, schema], check=True)
    subprocess.run(
        [postgres.bin / "psql", *address, "-q", schema], input=dump, check=True, capture_output=True
    )
    restored = PostgresStore(postgres.place.replace("/postgres?", f"/{schema}?"), schema)
    assert payloads(restored, log) == [bytes(range(256)), b""]
    assert check_chains(restored) == {log: 2}
    restored.close()


@pytest.mark.parametrize("place", [
    "postgresql://me:geheim@[::1/x", "postgresql://me:ge%zzheim@localhost/x",
    "postgresql://localhost:1/x?password=geheim&sslmode=geheim", "postgresql://me:geheim@localhost:1/x",
])  # fmt: skip
def test_no_message_shows_the_password(place):
    with pytest.raises((StoreFailed, InvalidParameter)) as refused:
        PostgresStore(place)
    assert "heim" not in str(refused.value)


STOPPED = """
import os, signal, sys
from armrace.errors import StoreFailed
from armrace.service.log.chain import Chain
from armrace.service.log.postgres import PostgresStore
store = PostgresStore(sys.argv[1], sys.argv[2])
try:
    with store.transaction({1: 0}) as transaction:
        record = Chain(b"", 1).link(transaction.head(1), b"of the one that was stopped")
        transaction.append(1, [record])
        transaction.snapshots(1)  # so that the record is in the transaction
        print("holds the lock", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
except StoreFailed as error:
    print(error, flush=True)
with store.transaction({1: 0}) as transaction:
    print(transaction.head(1).sequence, flush=True)
"""


def test_a_stopped_process_frees_its_log_and_never_holds_others(postgres, schema, store):
    log, other = create(store, "a", "b")
    script = [sys.executable, "-c", STOPPED, postgres.place, schema]
    with started(script, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout.readline() == "holds the lock\n"
        began, freed, slowest = time.monotonic(), [], 0.0

        def wait():
            with store.transaction({log: 0}) as transaction:
                append(transaction, log, b"of the other")
            freed.append(time.monotonic() - began)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while waiting.is_alive():
            start = time.monotonic()
            with store.transaction({other: 0}, creates=True) as transaction:
                append(transaction, other, b"not blocked")
            slowest = max(slowest, time.monotonic() - start)
        waiting.join()
        assert freed[0] > 3
        assert slowest < freed[0] / 2
        node.send_signal(signal.SIGCONT)
        said = node.communicate(timeout=30)[0].splitlines()
    assert said[0].startswith("the database cannot be used: ")
    assert said[1] == "1"
    assert payloads(store, log) == [b"of the other"]
    assert len(payloads(store, other)) > 10


# --- armrace check ----------------------------------------------------------------------------


def test_a_database_is_checked_while_it_is_used(place, tmp_path, capsys):
    keys = tmp_path / "keys"
    check = ["check", place, "--keys", str(keys)]
    Keyring(keys)
    assert run(check) == 2
    assert "the database holds no store of armrace" in capsys.readouterr().err
    with armrace.open(place, keys=keys) as service:
        service.engine.snapshot_step = 100
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        stopped = threading.Event()

        def work():
            while not stopped.is_set():
                made = service.decide_many("ads", 20)
                service.reward_many([(each, 1.0) for each in made], source="web")
                service.void("ads", [made[0]])

        worker = threading.Thread(target=work)
        worker.start()
        try:
            while len(records(service)) < 500:
                stopped.wait(0.05)
            for _ in range(3):
                assert run([*check, "--json", "-"]) == 0
                found = json.loads(capsys.readouterr().out)
                assert found["intact"]
                assert found["snapshots"] >= 1
        finally:
            stopped.set()
            worker.join()
        assert found["records"] <= len(records(service))
    assert run(check) == 0


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE armrace.records SET payload = payload || 'x' WHERE sequence = 3", "its digest"),
        ("DELETE FROM armrace.records WHERE sequence = 3", "record 3 is missing"),
        ("DELETE FROM armrace.records WHERE sequence > 3", "does not hold record 11"),
        ("UPDATE armrace.records SET subject = 7 WHERE sequence = 3", "a wrong subject"),
        ("UPDATE armrace.snapshots SET data = data || 'x'", "is not the replay of the log"),
        ("UPDATE armrace.version SET version = 99", "has the schema 99"),
    ],
)
def test_damage_of_a_database_is_named(place, tmp_path, capsys, statement, sentence):
    keys = tmp_path / "keys"
    with armrace.open(place, keys=keys) as service:
        service.engine.snapshot_step = 3
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        service.reward_many([(each, 1.0) for each in service.decide_many("ads", 5)])
    assert execute(place, statement)
    assert run(["check", place, "--keys", str(keys)]) == 1
    found = capsys.readouterr().err
    assert sentence in found
    assert found.count("\n") == 1
