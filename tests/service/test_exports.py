"""Exports: a row for each decision, in both formats, without the layer."""

import gc
import json

import msgspec
import polars
import pytest

from armrace.errors import InvalidParameter, UnwritableOutput
from armrace.service.loading import LogReader
from armrace.service.operations import inspection as exports
from armrace.service.operations.inspection import export_rows
from armrace_client.answers import DecisionRow


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
    rows = polars.read_parquet(tmp_path / "ads.parquet").to_dicts()
    named = ("labels", "features", "metrics")
    assert [{**row, **{name: json.loads(row[name]) for name in named}} for row in rows] == lines
    assert len(lines) == 5
    with pytest.raises(UnwritableOutput, match="or overwrite=True"):
        filled.export("ads", tmp_path / "ads.ndjson")
    filled.export("ads", tmp_path / "ads.ndjson", overwrite=True)
    with pytest.raises(InvalidParameter, match=r"must end in .ndjson or .parquet; got 'ads.csv'"):
        filled.export("ads", tmp_path / "ads.csv")


def test_parts_make_one_file(filled, tmp_path, monkeypatch):
    filled.export("ads", tmp_path / "whole.parquet")
    filled.export("ads", tmp_path / "whole.ndjson")
    monkeypatch.setattr(exports, "_ROWS_AT_ONCE", 2)
    filled.export("ads", tmp_path / "parts.parquet")
    filled.export("ads", tmp_path / "parts.ndjson")
    whole = polars.read_parquet(tmp_path / "whole.parquet")
    assert polars.read_parquet(tmp_path / "parts.parquet").equals(whole)
    assert (tmp_path / "parts.ndjson").read_bytes() == (tmp_path / "whole.ndjson").read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_without_decisions_there_are_columns(service, tmp_path):
    service.create("ads", ["a", "b"], 0)
    service.export("ads", tmp_path / "ads.ndjson")
    service.export("ads", tmp_path / "ads.parquet")
    assert (tmp_path / "ads.ndjson").read_bytes() == b""
    assert polars.read_parquet(tmp_path / "ads.parquet").columns == [
        each.name for each in msgspec.structs.fields(DecisionRow)
    ]


def test_no_more_rows_are_kept_than_decisions_are_open(service, clock, monkeypatch):
    service.create("ads", ["a", "b"], 0, window=10)
    for number in range(50):
        decision = service.decide("ads")
        clock.move(1)
        if number % 3:
            service.reward(decision, 1)
    read = 0

    parts = LogReader.parts

    def one_by_one(reader, *arguments, **more):
        nonlocal read
        for part in parts(reader, *arguments, **more):
            for record in part:
                read += 1
                yield [record]

    monkeypatch.setattr(LogReader, "parts", one_by_one)
    rows, delays = [], []
    for row in export_rows(service.session, "ads"):
        rows.append(row)
        delays.append(read - row.decision)
    monkeypatch.undo()
    assert rows == service.rows("ads")
    # In a window of 10 s there are 10 decisions and at most 7 rewards; the time has to be told too.
    assert max(delays) <= 19


def test_garbage_is_collected_while_a_reader_pauses(filled):
    rows = export_rows(filled.session, "ads")
    next(rows)
    assert gc.isenabled()
