"""A service on a store in memory, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armrace.service import MemoryStore, Service
from serving import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(clock: Clock) -> Service:
    return Service(MemoryStore(), clock=clock)


@pytest.fixture
def make_service(clock: Clock) -> Callable[[], Service]:
    return lambda: Service(MemoryStore(), clock=clock)
