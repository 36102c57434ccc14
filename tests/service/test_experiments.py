"""The life of an experiment: started afresh, deleted, and who did what."""

import threading

import pytest

import armrace
from armrace.errors import ForeignTicket, InvalidParameter, NotRunning, UnknownName
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.loading import Gone, LogReader
from armrace.service.log.sqlite import SqliteStore
from armrace.service.model.events import Actor, Deleted, Ticked, decode
from armrace.service.work import Principal
from armrace_client.operations import OPERATIONS
from serving import is_replay, learned, live, log_of, records, replayed_bytes

# --- starting afresh --------------------------------------------------------------------------


def test_starting_afresh_forgets_what_was_learned_and_keeps_the_log(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=1000)
    fresh = live(service).generation.learner.weights().tolist()
    made = service.decide_many("ads", 20)
    service.reward_many([(each, 1.0) for each in made])
    clock.move(10)
    open_one = service.decide("ads")
    view = service.start_afresh("ads", reason="the season is over")
    assert (view.generation, view.horizon, view.decisions) == (1, 1000, 21)
    assert sum(layer.pulls for layer in view.layers) == 0
    assert sum(arm.rewarded for arm in view.arms) == 20
    assert live(service).generation.learner.weights().tolist() == fresh
    before = learned(service)
    service.reward(open_one, 1.0)
    clock.move(10)
    assert sum(arm.rewarded for arm in service.describe("ads").arms) == 21
    assert (
        learned(service) == before
    )  # a decision of the old generation teaches the new one nothing
    assert service.start_afresh("ads", horizon=50).horizon == 50
    assert is_replay(service)


def test_a_guessed_horizon_goes_on_doubling_after_a_fresh_start(service, monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    service.decide_many("ads", 5)
    assert service.start_afresh("ads").generation == 1
    service.decide_many("ads", 9)
    assert service.describe("ads").generation == 1
    service.decide("ads")
    view = service.describe("ads")
    assert (view.generation, view.horizon) == (2, 20)
    assert is_replay(service)


def test_a_finished_experiment_does_not_start_afresh(service):
    service.create("ads", ["a", "b"], 0)
    with pytest.raises(InvalidParameter, match="horizon must be"):
        service.start_afresh("ads", horizon=0)
    service.finish("ads")
    with pytest.raises(NotRunning):
        service.start_afresh("ads")


def test_with_one_arm_left_there_is_nothing_to_start_afresh(service):
    service.create("ads", ["a", "b"], 0)
    service.retire_arm("ads", "a")
    with pytest.raises(InvalidParameter, match="only one arm is left"):
        service.start_afresh("ads")
    before = service.add_arm("ads", "c").generation
    assert service.start_afresh("ads").generation == before + 1


def test_a_void_reaches_back_before_a_fresh_start(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=1000)
    made = service.decide_many("ads", 10)
    service.start_afresh("ads")
    service.decide_many("ads", 10)
    before = learned(service)
    assert service.void("ads", made[:5]).changed == 5
    assert service.describe("ads").decisions == 15
    assert learned(service) == before
    assert is_replay(service)


# --- deleting ---------------------------------------------------------------------------------


def test_an_experiment_is_deleted_in_the_end(service, clock, tmp_path):
    service.create("ads", ["a", "b"], 0, window=10)
    service.create("mails", ["a", "b"], 0)
    made = service.decide_many("ads", 5)
    with pytest.raises(NotRunning, match="is not finished; finish it first"):
        service.delete("ads", without_export=True)
    service.finish("ads")
    with pytest.raises(InvalidParameter, match="must be exported first"):
        service.delete("ads")
    service.export("ads", tmp_path / "ads.ndjson")
    service.reward(made[0], 1.0)
    with pytest.raises(InvalidParameter, match="must be exported first"):  # of what came since
        service.delete("ads")
    service.export("ads", tmp_path / "ads.parquet")
    log, count = log_of(service), len(records(service))
    assert service.delete("ads", reason="the contract is over") == ["mails"]
    assert service.names() == ["mails"]
    for call in (service.describe, service.decide, service.history, service.actions, service.rows):
        with pytest.raises(UnknownName, match="there is no experiment named 'ads'"):
            call("ads")
    with pytest.raises(ForeignTicket, match="not there any more"):
        service.reward(made[1], 1.0)
    with service.engine.store.transaction() as transaction:
        (left,) = transaction.read(log)
        assert transaction.snapshots(log) == {}
    event = decode(left.payload)
    assert isinstance(event, Deleted)
    assert (left.sequence, event.records) == (count + 1, count)
    assert (event.exported, event.reason) == (True, "the contract is over")
    assert service.decide("mails").arm in ("a", "b")


def test_an_experiment_that_is_due_for_a_snapshot_can_be_deleted(service):
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 30)
    service.finish("ads")
    service.engine.snapshot_step = 1
    service.delete("ads", without_export=True)
    assert service.names() == []


def test_a_name_can_be_given_again(make_service):
    store = MemoryStore()
    service = make_service(store)
    other = make_service(store, service.keyring)
    service.create("ads", ["a", "b"], 0)
    old = service.decide("ads")
    assert other.describe("ads").decisions == 1
    service.finish("ads")
    service.delete("ads", without_export=True)
    service.create("ads", ["c", "d"], 0, policy="ucb1", horizon=100)
    new = service.decide("ads")
    assert new.arm in ("c", "d")
    assert service.reward(new, 1.0) == "accepted"
    for each in (service, other):  # the other server still knew the old one
        with pytest.raises(ForeignTicket):
            each.reward(old, 1.0)
        assert each.decide("ads").arm in ("c", "d")
    assert other.describe("ads").decisions == 3
    assert other.void("ads", [old, new]).unknown_listed == [old.decision]
    assert is_replay(service)


@pytest.mark.parametrize("loaded", [True, False])
def test_another_server_notices_that_an_experiment_is_gone(make_service, loaded):
    store = MemoryStore()
    service = make_service(store)
    other = make_service(store, service.keyring)
    service.create("ads", ["a", "b"], 0)
    made = service.decide("ads")
    if loaded:
        other.describe("ads")
    service.finish("ads")
    service.delete("ads", without_export=True)
    with pytest.raises(ForeignTicket, match="not there any more"):
        other.reward(made, 1.0)
    with pytest.raises(UnknownName):
        other.describe("ads")
    other.create("mails", ["a", "b"], 0)  # nothing has stopped


def test_what_waits_behind_a_deletion_is_refused(service):
    """In the same transaction, and without taking the deletion back; names are looked up again."""
    service.create("ads", ["a", "b"], 0)
    log, done, found = log_of(service), threading.Event(), []

    def deletes(work):
        work.add(Deleted(work.time, work.experiment.head.sequence, False))
        work.flush().delete_log(log)

    def ticks(work):
        work.add(Ticked(work.time))

    service.engine.enqueue(
        [("ads", deletes), ("ads", ticks), (log, ticks)],
        Principal("main"),
        lambda outcomes: (found.extend(outcomes), done.set()),
    )
    assert done.wait(60)
    assert found[0] is None
    assert [type(each) for each in found[1:]] == [UnknownName, Gone]
    assert service.names() == []


@pytest.mark.parametrize("what", ["export", "void", "verify"])
def test_a_deletion_while_the_log_is_read_stops_nothing(service, monkeypatch, what):
    monkeypatch.setattr("armrace.service.loading.PART", 10)
    service.create("mails", ["a", "b"], 0)
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 50)
    service.finish("ads")
    parts, deleted = LogReader.parts, []

    def delete_between(reader, *arguments, **more):
        for part in parts(reader, *arguments, **more):
            yield part
            if reader._log == 2 and not deleted:
                deleted.append(True)
                service.delete("ads", without_export=True)

    monkeypatch.setattr(LogReader, "parts", delete_between)
    if what == "verify":
        assert service.verify() >= 1
    else:
        with pytest.raises((ForeignTicket, UnknownName)):
            service.rows("ads") if what == "export" else service.void("ads", since=0)
    assert deleted
    assert service.decide("mails").arm in ("a", "b")
    assert service.names() == ["mails"]


def test_a_deleted_log_leaves_nothing_in_the_file(tmp_path):
    with armrace.open(tmp_path / "clicks.db") as service:
        service.create("ads", ["a", "b"], 0, seed=1)
        for number in range(300):
            service.decide("ads", source=f"publisher-{number}", labels={"campaign": "secret-plan"})
            service.engine.snapshot_step = 50
        service.finish("ads")
        assert b"secret-plan" in contents(tmp_path)
        service.delete("ads", without_export=True)
        assert b"secret-plan" not in contents(tmp_path)
        assert b"publisher-1" not in contents(tmp_path)
    assert b"secret-plan" not in contents(tmp_path)


def contents(folder):
    return b"".join(each.read_bytes() for each in folder.iterdir())


# --- who did what -----------------------------------------------------------------------------


def test_every_change_says_who_made_it(service, clock):
    actor = Actor("k1", "the shop's key", "ada@example.org")

    def ask(operation, *arguments, **more):
        asked = OPERATIONS[operation]("ads", *arguments, **more)
        return service.engine.perform(asked, Principal("main", actor))

    ask("create", ["a", "b", "c"], 0, "tsallis-inf")
    service.decide("ads", source="bots")
    for operation, *arguments in (
        ("add_arm", "d"),
        ("pause_arm", "a"),
        ("resume_arm", "a"),
        ("retire_arm", "b"),
        ("start_afresh",),
        ("pause",),
        ("resume",),
    ):
        clock.move(1)
        ask(operation, *arguments, reason=f"reason of {operation}")
    ask("void", sources=["bots"], reason="forged")
    ask("hold", sources=["bots"], standing=True)
    ask("release", sources=["bots"], standing=True)
    ask("finish")
    found = service.actions("ads")[::-1]
    assert [(each.action, each.detail, each.reason) for each in found] == [
        ("create", "3 arms", ""),
        ("add-arm", "d", "reason of add_arm"),
        ("pause-arm", "a", "reason of pause_arm"),
        ("resume-arm", "a", "reason of resume_arm"),
        ("retire-arm", "b", "reason of retire_arm"),
        ("start-afresh", "for 10,000 decisions", "reason of start_afresh"),
        ("pause", "", "reason of pause"),
        ("resume", "", "reason of resume"),
        ("void", "1 visit by source bots", "forged"),
        ("begin-standing-hold", "source bots", ""),
        ("release", "1 visit by source bots", ""),
        ("end-standing-hold", "source bots", ""),
        ("finish", "", ""),
    ]
    assert {(each.key, each.label, each.person) for each in found} == {tuple_of(actor)}
    assert [each.sequence for each in found] == sorted(each.sequence for each in found)
    assert service.actions("ads", most=2) == found[:-3:-1]
    assert service.actions("ads", before=found[3].sequence, most=100) == found[2::-1]
    lease = ask("lease") if service.describe("ads").phase == "running" else None
    assert lease is None


def tuple_of(actor):
    return actor.key, actor.label, actor.person


def test_a_program_in_the_process_is_nobody(service):
    service.create("ads", ["a", "b"], 0)
    (made,) = service.actions("ads")
    assert (made.key, made.label, made.person) == (None, None, None)


def test_a_generation_that_began_by_itself_says_so(service, monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    service.decide_many("ads", 10)
    latest, _ = service.actions("ads")
    assert (latest.action, latest.detail) == ("start-afresh", "for 20 decisions")
    assert latest.reason == "the guessed horizon was reached"


# --- identifiers ------------------------------------------------------------------------------


def test_no_unit_or_request_is_in_the_bytes_of_a_store(tmp_path):
    with armrace.open(tmp_path / "clicks.db") as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, settle="immediate")
        service.engine.snapshot_step = 5
        for number in range(20):
            made = service.decide("ads", unit=f"somebody-{number}", request=f"asked-{number}")
            service.reward(made, 1.0)
        service.record("ads", "a", unit="somebody-else", request="asked-else")
        service.void("ads", units=["somebody-3"], requests=["asked-3"])
        service.back_up(tmp_path / "copy.db")
        service.export("ads", tmp_path / "ads.ndjson")
        content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert b"somebody" not in content
        assert b"asked-" not in content
        assert replayed_bytes(service).count(b"somebody") == 0


def test_hashes_differ_by_experiment_and_by_key(make_service, tmp_path):
    found = []
    for _ in range(2):
        service = make_service()
        for name in ("ads", "mails"):
            service.create(name, ["a", "b"], 0, seed=1)
            service.decide(name, unit="somebody")
            service.decide(name, unit="somebody")
            (row,) = service.rows(name)
            found.append(row.unit)
    assert len(set(found)) == 4
    assert all(len(each) == 32 for each in found)


def test_hashes_stay_the_same_when_signing_keys_change(tmp_path, clock):
    keyring = Keyring(tmp_path / "keys")
    store = tmp_path / "clicks.db"
    secrets = (keyring.store_secret(),)
    with Service(SqliteStore(store, secrets=secrets), keyring, clock=clock) as service:
        service.create("ads", ["a", "b"], 0, window=1000)
        first = service.decide("ads", unit="somebody")
        keyring.rotate()
    with Service(
        SqliteStore(store, secrets=secrets), Keyring(tmp_path / "keys"), clock=clock
    ) as service:
        again = service.decide("ads", unit="somebody")
        assert again.repeated
        assert again.decision != first.decision  # signed with the new key
        assert service.reward(first, 1.0) == "accepted"
        assert service.void("ads", units=["somebody"]).changed == 1


def test_an_experiment_is_not_reached_by_the_number_of_its_log(make_service):
    service = make_service()
    service.create("ads", ["a", "b"], 0)
    other = make_service(service.engine.store, service.keyring, "other")
    for ask in (other.describe, other.decide, other.history, other.rows, other.audit):
        with pytest.raises((InvalidParameter, UnknownName)):
            ask(1)
    with pytest.raises(InvalidParameter, match="name must be text; got 1"):
        other.void(1, sources="mill")
