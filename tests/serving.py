"""Helpers for tests of the service: a clock that the test moves, and states as bytes."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from armrace.errors import StoreFailed
from armrace.service import MemoryStore, Service
from armrace.service.log.chain import LogRecord
from armrace.service.log.store import NO_LOGS
from armrace.service.model.events import Event, decode
from armrace.service.model.experiment import ExperimentState, _Data
from armrace.service.work import Principal

START = 1_700_000_000_000
LOCAL = ("127.0.0.1", 50000)
"""The address of a client on this machine."""
JSON = {"Content-Type": "application/json"}
HEAD = (
    b"POST /v1/experiments/ads/decide HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n"
)
"""What a request for a decision begins with."""


class Clock:
    """Time in milliseconds that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class FailingStore(MemoryStore):
    """Fails at the end of a transaction that has appended something, when told to."""

    fails = False

    @contextmanager
    def transaction(self, logs=NO_LOGS, *, creates=False):
        with self._lock, super().transaction(logs, creates=creates) as transaction:
            before = dict(transaction.heads)
            yield transaction
            if self.fails and transaction.heads != before:
                raise StoreFailed("the disk is full.")


class RecoveringStore(FailingStore):
    recovers = True


def a_few(policies: Iterable[str]) -> list[Any]:
    """Policies by name: a race, an index, a posterior and leaders; all of them in the long form.

    What the service does with a policy is what a learner does, and the contract suite of policies
    tries that with all of them.
    """
    few = {"sharp-race", "ucb1", "thompson", "tsallis-inf", "optimistic-log-barrier"}
    long = pytest.mark.long
    return [pytest.param(each, marks=[] if each in few else long) for each in policies]


def answer_on(connection: socket.socket) -> bytes:
    """The next answer on a connection, whose body may come in a packet of its own."""
    answer = connection.recv(65536)
    size = int(answer.lower().partition(b"content-length: ")[2].split(b"\r")[0])
    while len(answer.partition(b"\r\n\r\n")[2]) < size:
        answer += connection.recv(65536)
    return answer


def live(service: Service, name: str = "ads") -> ExperimentState:
    """The state of an experiment that the engine works on."""
    found: ExperimentState = service.engine.call(
        name, lambda work: work.experiment, Principal(service.tenant)
    )
    return found


def live_bytes(service: Service, name: str = "ads") -> bytes:
    """The live state of an experiment as bytes."""
    return live(service, name).save()


def replayed(service: Service, name: str = "ads", *, snapshots: bool = False) -> ExperimentState:
    """The state that the log of an experiment yields, from its beginning or a snapshot."""
    reader = service.engine.reader(log_of(service, name))
    if snapshots:
        return reader.load()[0]
    return reader._apply(None, reader.verdicts(), None)


def replayed_bytes(service: Service, name: str = "ads", *, snapshots: bool = False) -> bytes:
    """The state that the log of an experiment yields, as bytes."""
    return replayed(service, name, snapshots=snapshots).save()


def is_replay(service: Service, name: str = "ads") -> bool:
    """Whether the live state is that of the log, replayed whole and from a snapshot."""
    state = live_bytes(service, name)
    return state == replayed_bytes(service, name) == replayed_bytes(service, name, snapshots=True)


def log_of(service: Service, name: str = "ads") -> int:
    """The number of the log of an experiment."""
    return service.engine.locate(service.tenant, name)


def records(service: Service, name: str = "ads") -> list[LogRecord]:
    """The records of an experiment."""
    with service.engine.store.transaction() as transaction:
        return list(transaction.read(log_of(service, name)))


def events(service: Service, name: str = "ads") -> list[tuple[LogRecord, Event]]:
    """The records of an experiment with their events."""
    return [(record, decode(record.payload)) for record in records(service, name)]


def sequence_of(service: Service, decision: Any) -> int:
    """The sequence number of a decision."""
    return service.keyring.signing_keys().read(service.tenant, decision.decision).sequence


def snapshots_of(service: Service, name: str = "ads") -> dict[int, int]:
    """The sizes of an experiment's snapshots by sequence number."""
    with service.engine.store.transaction() as transaction:
        return transaction.snapshots(log_of(service, name))


def learned(service: Service, name: str = "ads") -> bytes:
    """What the learner of an experiment knows."""
    return live(service, name).generation.save().learner


def said_of_visits(service: Service, name: str = "ads") -> bytes:
    """The live state as bytes, without what depends on the times at which rewards came."""
    content = msgspec.msgpack.decode(live_bytes(service, name)[16:])
    data = dict(zip(_Data.__struct_fields__, content, strict=True))
    for each in ("format", "head", "tenant", "name", "created", "time", "history"):
        del data[each]
    data["sources"] = {source: days for source, (days, _) in sorted(data["sources"][0].items())}
    return msgspec.msgpack.encode(data)


def attacked(service: Service, clock: Clock, name: str = "ads") -> None:
    """Make an experiment with an alarm: its best arm pays nothing from some moment on."""
    service.create(name, ["a", "b"], 0, policy="ucb1", window=2, horizon=100_000, seed=3)
    for second in range(45):
        made = service.decide_many(name, 20)
        service.reward_many([(each, float(second < 30 and each.arm == "a")) for each in made])
        clock.move(1)


def events_over_http(application: Any, headers: Any = ()) -> Any:
    """The messages of a stream of events, as ASGI sends them; not as fast as the test client."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "GET",
        "path": "/v1/experiments/ads/events",
        "raw_path": b"/v1/experiments/ads/events",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": LOCAL,
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
    }
    sent: asyncio.Queue = asyncio.Queue()

    async def receive() -> None:
        await asyncio.Event().wait()

    return asyncio.create_task(application(scope, receive, sent.put)), sent
