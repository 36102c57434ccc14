"""A service on a store in memory, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from armrace.service import MemoryStore, Service
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
