"""Compilation before the service is ready: nothing is left to a request or to a turn."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from armrace.kernels import live_calls, packed_events
from armrace.service import warming
from armrace.service.http.application import create_application
from serving import LOCAL

ADS = {"name": "ads", "arms": ["a", "b"], "missing": 0, "policy": "ucb1", "horizon": 10_000}


@pytest.fixture
def compiled(monkeypatch):
    """What is compiled, or loaded from the disk, from now on."""
    live_calls.make_live_calls.cache_clear()
    packed_events.make_reader.cache_clear()
    monkeypatch.setattr(warming, "_warm", set())
    found, compile_one = [], live_calls._entry_point

    def note(function, types):
        found.append(function.py_func.__name__)
        return compile_one(function, types)

    monkeypatch.setattr(live_calls, "_entry_point", note)
    return found


def use(client, clock, service):
    """Fold a long log, as a ruling about an old reward does."""
    first = service.decide("ads")
    service.reward(first, 1.0, source="bot")
    for _ in range(3):
        made = service.decide_many("ads", 500)
        service.reward_many([(each, 1.0) for each in made])
        clock.move(3600)
    answer = client.post("/v1/experiments/ads/retract", json={"source": "bot"})
    assert answer.json()["folded_again"]
    assert len(packed_events.make_reader().signatures) == 1


def test_a_new_experiment_is_compiled_before_it_is_created(service, clock, compiled):
    with TestClient(
        create_application(service, declared_open=True), base_url="http://localhost", client=LOCAL
    ) as client:
        assert client.post("/v1/experiments", json=ADS).status_code == 201
        assert "live_replay" in compiled
        assert len(packed_events.make_reader().signatures) == 1
        compiled.clear()
        use(client, clock, service)
    assert compiled == []


def test_known_experiments_are_compiled_before_the_service_is_ready(service, clock, compiled):
    service.create(**ADS)
    with TestClient(
        create_application(service, declared_open=True), base_url="http://localhost", client=LOCAL
    ) as client:
        assert client.get("/readyz").status_code == 200
        assert "live_replay" in compiled
        assert len(packed_events.make_reader().signatures) == 1
        compiled.clear()
        use(client, clock, service)
    assert compiled == []
