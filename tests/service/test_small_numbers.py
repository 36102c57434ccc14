"""Numbers that JSON can write and the grid of rewards cannot tell from zero."""

from __future__ import annotations

import math

import pytest
from starlette.testclient import TestClient

from armrace.service.http.application import create_application
from serving import JSON, LOCAL, folded_bytes, live_bytes


@pytest.fixture
def client(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1, window=10)
    application = create_application(service, declared_open=True)
    with TestClient(application, base_url="http://127.0.0.1", client=LOCAL) as client:
        yield client


@pytest.mark.parametrize("first", ["-0.0", "1e-400", "-1e-400", "0", "4e-7"])
def test_they_are_zero_and_so_duplicates_of_each_other(client, service, clock, first):
    decision = client.post("/v1/experiments/ads/decide", json={}).json()["decision"]

    def reward(value: str):
        body = f'{{"decision": "{decision}", "value": {value}}}'
        return client.post("/v1/rewards", content=body.encode(), headers=JSON)

    assert reward(first).json() == {"status": "accepted"}
    for again in ("-0.0", "1e-400", "0.0"):
        assert reward(again).json() == {"status": "duplicate"}
    assert reward("1").json()["code"] == "reward-conflict"
    clock.move(10)
    (row,) = service.rows("ads")
    assert (row.reward, math.copysign(1.0, row.reward)) == (0.0, 1.0)
    assert sum(arm.mean or 0.0 for arm in service.describe("ads").arms) == 0.0
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)
