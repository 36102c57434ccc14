"""A service on a store in memory, with a clock that the test moves."""

from collections.abc import Callable, Iterator

import pytest

from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from hosting import running
from serving import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_service(clock: Clock) -> Iterator[Callable[[], Service]]:
    made: list[Service] = []

    def make(*arguments: object, **settings: object) -> Service:
        store, *others = arguments or (MemoryStore(),)
        made.append(Service(store, *others, clock=clock, **settings))
        return made[-1]

    yield make
    for service in made:
        service.close()


@pytest.fixture
def service(make_service: Callable[[], Service]) -> Service:
    return make_service()


@pytest.fixture
def address(service: Service) -> Iterator[tuple[str, int]]:
    """A server with an experiment, on a port of this machine."""
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    server = Server(create_application(service, declared_open=True), "127.0.0.1", 0)
    # In less than the grace: streams must end by themselves.
    with running(server, seconds=5) as address:
        yield address
