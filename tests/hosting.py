"""A service with its dashboard on a port of this machine, and what the tests show on it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from armrace.dashboard.pages import Dashboard
from armrace.service import Service
from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from armrace_client.operations import Visit

HOSTILE = "<script>alert(1)</script>"
HOSTILE_NAME = "<img src=x onerror=alert(1)>"  # names of experiments have no slashes


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(server: Server, seconds: float | None = None) -> Iterator[tuple[str, int]]:
    """Run a server in a thread until the block ends; it must stop within ``seconds`` then."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()
    finally:
        server.should_exit = True
        thread.join(seconds)
    assert not thread.is_alive()


@contextmanager
def hosted(
    service: Service,
    port: int | None = None,
    seconds: float = 0.2,
    rest: float = 1.0,
    note: Callable[[], str] = str,
) -> Iterator[str]:
    """Serve in a thread until the block ends, which closes the service."""
    port = free_port() if port is None else port
    application = create_application(
        service,
        pages=lambda api: Dashboard(api, seconds, rest, note).routes(),
        declared_open=True,
    )
    with running(Server(application, "127.0.0.1", port, grace=1)):
        yield f"http://127.0.0.1:{port}"


def fill(service: Service, clock) -> None:
    """Make a race that bots attack, with hostile names, and a policy without layers.

    The same names are the reason of a ruling and of a standing hold.
    """
    service.create(
        HOSTILE_NAME,
        [HOSTILE, "second arm", "third"],
        "drop",
        policy={"name": "sharp-race", "most_corruption": 100},
        window=3600,
        horizon=20_000,
        quarantine=0.5,
        seed=5,
    )
    for hour in range(40):
        source = "web" if hour < 28 else HOSTILE
        made = service.decide_batch(HOSTILE_NAME, [Visit(source=source)] * 60).made()
        rewards = [(each, float((each.arm == HOSTILE) == (hour < 28))) for each in made]
        service.reward_many(rewards if hour < 28 else rewards[:50])  # some bots send nothing
        service.reward(service.decide(HOSTILE_NAME), 1.0, source="odd", suspicion=0.9)
        clock.move(1800)
    service.void(HOSTILE_NAME, sources=["odd"], until=clock.now - 60_000_000, reason=HOSTILE)
    service.hold(HOSTILE_NAME, sources=[HOSTILE_NAME], standing=True, reason=HOSTILE)
    service.create("plain", ["a", "b"], 0, policy="ucb1", window=60, horizon=1000)
    service.reward_many([(each, 1.0) for each in service.decide_many("plain", 30)], source="web")
    clock.move(120)
    service.create("nothing yet", ["a", "b"], 0, policy="ucb1")
