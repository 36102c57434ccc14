"""Exports: a row for each decision, in both formats, without the layer."""

from __future__ import annotations

import json

import polars
import pytest

from armrace.errors import InvalidParameter, UnwritableOutput


@pytest.fixture
def filled(service, clock):
    service.create("ads", ["a", "b"], 0, floors={"b": 0.3}, quarantine=0.5, rewards=(0, 10))
    decisions = service.decide_many("ads", 5)
    clock.move(1)
    service.reward(decisions[0], 10, source="web")
    service.reward(decisions[1], 5, suspicion=0.9)
    service.reward(decisions[2], 0)
    service.retract("ads", [decisions[2]])
    return service


def test_rows_tell_what_became_of_decisions(filled):
    rows = filled.rows("ads")
    assert [row.reward for row in rows] == [10.0, 5.0, 0.0, None, None]
    assert [row.counts for row in rows] == [True, False, False, None, None]
    assert rows[0].source == "web"
    assert rows[0].reward_time - rows[0].time == 1000
    assert not hasattr(rows[0], "layer")


def test_both_formats_say_the_same(filled, tmp_path):
    filled.export("ads", tmp_path / "ads.ndjson")
    filled.export("ads", tmp_path / "ads.parquet")
    lines = [json.loads(line) for line in (tmp_path / "ads.ndjson").read_text().splitlines()]
    assert polars.read_parquet(tmp_path / "ads.parquet").to_dicts() == lines
    assert len(lines) == 5
    with pytest.raises(UnwritableOutput, match="or overwrite=True"):
        filled.export("ads", tmp_path / "ads.ndjson")
    filled.export("ads", tmp_path / "ads.ndjson", overwrite=True)
    with pytest.raises(InvalidParameter, match=r"must end in .ndjson or .parquet; got 'ads.csv'"):
        filled.export("ads", tmp_path / "ads.csv")
