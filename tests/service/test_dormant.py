"""Experiments of other servers whose policies are not compiled in this process yet."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from armrace.errors import DamagedFile, NotReady, RequestFailed, UnknownName
from armrace.kernels import live_calls, refusals
from armrace.service import MemoryStore, Service, warming
from armrace.service import dormant as dormant_module
from armrace.service import ledger as ledger_module
from armrace.service.http import application as application_module
from armrace.service.http.application import create_application
from serving import LOCAL, live_bytes

WARM = {"arms": ["a", "b"], "missing": 0, "policy": "ucb1", "horizon": 10_000, "seed": 1}
COLD = {
    "arms": ["a", "b", "c"],
    "missing": 0,
    "policy": "tsallis-inf",
    "horizon": 10_000,
    "seed": 2,
}


class Shared(MemoryStore):
    """A store that several servers write to, which knows whether one of them has a turn."""

    is_shared = True
    recovers = True

    def __init__(self):
        super().__init__()
        self.is_held = False

    @contextmanager
    def turn(self):
        with super().turn() as turn:
            self.is_held = True
            try:
                yield turn
            finally:
                self.is_held = False


class Compiler:
    """Compiles nothing before it is told to, and refuses to work while a turn is held."""

    def __init__(self, store, monkeypatch):
        self.allowed = threading.Event()
        self.error = None
        self.compiled = []
        self._store = store
        self._warm = warming.warm_for_serving
        monkeypatch.setattr(warming, "warm_for_serving", self)
        monkeypatch.setattr(warming, "_warm", set(warming._warm))

    def forget(self, policy="tsallis-inf"):
        """Let a policy be as in a process that has never used it."""
        self._known = set(warming._warm)
        for key in [each for each in warming._warm if policy.encode() in each]:
            warming._warm.discard(key)

    def remember(self):
        """Let it be as in a process that has."""
        warming._warm.update(self._known)

    def __call__(self, settings):
        if threading.current_thread().name == "compiler":
            assert self.allowed.wait(60)
            if self.error is not None:
                raise self.error
            self.compiled.append(settings.policy["name"])
        self._warm(settings)


@pytest.fixture
def store():
    return Shared()


@pytest.fixture
def compiler(store, monkeypatch):
    made = Compiler(store, monkeypatch)
    yield made
    made.allowed.set()
    for thread in threading.enumerate():  # what is left would make the next test's policy warm
        if thread.name == "compiler":
            thread.join(60)


@pytest.fixture
def pair(store, clock, compiler):
    """Two servers on one log, of which the second has not compiled the second experiment."""
    one = Service(store, clock=clock)
    one.create("warm", **WARM)
    other = Service(store, one.keyring, clock=clock)
    one.create("cold", **COLD)
    compiler.forget()
    return one, other


def wait_until(what):
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within 30 seconds")


def use(service, clock, name="cold", decisions=30):
    made = service.decide_many(name, decisions)
    service.reward_many([(each, 1.0) for each in made[::2]], source="web")
    clock.move(60)
    return made


def asked(ledger, request):
    """The answer of a ledger, or the error that refuses the request."""
    return ledger.submit([request])[0]


def check_same(*services):
    for service in services:
        service.names()
    assert len({live_bytes(service) for service in services}) == 1


def test_others_go_on_while_a_policy_is_compiled(pair, clock, compiler):
    one, other = pair
    made = use(one, clock)
    assert isinstance(asked(other.ledger, other._decide("cold")), NotReady)
    assert other.names() == ["warm", "cold"]
    assert [each.name for each in other.health()] == ["warm"]
    assert other.decide("warm").arm in "ab"
    assert one.decide("cold").arm in "abc"
    assert isinstance(asked(other.ledger, other._reward(made[1], 1.0)), NotReady)
    assert compiler.compiled == []
    compiler.allowed.set()
    assert other.reward(made[1], 1.0) == "accepted"
    assert one.reward(made[1], 1.0) == "duplicate"
    assert compiler.compiled == ["tsallis-inf"]
    check_same(*pair)


def test_calls_of_a_program_wait_for_the_policy_and_no_longer(pair, clock, compiler):
    one, other = pair
    made = use(one, clock, decisions=4)
    answers: dict = {}
    threads = [
        threading.Thread(target=lambda name=name, call=call: answers.update({name: call()}))
        for name, call in {
            "decide": lambda: other.decide("cold").arm,
            "many": lambda: len(other.decide_many("cold", 3)),
            "reward": lambda: [each.status for each in other.reward_many([(made[1], 1.0)] * 2)],
            "rows": lambda: len(other.rows("cold")) >= 4,
            "quarantine": lambda: other.quarantine("cold"),
            "retract": lambda: other.retract("cold", source="nobody").rewards,
        }.items()
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    assert answers == {}
    assert other.decide("warm")
    compiler.allowed.set()
    for thread in threads:
        thread.join(60)
    assert answers.pop("decide") in "abc"
    assert answers == {
        "many": 3,
        "reward": ["accepted", "duplicate"],
        "rows": True,
        "quarantine": [],
        "retract": 0,
    }
    check_same(*pair)


@pytest.mark.parametrize("decisions", [5, 600])
def test_what_was_kept_is_folded_to_the_same_state(store, clock, compiler, decisions):
    one = Service(store, clock=clock)
    one.create("warm", **WARM)
    other = Service(store, one.keyring, clock=clock)
    one.create("cold", **COLD)
    compiler.forget()
    for _ in range(3):
        use(one, clock, decisions=decisions)
        use(other, clock, "warm", decisions=4)
        assert isinstance(asked(other.ledger, other._decide("cold")), NotReady)
    one.retract("cold", source="web", reason="while it is dormant elsewhere")
    one.pause_arm("cold", "b")
    clock.move(4000)
    use(one, clock, decisions=decisions)
    assert other.decide("warm")
    compiler.allowed.set()
    assert other.decide("cold").arm in "ac"
    assert one.decide("cold").arm in "ac"
    check_same(one, other)


def reopened(one, store, clock, compiler):
    """A server that starts with a snapshot of an experiment whose policy it has not compiled."""
    one.close()  # saves a snapshot
    compiler.remember()
    one = Service(store, one.keyring, clock=clock)
    assert store.kept_snapshots
    other = Service(store, one.keyring, clock=clock)
    compiler.forget()
    other.ledger._state = None  # as after a failure of the database
    return one, other


@pytest.mark.parametrize("retracted", [False, True])
def test_a_snapshot_of_what_is_not_compiled(store, clock, compiler, pair, retracted):
    use(pair[0], clock)
    clock.move(4000)
    pair[0].describe("cold")  # settles the decisions
    one, other = reopened(pair[0], store, clock, compiler)
    assert isinstance(asked(other.ledger, other._decide("cold")), NotReady)
    if retracted:  # what the snapshot has learned; it is removed from the store
        assert one.retract("cold", source="web").folded_again
    use(one, clock)
    assert other.decide("warm")
    compiler.allowed.set()
    assert other.decide("cold")
    check_same(one, other)


def test_memory_is_bounded_while_a_policy_is_compiled(pair, clock, compiler, monkeypatch):
    one, other = pair
    monkeypatch.setattr(dormant_module, "_MOST_RECORDS", 10)
    use(one, clock)
    assert isinstance(asked(other.ledger, other._decide("cold")), NotReady)
    (kept,) = other.ledger._state.dormant.values()
    assert kept._records is None
    compiler.allowed.set()
    assert other.decide("cold")
    check_same(*pair)


def test_no_snapshot_is_saved_of_half_a_state(pair, store, clock):
    one, other = pair
    assert other.names() == ["warm", "cold"]
    other.close()
    assert not store.kept_snapshots
    one.close()
    assert store.kept_snapshots


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UnknownName("there is no policy named 'own'; there are others."), "named 'own'"),
        (ZeroDivisionError("division"), "ZeroDivisionError"),
    ],
)
def test_a_policy_that_cannot_be_used_here_concerns_its_experiment_alone(
    pair, clock, compiler, error, sentence
):
    one, other = pair
    compiler.error = error
    compiler.allowed.set()
    with pytest.raises(RequestFailed, match=sentence) as refused:
        other.decide("cold")
    assert refused.value.__cause__ is error
    assert other.decide("warm")
    assert one.decide("cold")
    third = Service(other.ledger.store, one.keyring, clock=clock)  # can be opened all the same
    with pytest.raises(RequestFailed, match=sentence):
        third.describe("cold")


def test_damage_among_what_was_kept_is_not_taken_for_a_bad_policy(pair, clock, compiler):
    one, other = pair
    use(one, clock)
    assert other.names()
    (kept,) = other.ledger._state.dormant.values()
    kept._records.append(kept._records[-1])  # a reward twice
    compiler.allowed.set()
    with pytest.raises(DamagedFile):
        other.decide("cold")


def test_over_http_the_experiment_alone_is_answered_503(pair, clock, compiler, monkeypatch):
    monkeypatch.setattr(application_module, "_LOOK_SECONDS", 0.01)
    one, other = pair
    cold, warm = one.decide_many("cold", 2), one.decide_many("warm", 2)
    batch = {"rewards": [{"decision": each.decision, "value": 1} for each in (cold[0], warm[0])]}
    with TestClient(
        create_application(other, declared_open=True), base_url="http://localhost", client=LOCAL
    ) as client:
        # Without a request for it: the server looks for experiments of others.
        wait_until(lambda: other.ledger._warmer._known)
        for path, body in {
            "experiments/cold/decide": {},
            "experiments/cold/decide/batch": {"decisions": [{}, {}]},
            "rewards": batch["rewards"][0],
            "rewards/batch": batch,
            "experiments/cold/retract": {"source": "web"},
            "experiments/cold/pause": None,
        }.items():
            answer = client.post(f"/v1/{path}", json=body)
            assert answer.status_code == 503, path
            assert answer.json()["code"] == "not-ready"
            assert answer.headers["Retry-After"] == "1"
        assert client.get("/v1/experiments/cold/export").status_code == 503
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/experiments/warm/decide", json={}).status_code == 200
        assert client.get("/v1/health").status_code == 200
        compiler.allowed.set()
        wait_until(lambda: client.post("/v1/experiments/cold/decide", json={}).status_code == 200)
        statuses = [
            each["status"]
            for each in client.post("/v1/rewards/batch", json=batch).json()["rewards"]
        ]
        assert statuses == ["accepted", "duplicate"]  # the second was kept at the first try


def test_a_compilation_that_was_not_foreseen_is_done_beside_the_turn(store, clock, monkeypatch):
    """For instance for a policy whose state has another type when its horizon doubles."""
    one = Service(store, clock=clock)
    one.create("cold", **WARM)
    made = use(one, clock, decisions=5)
    # As in another process: nothing is compiled, and nothing is known to be missing.
    live_calls.make_live_calls.cache_clear()
    live_calls.live_entries.cache_clear()
    monkeypatch.setattr(live_calls, "entry", uncached(live_calls.entry))
    monkeypatch.setattr(ledger_module, "is_warm", lambda settings: True)
    held = []

    class Note(refusals.event.Listener):
        def on_start(self, event):
            held.append(store.is_held)

        def on_end(self, event):
            pass

    with refusals.event.install_listener("numba:compile", Note()):
        other = Service(store, one.keyring, clock=clock)
        assert other.decide("cold")
        assert other.reward(made[1], 1.0) == "accepted"
    assert held
    assert not any(held)
    check_same(one, other)


def uncached(entry):
    """As ``entry``, but nothing is loaded from the disk."""

    def make(*arguments, **options):
        def compile_lazily(function):
            compiled = entry(*arguments, **options)(function)
            compiled._cache = refusals_cache()
            return compiled

        return compile_lazily

    def refusals_cache():
        from numba.core.caching import NullCache

        return NullCache()

    return make
