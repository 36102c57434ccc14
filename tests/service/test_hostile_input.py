"""Large, deep and slow requests, failing disks and clocks that jump: refused, and nothing lost."""

import json
import random
import socket
from contextlib import contextmanager

import apsw
import pytest
from starlette.testclient import TestClient

from armrace.errors import DecisionExpired, InvalidParameter, StoreFailed
from armrace.service import Keyring, MemoryStore, Service, work
from armrace.service.http.application import create_application
from armrace.service.log.sqlite import SqliteStore
from armrace.service.model.experiment import ExperimentState
from serving import HEAD, JSON, LOCAL, Clock, live, live_bytes

ADS = {"policy": "ucb1", "horizon": 1000, "seed": 1, "window": 10}


@pytest.fixture
def client(service):
    service.create("ads", ["a", "b"], 0, **ADS)
    with TestClient(
        create_application(service, declared_open=True), base_url="http://127.0.0.1", client=LOCAL
    ) as client:
        yield client


@pytest.mark.parametrize("path", ["/v1/experiments/ads/decide", "/v1/rewards/batch"])
def test_a_body_of_50_megabytes_is_refused_while_it_arrives(client, path):
    answer = client.post(path, content=b" " * 50_000_000, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["code"] == "too-large"
    parts = (b" " * 50_000 for _ in range(1000))
    assert client.post(path, content=parts, headers=JSON).status_code == 413
    assert client.post("/v1/experiments/ads/decide", content=b"{}", headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"rewards":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"rewards": [{"decision": "x", "value": ' + b"[" * 900_000,
    ],
)
def test_deep_and_broken_json_is_refused(client, body):
    answer = client.post("/v1/rewards/batch", content=body, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-parameter"
    assert len(answer.content) < 1000


def ask(address, text: bytes) -> bytes:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(text)
        return connection.recv(10_000)


def test_slow_clients_hold_nobody_up(address, service):
    """Clients that send half a request, or half a body, and wait; or go away."""
    slow = [socket.create_connection(address, timeout=20) for _ in range(20)]
    for number, connection in enumerate(slow):
        connection.sendall(HEAD[:20] if number % 2 else HEAD + b"\r\n{")
    assert ask(address, HEAD + b"\r\n{}").startswith(b"HTTP/1.1 200")
    for connection in slow[:10]:
        connection.close()
    assert ask(address, HEAD + b"\r\n{}").startswith(b"HTTP/1.1 200")
    slow[10].sendall(b"}")  # the rest of its body
    assert slow[10].recv(10_000).startswith(b"HTTP/1.1 200")
    for connection in slow[10:]:
        connection.close()
    assert service.describe("ads").decisions == 3


class _FailingFile(apsw.VFSFile):
    def __init__(self, owner, name, flags):
        self._owner = owner
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self._owner.step()
        super().xWrite(data, offset)

    def xSync(self, flags):
        self._owner.step()
        super().xSync(flags)


class _FailingDisk(apsw.VFS):
    """A file system that fails with EIO once so many writes and synchronisations are done."""

    def __init__(self):
        self.left = 10**9
        super().__init__("armrace-eio", "")

    def xOpen(self, name, flags):
        return _FailingFile(self, name, flags)

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise apsw.IOError("EIO")


def test_errors_of_the_disk_stop_the_service_and_lose_nothing(tmp_path):
    """EIO at 25 places: what was acknowledged is there after a restart, and nothing is answered."""
    disk, rng, failed = _FailingDisk(), random.Random(1), 0
    for number in range(25):
        path = tmp_path / f"{number}.db"
        disk.left = 10**9
        keyring = Keyring()
        secrets = [keyring.store_secret()]
        service = Service(SqliteStore(path, vfs="armrace-eio", secrets=secrets), keyring)
        service.create("ads", ["a", "b"], 0, **ADS)
        disk.left = rng.randint(0, 40)
        kept = live_bytes(service)

        def write(service=service):
            nonlocal kept
            for _ in range(20):
                service.decide_many("ads", rng.randint(1, 5))
                kept = live_bytes(service)

        with pytest.raises(StoreFailed):
            write()
        failed += 1
        disk.left = 10**9
        with pytest.raises(StoreFailed):
            service.decide("ads")
        service.close()
        again = Service(SqliteStore(path, secrets=secrets), keyring)
        # What was not synchronised may be kept or not, but no less than was acknowledged.
        sequence = ExperimentState.load(kept).head.sequence
        assert live(again).head.sequence >= sequence
        if live(again).head.sequence == sequence:
            assert live_bytes(again) == kept
        again.close()
    assert failed == 25


def test_a_clock_that_jumps_does_not_move_the_services_clock(monkeypatch):
    """The system's time is read once; a jump of a day closes no window."""
    now = [1_700_000_000_000_000_000]
    monkeypatch.setattr(work, "time_ns", lambda: now[0])
    service = Service(MemoryStore())
    service.create("ads", ["a", "b"], 0, **ADS)
    decision = service.decide("ads")
    for jump in (86_400, -2 * 86_400):
        now[0] += jump * 1_000_000_000
        service.decide("ads")
    assert service.reward(decision, 1.0) == "accepted"
    times = [row.time for row in service.rows("ads")]
    assert max(times) - min(times) < 60_000


def test_after_a_restart_with_a_clock_that_is_behind_time_goes_on(clock, service):
    """A day behind: the log does not go back, no window closes early, and windows still close."""
    service.create("ads", ["a", "b"], 0, **ADS)
    clock.move(5)
    decision, missed = service.decide_many("ads", 2)
    clock.move(-86_400)
    again = Service(service.engine.store, service.keyring, clock=clock)
    again.decide("ads")
    clock.move(9)
    assert again.reward(decision, 1.0) == "accepted"
    clock.move(1)
    with pytest.raises(DecisionExpired):
        again.reward(missed, 1.0)
    again.decide("ads")
    times = [row.time for row in again.rows("ads")]
    assert [time - times[0] for time in times] == [0, 0, 0, 10_000]


class SharedClock(MemoryStore):
    """A store with a clock that all processes share, as a database has one."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    @contextmanager
    def transaction(self, *given, **more):
        with super().transaction(*given, **more) as transaction:
            transaction.time = self.clock
            yield transaction


@pytest.mark.parametrize("jump", [86_400, -86_400, 10, -10])
def test_a_jump_of_the_databases_clock_moves_no_window(clock, jump, monkeypatch):
    store, own = SharedClock(clock), Clock()
    monkeypatch.setattr(work, "monotonic_ns", lambda: 1_000_000 * own())
    service = Service(store)

    def wait(seconds):
        clock.move(seconds)
        own.move(seconds)

    service.create("ads", ["a", "b"], 0, **ADS)
    decision, missed = service.decide_many("ads", 2)
    clock.move(jump)
    wait(9)
    assert service.reward(decision, 1.0) == "accepted"
    clock.move(-2 * jump)
    wait(1)
    with pytest.raises(DecisionExpired):
        service.reward(missed, 1.0)
    wait(1000)  # a clock that is slewed differs a little, and is followed
    clock.move(5)
    service.decide("ads")
    times = [row.time for row in service.rows("ads")]
    assert [time - times[0] for time in times] == [0, 0, 1_015_000]


@pytest.mark.parametrize("depth", [100, 300, 2000])
def test_policies_within_policies_are_refused_at_any_depth(client, depth):
    inner: object = "ucb1"
    for _ in range(min(depth, 900)):
        inner = {"name": "guarded", "base": inner}
    text = json.dumps({"name": "deep", "arms": ["a", "b"], "missing": 0, "policy": inner})
    if depth > 900:  # deeper than Python itself can write
        text = text.replace('"ucb1"', '{"base":' * depth + "1" + "}" * depth)
    answer = client.post("/v1/experiments", content=text, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-parameter")


def test_a_reward_just_outside_the_range_is_shown_in_full(service):
    service.create("ads", ["a", "b"], 0, **ADS)
    with pytest.raises(InvalidParameter, match=r"got 1\.0000000000000002\.$"):
        service.reward(service.decide("ads"), 1.0000000000000002)
    with pytest.raises(InvalidParameter, match=r"got 2\.$"):
        service.reward(service.decide("ads"), 2.0)
