"""The shared store: several services, one database, and a database that goes away."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from armrace.checking import STORE_CHECKS
from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service import Service
from armrace.service.chain import link
from armrace.service.stores.postgres import PostgresStore
from processes import started
from serving import folded_bytes, live_bytes

_numbers = itertools.count()


@pytest.fixture
def schema():
    return f"test{next(_numbers)}"


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(postgres, schema, check):
    check(lambda: PostgresStore(postgres.place, schema))


def test_services_on_one_database_share_one_log(postgres, schema):
    one = Service(PostgresStore(postgres.place, schema))
    other = Service(PostgresStore(postgres.place, schema), one.keyring)
    one.create("ads", ["a", "b", "c"], 0, window=3600, horizon=1000)
    decisions: list = []

    def work(service):
        for number in range(10):
            made = service.decide_many("ads", 5)
            decisions.extend(made)
            service.decide("ads", request=f"r{number}")
            for decision in made:
                assert service.reward(decision, 1.0) == "accepted"

    threads = [threading.Thread(target=work, args=(service,)) for service in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({decision.decision for decision in decisions}) == 100
    assert one.describe("ads").decisions == 110  # requests of the same name are one decision
    answers = other.reward_many([(decision, 1.0) for decision in decisions])
    assert {answer.status for answer in answers} == {"duplicate"}
    one.retract("ads", decisions[:20])
    other.names()
    assert live_bytes(one) == live_bytes(other) == folded_bytes(one.ledger.store, snapshots=False)
    one.close()
    other.close()


def test_a_database_that_comes_back_is_used_again(postgres, schema):
    service = Service(PostgresStore(postgres.place, schema))
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads", request="r")
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(StoreFailed, match="the database cannot be used"):
                service.reward(decision, 1.0)
    finally:
        postgres.start()
    assert service.reward(decision, 1.0) == "accepted"
    assert service.decide("ads", request="r").decision == decision.decision
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)
    service.close()


WRITER = """
import sys
from armrace.service import Service
from armrace.service.stores.postgres import PostgresStore
service = Service(PostgresStore(sys.argv[1], sys.argv[2]))
service.create("ads", ["a", "b"], 0)
while True:
    for decision in service.decide_many("ads", 3):
        print(decision.arm, flush=True)
"""


def test_a_node_that_is_killed_loses_nothing_acknowledged(postgres, schema):
    script = [sys.executable, "-c", WRITER, postgres.place, schema]
    nodes = [subprocess.Popen(script, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [[node.stdout.readline() for _ in range(20)] for node in nodes]
    for node in nodes:
        node.kill()
    rest = [node.communicate()[0].splitlines(keepends=True) for node in nodes]
    whole = [line for each in (*lines, *rest) for line in each if line.endswith("\n")]
    service = Service(PostgresStore(postgres.place, schema))
    assert service.describe("ads").decisions >= len(whole) >= 40
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)
    service.close()


def test_what_cannot_be_used_is_refused(postgres, schema):
    with pytest.raises(StoreFailed, match="the database cannot be used"):
        PostgresStore(f"postgresql://armrace@/nowhere?host={postgres.folder}", schema)
    PostgresStore(postgres.place, schema).close()
    with psycopg.connect(postgres.place) as connection:
        connection.execute(f"UPDATE {schema}.version SET version = 99")
    with pytest.raises(DamagedFile, match="has the schema 99"):
        PostgresStore(postgres.place, schema)


def test_a_database_of_the_first_schema_is_migrated(postgres, schema):
    with Service(PostgresStore(postgres.place, schema)) as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=100, seed=1)
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.version SET version = 1")
        # What another version has made of the log is not read.
        assert connection.execute(f"UPDATE {schema}.snapshots SET data = ''").rowcount == 1
        with Service(PostgresStore(postgres.place, schema)) as service:
            assert service.names() == ["ads"]
        found = connection.execute(f"SELECT version FROM {schema}.version").fetchall()
        assert found == [(4,)]
        connection.execute(f"UPDATE {schema}.version SET version = 9")
        with pytest.raises(DamagedFile, match="has the schema 9; this version reads 1 to 4"):
            PostgresStore(postgres.place, schema)


def test_a_dump_is_a_backup(postgres, schema, tmp_path):
    """As the guide says: pg_dump of the schema, and psql into another database."""
    with Service(PostgresStore(postgres.place, schema)) as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=100, seed=1)
        decision = service.decide("ads")
        keyring, before = service.keyring, live_bytes(service)
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
    place = postgres.place.replace("/postgres?", f"/{schema}?")
    with Service(PostgresStore(place, schema), keyring) as restored:
        assert live_bytes(restored) == before
        assert restored.reward(decision, 1.0) == "accepted"


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
from armrace.service.chain import link
from armrace.service.stores import postgres
from armrace.service.stores.postgres import PostgresStore
postgres._LIMITS = postgres._LIMITS.replace("'5s'", "'1s'")
store = PostgresStore(sys.argv[1], sys.argv[2])
try:
    with store.turn() as turn:
        turn.append([link(turn.head, b"of the one that was stopped")])
        list(turn.snapshots())  # so that the record is in the transaction
        print("holds the lock", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
except StoreFailed as error:
    print(error, flush=True)
with store.turn() as turn:
    print(turn.head.sequence, flush=True)
"""


def test_a_node_that_is_stopped_does_not_keep_the_lock_and_loses_its_turn(postgres, schema):
    """Test with a limit of one second, and not of five."""
    store = PostgresStore(postgres.place, schema)
    script = [sys.executable, "-c", STOPPED, postgres.place, schema]
    with started(script, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout.readline() == "holds the lock\n"
        began = time.monotonic()
        with store.turn() as turn:
            turn.append([link(turn.head, b"of the other")])
        assert time.monotonic() - began < 15
        node.send_signal(signal.SIGCONT)
        said = node.communicate(timeout=30)[0].splitlines()
    assert said[0].startswith("the database cannot be used: ")
    assert said[1] == "1"
    with store.turn() as turn:
        assert [record.payload for record in turn.read()] == [b"of the other"]
    store.close()
