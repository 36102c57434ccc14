"""Logs of each contextual policy as they were recorded: a replay must give the same bits for good.

``python tests/service/test_recorded_contexts.py`` records them again, which a change of what is
replayed would need; such a change breaks the logs of users.
"""

import base64
import hashlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from armrace.service import MemoryStore, Service
from armrace.service.log.chain import LogRecord
from armrace.service.model.events import Decided, decode
from armrace.service.model.experiment import ExperimentState
from armrace.service.operations import experiments

PLACE = Path(__file__).with_name("recorded_contexts.json")
FEATURES = {
    "device": {"type": "category", "values": ["ios", "android"]},
    "country": {"type": "category", "buckets": 4},
    "age": {"type": "number", "low": 18, "high": 80},
}
RECORDED: dict[str, Any] = json.loads(PLACE.read_text()) if PLACE.exists() else {}


def payloads(name: str) -> list[bytes]:
    packed = base64.b64decode(RECORDED[name]["log"])
    return msgspec.msgpack.decode(zlib.decompress(packed), type=list[bytes])


def digest(state: ExperimentState) -> str:
    """A digest of what the policy has learned, and of what was counted in each leaf."""
    state.generation.learner.weights(state.generation.visitor(state.encoded(visitor(3))))
    learned = state.generation.learner.snapshot().state
    counted = {leaf: state.leaves[leaf].arms for leaf in sorted(state.leaves)}
    content = msgspec.msgpack.encode([learned, counted, state.generation.trust])
    return hashlib.sha256(content).hexdigest()


def visitor(number: int) -> dict[str, Any]:
    device = ["ios", "android", "web"][number % 3]
    return {"device": device, "country": f"c{number % 7}", "age": 18 + number * 13 % 60}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_log_is_replayed_to_the_bit(name):
    """What was drawn is drawn again with the same probability, and the state is that of then."""
    state, redrawn = None, 0
    for place, payload in enumerate(payloads(name), start=1):
        event, record = decode(payload), LogRecord(place, payload, b"", None)
        if isinstance(event, Decided):
            state.advance(event.time)
            drawn = state.draw(None, event.code)
            assert (drawn.arm, drawn.ticket.arm, drawn.taken) == (
                event.arm,
                event.ticket.arm,
                event.taken,
            )
            assert drawn.probability == event.probability
            redrawn += 1
        state = ExperimentState.replay([(record, event)], state)
    assert redrawn == 40
    assert digest(state) == RECORDED[name]["digest"]


def test_every_contextual_policy_is_recorded():
    from armrace.policies import POLICIES

    assert set(RECORDED) == {name for name, each in POLICIES.items() if each.takes_contexts}


def record(name: str) -> dict[str, str]:
    """Record the log of a policy."""
    now = [1_700_000_000_000]
    with (
        patch.object(experiments.secrets, "token_bytes", lambda size: bytes(range(size))),
        Service(MemoryStore(), clock=lambda: now[0]) as service,
    ):
        service.create(
            "ads",
            ["a", "b", "c"],
            0,
            policy=name,
            horizon=1000,
            window=5,
            seed=11,
            context=FEATURES,
            leaves={"device": True, "age": [40]},
        )
        for number in range(40):
            decision = service.decide("ads", context=visitor(number))
            if number % 4:
                good = decision.arm == "abc"[number % 3]
                service.reward(decision, 0.875 if good else 0.25)
            now[0] += 1000
        service.describe("ads")
        with service.engine.store.transaction() as transaction:
            log = service.engine.locate(service.tenant, "ads")
            records = [each.payload for each in transaction.read(log)]
    packed = base64.b64encode(zlib.compress(msgspec.msgpack.encode(records), 9)).decode()
    state = None
    for place, payload in enumerate(records, start=1):
        taken = [(LogRecord(place, payload, b"", None), decode(payload))]
        state = ExperimentState.replay(taken, state)
    assert state is not None
    return {"digest": digest(state), "log": packed}


if __name__ == "__main__":
    from armrace.policies import POLICIES

    names = [name for name, each in POLICIES.items() if each.takes_contexts]
    PLACE.write_text(json.dumps({name: record(name) for name in names}, indent=1) + "\n")
    sys.exit(0)
