"""Feeding the service from logs whose visitors have features."""

import json
from pathlib import Path

import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.contexts import Schema, plain_schema
from armrace.errors import InvalidParameter
from armrace.service.imports import import_rows, rows_of_export
from armrace.service.model.events import DecidedIn
from armrace.service.model.settings import make_settings
from armrace_client.operations import Create
from serving import events, is_replay, live

FEATURES = {
    "device": {"type": "category", "values": ["ios", "web"]},
    "age": {"type": "number", "low": 18, "high": 80},
    "member": {"type": "boolean"},
}
SCHEMA = Schema.declare(FEATURES, {"device": True, "age": [30.00001]}, "bucket")
DECLARED = plain_schema(SCHEMA)


@pytest.fixture
def service():
    with armrace.open(":memory:") as service:
        yield service


def visitor(number: int) -> dict:
    return {
        "device": ["ios", "web", "else"][number % 3],
        "age": [30.0, 30.00001, None, 71.5][number % 4],  # two leaves of one code
        "member": number % 2 == 0,
    }


def exported(path: Path, policy: str) -> pl.DataFrame:
    with armrace.open(":memory:") as service:
        service.create("shop", ["a", "b"], 0, policy=policy, seed=1, **DECLARED)
        made = [service.decide("shop", context=visitor(n)) for n in range(120)]
        for number, decision in enumerate(made[:90]):
            service.reward(decision, number % 4 / 3)
        service.void("shop", made[7])
        service.export("shop", path)
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ndjson(path)


def settings_of(policy: str = "leaf-barrier"):
    return make_settings(Create("copy", ["a", "b"], 0, policy, **DECLARED), 3)


@pytest.mark.parametrize("ending", ["parquet", "ndjson"])
@pytest.mark.parametrize("policy", ["leaf-barrier", "expert-barrier"])
def test_exports_of_contexts_are_imported_without_a_loss(service, tmp_path, policy, ending) -> None:
    path = tmp_path / f"first.{ending}"
    first = exported(path, policy)
    found = import_rows(service, "copy", rows_of_export(path, SCHEMA), settings_of(policy), 0.1)
    assert found.rows == 120
    assert 0 < found.learned < 60
    second = tmp_path / f"second.{ending}"
    service.export("copy", second)
    again = pl.read_parquet(second) if ending == "parquet" else pl.read_ndjson(second)
    same = ["time", "arm", "probability", "reward", "void", "leaf", "features"]
    assert again.select(same).equals(first.select(same))
    assert again["leaf"].n_unique() == 9
    assert is_replay(service, "copy")


def test_texts_of_other_systems_fall_into_buckets_by_the_own_key(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    schema = {"context": {"country": {"type": "category", "buckets": 64}}}
    Path("schema.json").write_text(json.dumps(schema))
    rows = [{"ad": "ab"[n % 2], "click": n % 3 == 0, "country": f"c{n % 9}"} for n in range(60)]
    pl.DataFrame(rows).write_parquet("log.parquet")
    columns = ["--arm", "ad", "--reward", "click", "--schema", "schema.json"]
    assert run(["import", "log.parquet", "--into", "a.db", "--name", "shop", *columns]) == 0
    with armrace.open("a.db") as service:
        settings = live(service, "shop").settings
        assert settings.policy["name"] == "expert-barrier"
        assert len(settings.feature_key) == 16
        codes = [event.code for _, event in events(service, "shop") if isinstance(event, DecidedIn)]
        key = settings.feature_key
        expected = [settings.schema.encode({"country": row["country"]}, key) for row in rows]
        assert codes == expected
        assert is_replay(service, "shop")
        service.export("shop", Path("again.parquet"))
    again = ["import", "again.parquet", "--into", "b.db", "--name", "shop"]
    assert run([*again, "--schema", "schema.json"]) == 2
    assert run(again) == 0  # without features


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": {"device": 4, "age": 0, "member": 4096}}, "'device' cannot have the code 4"),
        ({"features": {"device": -1, "age": 0, "member": 4096}}, "cannot have the code -1"),
        (
            {"features": {"device": 0, "age": 5000, "member": 4096}},
            "cannot have the code 5000",
        ),
        ({"features": {"device": 0, "age": 0, "member": 3}}, "'member' cannot have the code 3"),
        ({"features": {"device": 0, "age": 0}}, "lacks the feature 'member'"),
        ({"features": {"device": 0, "age": 0, "member": 4096, "x": 1}}, "no feature 'x'"),
        ({"features": {"device": "ios"}}, "not an export"),
        ({"leaf": "device=tv"}, "no visitor is in the leaf 'device=tv'"),
        ({"leaf": None}, "no visitor is in the leaf 'None'"),
        ({"features": {}}, "lacks the feature 'device'"),
    ],
)
def test_codes_that_no_visitor_has_are_refused(service, tmp_path, change, words) -> None:
    path = tmp_path / "first.ndjson"
    exported(path, "leaf-barrier")
    lines = path.read_text().splitlines()
    lines[3] = json.dumps({**json.loads(lines[3]), **change})
    path.write_text("\n".join(lines[3:]))
    with pytest.raises(InvalidParameter, match=words):
        import_rows(service, "copy", rows_of_export(path, SCHEMA), settings_of(), 0.1)
    assert service.names() == []


def test_rows_without_features_do_not_fit_a_schema(service, tmp_path) -> None:
    path = tmp_path / "first.ndjson"
    exported(path, "leaf-barrier")
    with pytest.raises(InvalidParameter, match="row 1 must have features exactly if"):
        import_rows(service, "copy", rows_of_export(path), settings_of(), 0.1)
