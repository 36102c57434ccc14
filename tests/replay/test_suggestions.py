"""Schemas that logs suggest: kinds of features, what is left out, and leaves that earn."""

import json

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.contexts import Boolean, Category, Number, Schema, read_schema
from armrace.errors import InvalidParameter, UnknownName
from armrace.offline import open_log
from armrace.offline.suggesting import suggest_schema
from armrace.offline.visitors import choose_leaves, leaves_in
from armrace.service import open_service
from replay_reference import COLUMNS, FEATURES, SCHEMA, make_visits

ROLES = {"arm": "ad", "reward": "click"}
ROWS = 400


def make_table(rows=ROWS):
    numbers = np.arange(rows)
    return pl.DataFrame(
        {
            "ad": ["a", "b"] * (rows // 2),
            "click": [0, 1, 1, 0] * (rows // 4),
            "row": numbers,
            "visitor": [f"visitor {number}" for number in numbers],
            "when": [f"2026-11-19T10:00:{number % 60:02}.{number}Z" for number in numbers],
            "site": ["shop"] * rows,
            "price": numbers / 4.0,
            "device": np.where(numbers % 4 == 0, "ios", np.where(numbers % 4 < 3, "web", "tv")),
            "city": [f"city {number % 50}" for number in numbers],
            "member": ["true", "false"] * (rows // 2),
            "returns": [None if number % 10 == 0 else number % 2 for number in range(rows)],
            "visits": np.where(numbers % 200 == 0, 9, 0) + 3 * (numbers % 200 == 1),
        }
    )


def test_each_kind_of_column_is_what_it_is() -> None:
    found = suggest_schema(make_table(), ROLES)
    assert found.schema.features == {
        # The values at 1% and 99% of 0, 0.25, ..., 99.75.
        "price": Number(low=1.0, high=98.75),
        "device": Category(values=("web", "ios", "tv")),
        "city": Category(buckets=16),
        "member": Boolean(),
        "returns": Boolean(),
        # Both quantiles are 0, so that the range is that of all rows.
        "visits": Number(low=0.0, high=9.0),
    }
    assert found.schema.missing == "bucket"
    assert [note.split(" is left out: ")[0] for note in found.notes[:4]] == [
        "row", "visitor", "when", "site",
    ]  # fmt: skip
    complete = suggest_schema(make_table(), ROLES, features=["device", "price"])
    assert list(complete.schema.features) == ["device", "price"]
    assert complete.schema.missing == "refuse"


def test_a_suggestion_is_accepted_as_it_is(tmp_path) -> None:
    """Names and values that are awkward in TOML come back the same."""
    odd = 'a "quoted" \\ name\x7f\u00e9\U0001f600\u202e'
    table = make_table().rename({"city": odd}).with_columns(
        device=pl.col("device").replace_strict({"ios": "i\n\x01", "web": '"', "tv": "="})
    )  # fmt: skip
    found = suggest_schema(table, ROLES)
    (tmp_path / "schema.toml").write_text(found.to_toml())
    (tmp_path / "schema.json").write_text(json.dumps(found.to_builtins()))
    assert read_schema(tmp_path / "schema.toml") == found.schema
    assert read_schema(tmp_path / "schema.json") == found.schema
    assert odd in found.schema.features
    assert open_log(table, ROLES, schema=tmp_path / "schema.toml").rows == ROWS


def test_an_experiment_is_created_with_a_suggestion() -> None:
    found = suggest_schema(make_visits(20_000, seed=1), COLUMNS)
    with open_service(":memory:") as service:
        service.create(
            "shop", ["0", "1", "2"], policy="leaf-barrier", missing=0.0, **found.to_builtins()
        )
        visitor = {"device": "ios", "age": 30, "member": True}
        assert service.decide("shop", context=visitor).leaf == "device=ios"


def test_leaves_are_those_that_earn_and_that_the_traffic_carries() -> None:
    """The device decides which arm is best; age and membership are chance."""
    log = open_log(make_visits(20_000, seed=1), COLUMNS, schema=Schema.declare(FEATURES))
    found = choose_leaves(log, 20_000)
    assert found.schema.leaves == {"device": True}
    assert found.most == 133  # 20,000 / (50 x 3 arms)
    # A third of the visitors has each arm as the best, which pays 0.3 more: 0.2 beyond one for all.
    assert found.interval.low < 0.2 < found.interval.high
    assert found.interval.low > 0.1
    assert "Proposed are 3, by device" in found.sentences()[0]
    # Three leaves of three arms need 450 decisions.
    assert choose_leaves(log, 450).schema.leaves == {"device": True}
    assert choose_leaves(log, 449).schema.leaves == {}


def test_a_number_is_cut_where_it_tells_visitors_apart() -> None:
    log = make_visits(20_000, seed=2)
    best = np.where(log["age"].to_numpy() < 40, 0, 2)
    generator = np.random.default_rng(5)
    paid = generator.random(20_000) < np.where(log["arm"].to_numpy() == best, 0.6, 0.3)
    opened = open_log(log.with_columns(reward=paid.astype(float)), COLUMNS, schema=SCHEMA)
    found = choose_leaves(opened, 20_000)
    (cut,) = found.schema.leaves["age"]
    assert cut == pytest.approx(40, abs=1)
    assert found.gain == pytest.approx(0.15, abs=0.05)


def test_rows_that_judge_have_no_part_in_the_choice() -> None:
    """Every second row pays half as much: leaves are as before, and worth half as much."""
    log = make_visits(20_000, seed=1)
    halved = log.with_columns(reward=pl.col("reward") * (1 - pl.int_range(20_000) % 2 / 2))
    opened = open_log(halved, COLUMNS, schema=Schema.declare(FEATURES))
    found = choose_leaves(opened, 20_000)
    assert found.schema.leaves == {"device": True}
    assert found.gain == pytest.approx(0.1, abs=0.03)


def test_nothing_is_proposed_by_chance() -> None:
    """Of 20 logs without any difference, as many as 5 propose leaves with a probability of 1%."""
    proposed = 0
    for seed in range(20):
        log = make_visits(4000, seed=seed)
        shuffled = log.with_columns(reward=log["reward"].shuffle(seed))
        opened = open_log(shuffled, COLUMNS, schema=Schema.declare(FEATURES))
        found = choose_leaves(opened, 4000)
        proposed += bool(found.schema.leaves)
        assert found.interval.low <= 0.0
    assert proposed <= 4


def test_leaves_of_codes_are_those_of_visits() -> None:
    log = make_visits(500, seed=3)
    holes = log.with_columns(device=pl.when(pl.int_range(500) % 3 > 0).then("device"))
    for missing in ("refuse", "bucket"):
        schema = Schema.declare(
            FEATURES, {"device": True, "age": [30, 40], "member": True}, missing
        )
        opened = open_log(holes if missing == "bucket" else log, COLUMNS, schema=schema)
        (batch,) = opened.batches()
        different = leaves_in(schema, batch.codes) != batch.leaves
        # A number within half a step of the grid may fall to the other side of a cut.
        assert different.mean() < 0.01


def test_what_cannot_be_suggested_is_refused() -> None:
    table = make_table().select("ad", "click", "row", "site")
    with pytest.raises(InvalidParameter, match="no column that can be a feature"):
        suggest_schema(table, ROLES)
    with pytest.raises(UnknownName, match="no column 'devise' for the feature devise; did you"):
        suggest_schema(make_table(), ROLES, features=["devise"])
    with pytest.raises(InvalidParameter, match="horizon must be"):
        suggest_schema(make_table(), ROLES, horizon=0)
    with pytest.raises(InvalidParameter, match="features must name at least one column"):
        suggest_schema(make_table(), ROLES, features=[])
    with pytest.raises(InvalidParameter, match="the log has no features"):
        choose_leaves(open_log(table, ROLES), 100)


def test_the_command_prints_a_schema_that_a_replay_takes(tmp_path, capsys) -> None:
    place, schema = tmp_path / "visits.csv", tmp_path / "schema.toml"
    make_visits(3000, seed=1).write_csv(place)
    columns = ["--arm", "arm", "--reward", "reward", "--propensity", "propensity"]
    assert run(["schema", "suggest", str(place), *columns]) == 0
    shown = capsys.readouterr().out
    assert "# 3,000 decisions with 3 arms carry 20 leaves" in shown
    schema.write_text(shown)
    found = armrace.replay(place, ["leaf-barrier"], columns=COLUMNS, schema=schema, replications=1)
    assert len(found.policies[0].leaves) == 3
    assert run(["schema", "suggest", str(place), *columns, "--features", "age", "--json", "-"]) == 0
    answer = capsys.readouterr()
    assert list(json.loads(answer.out)["context"]) == ["age"]
    assert "No leaves are proposed" in " ".join(answer.err.split())
    assert run(["schema", "guess", str(place), *columns]) == 2
    assert "action must be suggest; got 'guess'" in capsys.readouterr().err
