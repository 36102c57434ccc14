"""``armrace check`` of a database, while servers use it."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest

import armrace
from armrace.cli.main import run
from armrace.service import Keyring
from serving import records


def execute(place, statement):
    with psycopg.connect(place, autocommit=True) as connection:
        return connection.execute(statement).rowcount


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
