"""Numbers that JSON can write and the grid of rewards cannot tell from zero."""

from __future__ import annotations

import math

import msgspec
import pytest

from armrace.errors import RewardConflict
from armrace.service.work import Principal
from armrace_client.operations import Reward
from serving import is_replay


@pytest.mark.parametrize("first", ["-0.0", "1e-400", "-1e-400", "0", "4e-7"])
def test_they_are_zero_and_so_duplicates_of_each_other(service, clock, first):
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1, window=10)
    decision = service.decide("ads").decision

    def reward(value: str) -> str:
        body = f'{{"decision": "{decision}", "value": {value}}}'
        asked = msgspec.json.decode(body, type=Reward)
        return service.engine.perform(asked, Principal(service.tenant)).status

    assert reward(first) == "accepted"
    for again in ("-0.0", "1e-400", "0.0"):
        assert reward(again) == "duplicate"
    with pytest.raises(RewardConflict):
        reward("1")
    clock.move(10)
    (row,) = service.rows("ads")
    assert (row.reward, math.copysign(1.0, row.reward)) == (0.0, 1.0)
    assert sum(arm.mean or 0.0 for arm in service.describe("ads").arms) == 0.0
    assert is_replay(service)
