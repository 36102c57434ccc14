"""Stores of the first design are written into new ones, with every kind of event."""

import hashlib
import json
import shutil

import apsw
import msgspec
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import ForeignTicket
from armrace.service import Keyring, Service, open_store
from armrace.service.log.sqlite import SqliteStore
from armrace.service.model.events import Decided, StartedAfresh
from earlier_stores import expected_of, payloads_of, write_mark, write_sqlite
from serving import Clock, events, is_replay, live

EVERY = "every_event_schema_3"


@pytest.fixture
def short_horizon(monkeypatch):
    """The first guess of a horizon with which the log was written."""
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 40)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.db"
    write_sqlite(path, payloads_of(EVERY), 3)
    return path


def tenants(place):
    """The services of both tenants of the stored log, one after the other, by name."""
    for tenant in ("main", "other"):
        with armrace.open(place, tenant=tenant) as service:
            for name in service.names():
                yield service, name


def test_the_stored_log_has_every_kind_of_event():
    kinds = {msgspec.msgpack.decode(each)[0] for each in payloads_of(EVERY)}
    assert kinds == set(range(12))


def test_the_state_is_that_of_the_first_design(old, tmp_path, short_horizon):
    new = tmp_path / "new.db"
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert run(["upgrade", str(old), str(new)]) == 0
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content  # the old one is read only
    expected, found = expected_of(EVERY), []
    for service, name in tenants(new):
        facts = expected[name]
        found.append(name)
        state = live(service, name)
        assert (state.tenant, state.phase) == (facts["tenant"], facts["phase"])
        assert (state.decisions, len(state.open)) == (facts["decisions"], facts["open"])
        assert state.conflicts == facts["conflicts"]
        arms = [list(each) for each in zip(state.arms, state.statuses, strict=True)]
        assert arms == facts["arms"]
        totals = [list(msgspec.structs.astuple(each)) for each in state.totals.arms]
        assert totals == facts["totals"]
        check_learner(state.generation, facts)
        named = sorted(state.sources.named.items())
        sources = {
            source: [
                [day.counted, day.quarantined, day.retracted, day.steps]
                for _, day in sorted(counts.days.items())
            ]
            for source, counts in named
        }
        assert sources == facts["sources"]
        rows = [
            [r.time, r.arm, r.probability, r.reward, r.reward_time, r.source, r.suspicion, r.counts]
            for r in service.rows(name)
        ]
        assert rows == facts["rows"]
        assert is_replay(service, name)
    assert sorted(found) == sorted(expected)
    assert run(["check", str(new)]) == 0


def check_learner(generation, facts):
    generation.save()
    learner = generation.learner
    assert (generation.number, generation.horizon) == (facts["generation"], facts["horizon"])
    assert generation.places == facts["places"]
    assert (learner.taken, learner.decisions) == (facts["taken"], facts["played"])
    assert learner.paused == facts["paused"]
    assert learner.weights().tolist() == facts["weights"]
    views = [[v.layer, v.arm, v.assigned, v.pulls, v.mean, v.active] for v in learner.inspect()]
    assert views == facts["views"]


def test_generations_of_a_guessed_horizon_begin_by_an_event(old, tmp_path, short_horizon):
    new = tmp_path / "new.db"
    assert run(["upgrade", str(old), str(new)]) == 0
    with armrace.open(new) as service:
        began = [
            (record.sequence, event)
            for record, event in events(service, "guessed")
            if isinstance(event, StartedAfresh)
        ]
        assert [event.horizon for _, event in began] == [80, 160]
        assert live(service, "guessed").generation.number >= 2
        decided = [event for _, event in events(service, "guessed") if isinstance(event, Decided)]
        drawn = sum(event.ticket is not None for event in decided[:40])
        assert drawn == 40
        number = began[0][0]
        before = [
            record.sequence
            for record, event in events(service, "guessed")[: number - 1]
            if isinstance(event, Decided)
        ]
        assert len(before) == 40


def test_decisions_go_on_and_old_ones_can_be_ruled_about(old, tmp_path, short_horizon):
    new = tmp_path / "new.db"
    assert run(["upgrade", str(old), str(new)]) == 0
    with armrace.open(new) as service:
        made = service.decide("guessed")
        assert service.reward(made, 1.0) == "accepted"
        answer = service.void("guessed", units=["guessed visitor 3"])
        assert answer.changed >= 1
        assert service.retract("guessed", sources=["source 0"]).changed > 10
        assert service.void("race", requests=["nobody"]).unknown == 1
        assert {row.by for row in service.rows("race")} == {"policy", "floor"}
        for name in ("guessed", "race"):
            assert is_replay(service, name)
    assert run(["check", str(new)]) == 0


def test_no_unit_or_request_is_in_the_new_store(old, tmp_path, short_horizon):
    new = tmp_path / "new.db"
    assert run(["upgrade", str(old), str(new)]) == 0
    assert b"visitor" in old.read_bytes()
    assert b"visitor" not in new.read_bytes()
    assert b"request" not in new.read_bytes().replace(b"requests", b"")


def test_api_keys_stay_valid(old, tmp_path, short_horizon):
    secret = "a" * 43
    keys = {
        "signing": {"1": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="},
        "keys": [
            {
                "id": "0123456789ab",
                "tenant": "main",
                "scopes": ["decide"],
                "created": 5,
                "digest": _base64(hashlib.sha256(secret.encode()).digest()),
                "revoked": None,
            }
        ],
        "format": 1,
    }
    place = tmp_path / "old.db-keys"
    place.write_text(json.dumps(keys))
    place.chmod(0o600)
    assert run(["upgrade", str(old), str(tmp_path / "new.db")]) == 0
    keyring = Keyring(tmp_path / "new.db-keys", create=False)
    found = keyring.find(f"armrace_0123456789ab_{secret}")
    assert (found.id, found.tenant, found.label) == ("0123456789ab", "main", "")
    assert len(keyring.store_secret()) == 32
    assert json.loads(place.read_text()) == keys


def _base64(content):
    return msgspec.json.decode(msgspec.json.encode(content))


def change_payload(old):
    connection = apsw.Connection(str(old))
    connection.execute(
        "UPDATE records SET payload = CAST(payload || x'00' AS BLOB) WHERE sequence = 500"
    )
    connection.close()


def remove_record(old):
    connection = apsw.Connection(str(old))
    connection.execute("DELETE FROM records WHERE sequence = 500")
    connection.close()


def cut_end(old):
    connection = apsw.Connection(str(old))
    connection.execute("DELETE FROM records WHERE sequence > 600")
    connection.close()


def move_mark(old):
    write_mark(old.with_name("old.db-mark"), 3, bytes(16))


def remove_mark(old):
    old.with_name("old.db-mark").unlink()


def spoil_mark(old):
    mark = old.with_name("old.db-mark")
    mark.write_bytes(bytes(mark.stat().st_size))


def of_another_program(old):
    connection = apsw.Connection(str(old))
    connection.pragma("application_id", 5)
    connection.close()


def of_no_database(old):
    old.write_bytes(b"nothing of that kind" * 100)


def of_the_new_design(old):
    old.unlink()
    old.with_name("old.db-mark").unlink()
    SqliteStore(old).close()


def missing(old):
    old.unlink()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (change_payload, "record 500 does not match its digest"),
        (remove_record, "record 500 is missing"),
        (cut_end, "has lost acknowledged events"),
        (move_mark, "has lost acknowledged events"),
        (remove_mark, "there is no high-water mark"),
        (spoil_mark, "old.db-mark is damaged"),
        (of_another_program, "is a database, but not a store of armrace"),
        (of_no_database, "is damaged or not a database"),
        (of_the_new_design, "has the schema 10; only that of version 0.2.0"),
        (missing, "there is no store"),
    ],
)
def test_what_is_damaged_leaves_no_new_store(old, tmp_path, capsys, damage, sentence):
    damage(old)
    assert run(["upgrade", str(old), str(tmp_path / "new.db")]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("new.db"))
    assert not list(tmp_path.glob("new.db-mark"))


def test_a_backup_is_upgraded_without_its_mark(old, tmp_path, short_horizon):
    old.with_name("old.db-mark").unlink()
    assert run(["upgrade", "--backup", str(old), str(tmp_path / "new.db")]) == 0
    assert run(["check", str(tmp_path / "new.db")]) == 0


def test_a_new_store_must_be_new(old, tmp_path, capsys, short_horizon):
    new = tmp_path / "new.db"
    assert run(["upgrade", str(old), str(new)]) == 0
    content = new.read_bytes()
    assert run(["upgrade", str(old), str(new)]) == 2
    assert "the new store must not exist" in capsys.readouterr().err
    assert new.read_bytes() == content


def test_a_store_in_use_is_not_upgraded(old, tmp_path, capsys):
    connection = apsw.Connection(str(old))
    connection.execute("BEGIN EXCLUSIVE")
    assert run(["upgrade", str(old), str(tmp_path / "new.db")]) == 2
    assert "is in use by another process" in capsys.readouterr().err
    connection.close()


def test_a_store_of_the_first_design_says_what_to_do(old):
    from armrace.errors import DamagedFile

    with pytest.raises(DamagedFile, match="armrace upgrade OLD NEW"):
        armrace.open(old)


def test_names_that_the_old_service_gave_are_refused(old, tmp_path, short_horizon):
    """Their numbers are others now."""
    assert run(["upgrade", str(old), str(tmp_path / "new.db")]) == 0
    with armrace.open(tmp_path / "new.db") as service, pytest.raises(ForeignTicket):
        service.reward("AQAAAAEAAAAAAAAAAAAAAAIAAAAAAAABi8_m7qCxV3jha-Lhi3PYVTMGfIEW", 1.0)


def test_a_store_that_has_written_ahead_is_read_and_left(old, tmp_path, short_horizon):
    """As a process that was killed leaves it: the last records are in the write-ahead log."""
    whole, part = tmp_path / "whole.db", tmp_path / "part"
    part.mkdir()
    write_sqlite(whole, payloads_of(EVERY), 3)
    connection = apsw.Connection(str(old))
    connection.pragma("journal_mode", "wal")
    connection.execute("DELETE FROM records WHERE sequence = 612")
    row = next(apsw.Connection(str(whole)).execute("SELECT * FROM records WHERE sequence = 612"))
    connection.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
    for each in ("old.db", "old.db-wal", "old.db-mark"):
        shutil.copy(tmp_path / each, part / each)
        (part / each).chmod(0o600)
    connection.close()
    before = (part / "old.db-wal").read_bytes()
    assert run(["upgrade", str(part / "old.db"), str(part / "new.db")]) == 0
    assert (part / "old.db-wal").read_bytes() == before
    keyring = Keyring(part / "new.db-keys", create=False)
    with Service(open_store(part / "new.db", keyring), keyring, clock=Clock()) as service:
        assert service.describe("race").decisions == expected_of(EVERY)["race"]["decisions"]
