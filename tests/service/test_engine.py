"""The engine: no answer before its events are durable, none that rests on a failed transaction."""

import threading
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest

from armrace.errors import (
    DamagedFile,
    InvalidParameter,
    Overloaded,
    RequestFailed,
    StoreFailed,
    UnknownName,
)
from armrace.service import MemoryStore
from armrace.service.engine import Engine
from armrace.service.loading import LogReader, outdated
from armrace.service.log.chain import BEGINNING, Chain, head_of
from armrace.service.log.store import NO_LOGS
from armrace.service.model.events import Created, PhaseChanged, Rewarded, Ticked, encode, subject
from armrace.service.model.experiment import ExperimentState
from armrace.service.operations.deciding import decide
from armrace.service.work import KeptRefusal, Principal
from armrace_client.operations import Decide, LeasedVisit, Visit
from serving import (
    FailingStore,
    RecoveringStore,
    is_replay,
    live,
    live_bytes,
    log_of,
    records,
    replayed_bytes,
    snapshots_of,
)

MAIN = Principal("main")


def submit(service, *calls):
    """Perform commands on ``ads`` as one job, in one transaction; return their outcomes."""
    done, found = threading.Event(), []

    def deliver(outcomes):
        found.extend(outcomes)
        done.set()

    service.engine.enqueue([("ads", call) for call in calls], MAIN, deliver)
    assert done.wait(60)
    return found


# --- a store that fails ------------------------------------------------------------------


def test_a_failed_transaction_answers_nothing_and_stops_the_service(make_service):
    store, stopped = FailingStore(), []
    service = make_service(store)
    service.engine.when_failed = lambda: stopped.append(True)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    count = len(records(service))
    store.fails = True
    with pytest.raises(StoreFailed, match="the disk is full"):
        service.reward(decision, 1.0)
    store.fails = False
    with pytest.raises(StoreFailed, match="the disk is full"):
        service.reward(decision, 1.0)
    assert len(records(service)) == count
    assert stopped == [True]
    again = make_service(store, service.keyring)
    assert again.reward(decision, 1.0) == "accepted"


def test_a_store_that_recovers_is_served_again_from_its_log(make_service):
    store = RecoveringStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward(decision, 1.0)
    with pytest.raises(StoreFailed):
        service.decide("ads", request="r")
    store.fails = False
    assert service.reward(decision, 1.0) == "accepted"
    assert not service.decide("ads", request="r").repeated
    assert is_replay(service)


def test_a_duplicate_is_not_answered_before_the_first_copy_is_durable(make_service):
    """Both copies in one transaction that fails: neither may be answered as if it were kept."""
    store = RecoveringStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward_many([(decision, 1.0), (decision, 1.0)])
    store.fails = False
    statuses = [each.status for each in service.reward_many([(decision, 1.0), (decision, 1.0)])]
    assert statuses == ["accepted", "duplicate"]


def test_a_ruling_that_the_store_does_not_keep_changes_nothing(make_service, clock):
    store = RecoveringStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0, window=10)
    decisions = service.decide_many("ads", 20)
    service.reward_many([(each, 1.0) for each in decisions])
    clock.move(10)
    service.describe("ads")
    before = live_bytes(service)
    store.fails = True
    with pytest.raises(StoreFailed):
        service.void("ads", decisions[:5])
    store.fails = False
    assert live_bytes(service) == before == replayed_bytes(service)
    assert service.void("ads", decisions[:5]).changed == 5
    assert is_replay(service)


def test_a_store_that_cannot_be_closed_lets_others_be_refused(make_service, monkeypatch):
    store, told = MemoryStore(), []
    service = make_service(store)

    def close():
        raise StoreFailed("cannot write the mark.")

    monkeypatch.setattr(store, "close", close)
    with pytest.raises(StoreFailed, match="cannot write the mark"):
        service.close()

    def ask():
        with pytest.raises(StoreFailed, match="closed") as refusal:
            service.names()
        told.append(refusal)

    thread = threading.Thread(target=ask, daemon=True)  # which may wait for ever
    thread.start()
    thread.join(20)
    assert len(told) == 1


# --- group commit ------------------------------------------------------------------------


class GatedStore(MemoryStore):
    """Holds the next transaction up when it is armed, and counts transactions that write."""

    def __init__(self):
        super().__init__()
        self.gate, self.waiting = threading.Event(), threading.Event()
        self.is_armed = False
        self.count = 0
        self.in_hand = 1
        """How many operations the first call asks for."""

    @contextmanager
    def transaction(self, logs=NO_LOGS, *, creates=False):
        with super().transaction(logs, creates=creates) as transaction:
            self.count += bool(logs)
            if logs and self.is_armed:
                self.is_armed = False
                self.waiting.set()
                assert self.gate.wait(30)
            yield transaction

    @contextmanager
    def holding(self, service, *calls):
        """Perform calls in threads; the first is held up until the others wait, and longer."""
        self.is_armed = True
        threads = [threading.Thread(target=each) for each in calls]
        threads[0].start()
        assert self.waiting.wait(30)
        for thread in threads[1:]:
            thread.start()
        while service.engine._count - self.in_hand < len(calls) - 1:
            pass
        yield
        self.gate.set()
        for thread in threads:
            thread.join()


def test_operations_that_wait_are_served_by_one_transaction(make_service):
    """While one transaction is held up, eight threads gather; the next one serves all of them."""
    store = GatedStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    store.count, answers = 0, []
    with store.holding(service, *[lambda: answers.append(service.decide("ads"))] * 9):
        pass
    assert len({answer.decision for answer in answers}) == 9
    assert store.count == 2


def test_a_single_call_does_not_wait_for_a_batch(make_service):
    """The batch is performed in parts, so that it has not ended when the call is answered."""
    store = GatedStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    service.create("mails", ["a", "b"], 0)
    service.decide("mails")
    order = []
    batch = lambda: order.append(len(service.decide_many("ads", 2000)))  # noqa: E731
    store.in_hand = 2000
    with store.holding(service, batch, lambda: order.append(service.decide("mails").arm)):
        pass
    assert order[0] in ("a", "b")
    assert order[1] == 2000


def test_what_waits_is_bounded(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.engine._MOST_WAITING", 3)
    store = GatedStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    with (
        store.holding(service, *[lambda: service.decide("ads")] * 3),
        pytest.raises(Overloaded, match="at most 3"),
    ):
        service.decide("ads")
    assert service.describe("ads").decisions == 3


def test_many_threads_on_several_experiments_lose_nothing(make_service):
    service = make_service(most_loaded=2)
    names = ["x", "y", "z"]
    for name in names:
        service.create(name, ["a", "b", "c"], 0, window=1000)
    made, failures = [], []

    def work(number):
        try:
            for step in range(20):
                name = names[(number + step) % 3]
                decisions = [service.decide(name), *service.decide_many(name, 5)]
                service.reward(decisions[0], 1.0)
                service.reward_many([(each, 0.5) for each in decisions[1:]])
                made.extend(each.decision for each in decisions)
                if step % 7 == 3:
                    service.void(name, decisions[-1:])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(made)) == len(made) == 720
    voided = 6 * 3
    assert sum(service.describe(name).decisions for name in names) == 720 - voided
    assert all(is_replay(service, name) for name in names)


# --- several engines, loading and leaving ------------------------------------------------


def test_an_experiment_is_saved_before_it_leaves_if_that_is_worth_it(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.engine._WORTH_SAVING", 50)
    service = make_service(most_loaded=1)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0)
    service.decide_many("ads", 40)
    service.decide("mails")
    assert snapshots_of(service) == {}
    service.decide_many("ads", 10)
    service.decide("mails")
    assert list(snapshots_of(service)) == [51]
    assert is_replay(service)


def test_a_start_loads_no_experiment(make_service, clock, monkeypatch):
    store = MemoryStore()
    first = make_service(store)
    first.create("experiment 0", ["a", "b"], 0)
    settings = msgspec.to_builtins(live(first, "experiment 0").settings)
    for number in range(1, 1000):
        with store.transaction(creates=True) as transaction:
            log = transaction.create_log("main", f"experiment {number}")
            event = Created(clock.now, "main", f"experiment {number}", settings)
            record = Chain(first.keyring.store_secret(), log).link(
                BEGINNING, encode(event), subject(event)
            )
            transaction.append(log, [record])
    loads = []
    load = Engine._load_shard
    monkeypatch.setattr(
        Engine, "_load_shard", lambda engine, log: loads.append(log) or load(engine, log)
    )
    service = make_service(store, first.keyring)
    assert len(service.names()) == 1000
    assert loads == []
    service.decide("experiment 77")
    service.decide("experiment 77")
    assert loads == [78]
    assert len(service.engine.loaded) == 1


def test_a_snapshot_saves_reading_the_log(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.engine._WORTH_SAVING", 50)
    service = make_service()
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 50)
    state = live_bytes(service)
    service.close()
    store = service.engine.store
    with store.transaction() as transaction:
        assert list(transaction.snapshots(1)) == [51]
        assert transaction.load_snapshot(1, 51) == state
    again = make_service(store, service.keyring)
    store._logs[1].records[3] = None  # not read any more
    assert live_bytes(again) == state
    with pytest.raises(StoreFailed, match="closed"):
        service.decide("ads")


def test_snapshots_lie_at_doubling_distances(make_service, clock):
    service = make_service()
    service.engine.snapshot_step = 10
    service.create("ads", ["a", "b"], 0, window=1)
    for _ in range(1000):
        clock.move(1)
        service.decide("ads")
    kept = list(snapshots_of(service))
    last = kept[-1]
    assert len(kept) <= 26
    assert last > 980
    # Whatever is ruled about, at most twice the rest of the log is replayed, but for some steps.
    for place in range(last):
        base = max((each for each in kept if each <= place), default=0)
        assert last - base <= 2 * (last - place) + 20
    assert is_replay(service)


def test_snapshots_stay_within_their_bytes(make_service, clock, monkeypatch):
    service = make_service()
    service.engine.snapshot_step = 10
    service.create("ads", ["a", "b"], 0, window=1)
    service.decide("ads")
    budget = 5 * len(live_bytes(service))
    monkeypatch.setattr("armrace.service.engine._SNAPSHOT_BYTES", budget)
    for _ in range(300):
        clock.move(1)
        service.decide("ads")
    sizes = snapshots_of(service)
    assert 1 < len(sizes) <= 5
    assert sum(sizes.values()) <= budget
    assert outdated(sizes, budget, 10) == []
    monkeypatch.setattr("armrace.service.engine._SNAPSHOT_BYTES", 1)
    for _ in range(20):
        clock.move(1)
        service.decide("ads")
    assert len(snapshots_of(service)) == 1  # the latest is always kept
    assert is_replay(service)


def test_a_failed_snapshot_on_the_way_out_fails_nothing_else(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.engine._WORTH_SAVING", 1)
    store = RecoveringStore()
    service = make_service(store, most_loaded=1)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0)
    service.decide("ads")
    save = ExperimentState.save
    monkeypatch.setattr(
        ExperimentState, "save", lambda each: (_ for _ in ()).throw(StoreFailed("no."))
    )
    assert service.decide("mails").arm in ("a", "b")
    monkeypatch.setattr(ExperimentState, "save", save)
    assert service.describe("ads").decisions == 1


# --- damage ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "changed", "reordered", "snapshot"])
def test_a_damaged_log_is_not_served(make_service, monkeypatch, damage):
    monkeypatch.setattr("armrace.service.engine._WORTH_SAVING", 1)
    store = MemoryStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 10)
    log = store._logs[log_of(service)]
    if damage == "snapshot":
        service.close()
        data = bytearray(log.snapshots[11])
        data[100] ^= 1
        log.snapshots[11] = bytes(data)
    elif damage == "missing":
        del log.records[4]
    elif damage == "changed":
        payload = bytearray(log.records[4].payload)
        payload[-1] ^= 1
        log.records[4] = log.records[4]._replace(payload=bytes(payload))
    else:
        log.records[3:5] = log.records[4:2:-1]
    again = make_service(store, service.keyring)
    with pytest.raises(DamagedFile):
        again.decide("ads")
    with pytest.raises(StoreFailed):  # which stops the service
        again.names()


def test_a_log_of_another_key_is_not_served(make_service):
    service = make_service()
    service.create("ads", ["a", "b"], 0)
    with pytest.raises(DamagedFile, match="record 1 does not match its digest"):
        make_service(service.engine.store).describe("ads")


def test_records_of_one_log_do_not_continue_another(make_service, clock):
    store = MemoryStore()
    service = make_service(store)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0, seed=1)
    service.decide("ads")
    store._logs[2].records[:] = store._logs[1].records
    with pytest.raises(DamagedFile, match=r"record [12] does not match its digest"):
        service.describe("mails")


def test_events_that_cannot_follow_are_not_applied(make_service, clock):
    store = MemoryStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    log = store._logs[log_of(service)]
    chain = Chain(service.keyring.store_secret(), log_of(service))
    event = Rewarded(clock.now, 77, 5)
    log.records.append(chain.link(head_of(log.records[-1]), encode(event), 77))
    with pytest.raises(DamagedFile, match="decision 77, which is not open"):
        service.describe("ads")


@pytest.mark.parametrize("lost", [1, 5, "replaced"])
def test_a_shared_log_that_has_lost_its_end_is_noticed(make_service, clock, lost):
    """As after a failover to a replica that had not received everything."""
    store = MemoryStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 10)
    kept = store._logs[log_of(service)].records
    if lost == "replaced":
        chain = Chain(service.keyring.store_secret(), log_of(service))
        last = kept[-1]
        kept[-1] = chain.link(head_of(kept[-2]), encode(Ticked(clock.now)))
        assert kept[-1].sequence == last.sequence
    else:
        del kept[-lost:]
    for _ in range(2):
        with pytest.raises((DamagedFile, StoreFailed), match="has lost acknowledged events"):
            service.decide("ads")


def test_damage_that_is_met_while_serving_stops_the_service(make_service, clock):
    store = MemoryStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0, window=10)
    decisions = service.decide_many("ads", 10)
    service.reward_many([(decision, 1.0) for decision in decisions])
    clock.move(10)
    service.describe("ads")
    kept = store._logs[log_of(service)].records
    payload = bytearray(kept[4].payload)
    payload[-1] ^= 1
    kept[4] = kept[4]._replace(payload=bytes(payload))
    with pytest.raises(DamagedFile, match="record 5 does not match its digest"):
        service.retract("ads", decisions[:3])
    with pytest.raises(StoreFailed, match="record 5 does not match its digest"):
        service.names()


def test_no_snapshot_is_saved_that_does_not_end_where_the_log_ends(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.engine._WORTH_SAVING", 1)
    store = MemoryStore()
    service = make_service(store)
    service.create("ads", ["a", "b"], 0)
    service.decide("ads")
    state = live(service)
    state.head = state.head._replace(sequence=state.head.sequence + 1)
    service.close()
    assert store._logs[1].snapshots == {}


# --- commands that are refused or fail ---------------------------------------------------


@pytest.mark.parametrize("error", [InvalidParameter("no."), ZeroDivisionError()])
def test_an_event_that_cannot_be_applied_leaves_nothing(make_service, monkeypatch, error):
    """The state had moved on when it failed: it must be thrown away, and no snapshot made of it."""
    store = MemoryStore()
    service = make_service(store)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0)
    service.decide_many("ads", 3)
    before, count = live_bytes(service), len(records(service))
    original = ExperimentState._decided

    def decided(self, sequence, event):
        if sequence > count:
            raise error
        original(self, sequence, event)

    with monkeypatch.context() as patch:
        patch.setattr(ExperimentState, "_decided", decided)
        with pytest.raises((InvalidParameter, RequestFailed)) as raised:
            service.decide("ads")
    assert error in (raised.value, raised.value.__cause__)
    assert len(records(service)) == count
    assert live_bytes(service) == before
    service.close()
    again = make_service(store, service.keyring)
    assert again.decide("mails").arm in ("a", "b")
    assert is_replay(again)


def decides(work):
    return decide(work, Decide("ads"))


def fails_late(work):
    """Adds an event, and fails."""
    work.add(PhaseChanged(work.time, "paused"))
    raise ZeroDivisionError


def fails_early(work):
    """Fails before it has added an event."""
    raise ZeroDivisionError


def refuses_late(work):
    work.add(PhaseChanged(work.time, "paused"))
    raise InvalidParameter("no.")


@pytest.mark.parametrize("fails", [fails_late, fails_early, refuses_late])
def test_a_command_that_fails_leaves_others_of_the_transaction_alone(service, fails):
    service.create("ads", ["a", "b"], 0)
    one, failed, other = submit(service, decides, fails, decides)
    if fails is refuses_late:
        assert isinstance(failed, InvalidParameter)
    else:
        assert isinstance(failed, RequestFailed)
        assert "failed because of a defect: ZeroDivisionError" in str(failed)
    assert one.decision != other.decision
    view = service.describe("ads")
    assert (view.decisions, view.phase) == (2, "running")
    assert is_replay(service)


def test_a_command_may_be_refused_and_keep_its_events(service):
    def pauses(work):
        work.add(PhaseChanged(work.time, "paused"))
        raise KeptRefusal(InvalidParameter("no."))

    service.create("ads", ["a", "b"], 0)
    assert [str(each) for each in submit(service, pauses)] == ["no."]
    assert service.describe("ads").phase == "paused"
    assert is_replay(service)


def test_a_command_that_broke_the_state_without_an_event_is_forgotten(service):
    """The state cannot be trusted then: it is loaded again from the log."""

    def breaks(work):
        work.experiment.conflicts = 77
        raise ZeroDivisionError

    service.create("ads", ["a", "b"], 0)
    service.decide("ads")
    submit(service, breaks)
    assert service.describe("ads").conflicts == 0
    assert is_replay(service)


def test_a_failing_command_leaves_other_experiments_of_the_transaction_alone(make_service):
    store = GatedStore()
    service = make_service(store)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0)
        service.decide(name)
    found = {}

    def ask(key, name, command):
        try:
            found[key] = service.engine.call(name, command, MAIN)
        except Exception as error:
            found[key] = error

    asked = [
        ("first", "ads", decides),
        ("failed", "ads", fails_late),
        ("other", "mails", lambda work: decide(work, Decide("mails"))),
        ("last", "ads", decides),
    ]
    with store.holding(service, *[partial(ask, *each) for each in asked]):
        pass
    assert isinstance(found["failed"], RequestFailed)
    assert found["other"].experiment == "mails"
    assert found["first"].decision != found["last"].decision
    assert service.describe("ads").decisions == 3
    assert service.describe("mails").decisions == 2
    assert is_replay(service)
    assert is_replay(service, "mails")


def looks_and_refuses(work):
    work.settled()
    raise InvalidParameter("no.")


def test_a_refusal_after_time_has_passed_is_a_refusal(service, clock):
    """To look at an experiment settles what is due, and that is kept."""
    service.create("ads", ["a", "b"], 0, window=10)
    service.decide_many("ads", 5)
    clock.move(10)
    with pytest.raises(InvalidParameter, match="1e-300"):
        service.audit("ads", level=1e-310)
    state = live(service)
    assert [str(each) for each in submit(service, looks_and_refuses)] == ["no."]
    assert live(service) is state
    assert len(state.open) == 0
    assert service.decide("ads").arm in ("a", "b")
    assert is_replay(service)


def test_a_receiver_that_fails_stops_nothing(service):
    service.create("ads", ["a", "b"], 0)

    def deliver(outcomes):
        raise RuntimeError("the connection is gone")

    service.engine.enqueue([("ads", decides)], MAIN, deliver)
    assert service.decide("ads").arm in ("a", "b")
    assert service.describe("ads").decisions == 2


def test_an_unknown_experiment_is_refused_among_others(service):
    service.create("ads", ["a", "b"], 0)
    done, found = threading.Event(), []
    calls = [("ads", decides), ("nobody", decides), (InvalidParameter("no."), decides)]
    service.engine.enqueue(calls, MAIN, lambda outcomes: (found.extend(outcomes), done.set()))
    assert done.wait(60)
    assert found[0].experiment == "ads"
    assert isinstance(found[1], UnknownName)
    assert isinstance(found[2], InvalidParameter)


def test_memory_does_not_grow_with_settled_visits(service, clock):
    service.create("ads", ["a", "b"], 0, window=1)
    sizes = []
    for _ in range(3):
        for _ in range(10):
            for decision in service.decide_many("ads", 100):
                service.reward(decision, 1.0)
            clock.move(1)
        service.describe("ads")
        live(service).history.points.clear()  # bounded by themselves
        sizes.append(len(live_bytes(service)))
    assert service.describe("ads").open == 0
    assert max(sizes) - min(sizes) < 40  # digits of counts


# --- several services on one store ------------------------------------------------------------


@pytest.fixture
def servers(make_service):
    one = make_service(RecoveringStore())
    one.create("ads", ["a", "b"], 0, seed=1)
    return one, make_service(one.engine.store, one.keyring)


def test_a_batch_that_the_store_has_not_kept_has_no_answer(servers):
    """A member that is called invalid would not be sent again."""
    service, store = servers[0], servers[0].engine.store
    made, lease = service.decide_many("ads", 2), service.lease("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward_many([(each, 1.0) for each in made])
    with pytest.raises(StoreFailed):
        service.report("ads", lease.lease, [LeasedVisit(0), LeasedVisit(1)])
    with pytest.raises(StoreFailed):
        service.decide_batch("ads", [Visit(request="r"), Visit(request="s")])
    store.fails = False
    answers = service.reward_many([(each, 1.0) for each in made])
    assert [each.status for each in answers] == ["accepted", "accepted"]


@pytest.mark.parametrize("meanwhile", ["void", "visits"])
def test_a_preview_shows_one_state(servers, monkeypatch, meanwhile):
    """Whatever other servers do before it has replayed the log."""
    one, other = servers
    one.engine.snapshot_step = other.engine.snapshot_step = 1
    made = [one.decide("ads", source="mill") for _ in range(4)]
    replay, acts = LogReader.replay, [lambda: other.decide_many("ads", 3)]
    if meanwhile == "void":
        acts = [lambda: other.void("ads", made[0])]

    def interrupted(self, ruled, end):
        if acts:
            acts.pop()()
        return replay(self, ruled, end)

    monkeypatch.setattr(LogReader, "replay", interrupted)
    seen = one.void("ads", sources="mill", preview=True)
    assert seen.before.decisions == seen.visits - (4 - seen.changed)
    assert seen.after.decisions == seen.before.decisions - seen.changed
    assert seen.changed == (3 if meanwhile == "void" else 4)
