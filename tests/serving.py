"""Helpers for tests of the service: a clock that the test moves, and states as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from armrace.service import Service
from armrace.service.folding import load_state
from armrace.service.stores.base import Store

START = 1_700_000_000_000
LOCAL = ("127.0.0.1", 50000)
"""The address of a client on this machine."""
JSON = {"Content-Type": "application/json"}


class Clock:
    """Time in milliseconds that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


def experiment_bytes(service: Service, name: str = "ads") -> bytes:
    """The live state of an experiment as bytes, without what differs between logs."""
    data = msgspec.to_builtins(service.ledger._state.find(service.tenant, name).save())
    *others, _, (named, _), _ = data  # the course depends on the times of events, and so do delays
    counts = {source: days for source, (days, _) in sorted(named.items())}
    return msgspec.msgpack.encode([*others, counts])


def live_bytes(service: Service) -> bytes:
    """The live state of all experiments as bytes."""
    return service.ledger._state.save()


def folded_bytes(store: Store, snapshots: bool = True) -> bytes:
    """The state that the log yields when it is folded, as bytes."""
    with store.turn() as turn:
        if not snapshots:
            turn.forget_snapshots(turn.snapshots())
        return load_state(turn).save()


def learned(service: Service, name: str = "ads") -> Any:
    """What the learner of an experiment knows, as plain data."""
    return service.ledger._state.find(service.tenant, name).generation.save().learner


def take_turns_twice(
    service: Service, monkeypatch: Any, between: Callable[[], None] = lambda: None
) -> None:
    """Let another request break off every turn, so that it is taken again, perhaps later."""

    class Fails:
        def perform(self, books: Any) -> None:
            between()
            raise RuntimeError("a defect")

    submit = service.ledger.submit
    monkeypatch.setattr(
        service.ledger, "submit", lambda requests: submit([*requests, Fails()])[:-1]
    )
