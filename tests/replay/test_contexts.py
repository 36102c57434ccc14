"""Logs with features: columns encoded as a service would, and policies that see the visitors."""

import json

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.cli.main import run
from armrace.contexts import Schema, read_schema
from armrace.errors import InvalidParameter, UnknownName
from armrace.kernels.generics import Context, assign, choose, distribution, learn
from armrace.kernels.streams import uniform
from armrace.offline import open_log
from armrace.policies import POLICIES
from armrace.randomness import Purpose, stream_for
from replay_reference import COLUMNS, FEATURES, SCHEMA, make_visits


class Model:
    """Ridge regression by the textbook, of what is left of an arm's rewards."""

    def __init__(self, dimension):
        self.matrix, self.moment = np.eye(dimension), np.zeros(dimension)

    def predict(self, vector):
        return vector @ np.linalg.solve(self.matrix, self.moment)

    def fit(self, vector, rest):
        self.matrix += np.outer(vector, vector)
        self.moment += rest * vector


def replay_by_hand(log, name, seed, horizon):
    """Replay a log with the generics; return the doubly robust and the weighted mean, and more."""
    policy, shape = POLICIES.make(name), SCHEMA.shape
    state = policy.start_with(3, horizon, shape)
    stream, coins = (
        stream_for(seed, purpose, 0) for purpose in (Purpose.LEARNER, Purpose.ACCEPTANCE)
    )
    models, rows, paid = [Model(shape.dimension) for _ in range(3)], np.zeros(3), np.zeros(3)
    doubly, weighted, shares = [], [], np.empty(3)
    leaves = {leaf: [] for leaf in range(shape.leaves)}
    pulls = np.zeros((shape.leaves, 3), dtype=int)
    for row in log.iter_rows(named=True):
        code = SCHEMA.encode({feature: row[feature] for feature in FEATURES})
        context = Context(SCHEMA.vector(code.features), code.leaf)
        usual = (paid.sum() + 0.5) / (rows.sum() + 1)
        means = (paid + usual) / (rows + 1)
        expected = means + [model.predict(context.vector) for model in models]
        arm, reward = row["arm"], row["reward"]
        distribution(state, shares, context)
        weight = shares[arm] / row["propensity"]
        guess = expected.clip(0, 1)
        doubly.append(shares @ guess + weight * (reward - guess[arm]))
        weighted.append(weight * reward)
        leaves[code.leaf].append(weight)
        ticket = choose(state, stream, None, context)
        if ticket.arm == arm and (
            row["propensity"] <= 0.2 or uniform(coins) * row["propensity"] < 0.2
        ):
            learn(state, assign(state, ticket, context), reward, context)
            pulls[code.leaf, arm] += 1
        models[arm].fit(context.vector, reward - means[arm])
        rows[arm] += 1
        paid[arm] += reward
    return np.mean(doubly), np.mean(weighted), leaves, pulls


@pytest.mark.parametrize("name", ["leaf-barrier", "linear-ucb", "tsallis-inf"])
def test_compiled_loop_is_the_definition(name) -> None:
    log = make_visits(500, seed=3)
    options = {"columns": COLUMNS, "schema": SCHEMA, "replications": 1, "seed": 4}
    (each,) = armrace.replay(log, [name], **options).policies
    doubly, weighted, leaves, pulls = replay_by_hand(log, name, 4, each.horizon)
    assert each.estimate("dr").value == pytest.approx(doubly, abs=1e-9)
    assert each.estimate("ips").value == pytest.approx(weighted, abs=1e-9)
    assert each.rounds == pulls.sum()
    names = SCHEMA.leaf_names()
    assert [leaf.leaf for leaf in each.leaves] == names
    for leaf, weights, played in zip(each.leaves, leaves.values(), pulls, strict=True):
        assert leaf.rows == len(weights)
        assert leaf.rounds == played.sum()
        assert leaf.favourite == str(played.argmax())
        assert leaf.effective_rows == pytest.approx(sum(weights) ** 2 / np.square(weights).sum())


def test_contexts_earn_what_the_log_says_they_do() -> None:
    """Wrong with a probability of at most 5%, in each of the intervals."""
    log = make_visits(30_000, seed=1)
    found = armrace.replay(
        log, ["leaf-barrier", "optimistic-log-barrier"], columns=COLUMNS, schema=SCHEMA,
        replications=2, seed=1,
    )  # fmt: skip
    with_contexts, without = found.policies
    assert with_contexts.verdict == "better"
    assert with_contexts.gain.low > 0.1
    assert without.verdict == "undecided"
    # Its best arm is that of the visitor, who is one of three kinds.
    favourites = {leaf.leaf.split(",")[0]: leaf.favourite for leaf in with_contexts.leaves}
    assert favourites == {"device=ios": "0", "device=android": "1", "device=other": "2"}


@pytest.mark.parametrize("missing", ["refuse", "bucket"])
@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "frame"])
def test_columns_are_encoded_as_single_visits_are(form, missing, tmp_path) -> None:
    log = make_visits(300, seed=5)
    if missing == "bucket":
        holes = {"device": 2, "age": 3, "member": 5}
        log = log.with_columns(
            pl.when(pl.int_range(300) % step > 0).then(pl.col(name)).alias(name)
            for name, step in holes.items()
        )
    schema = Schema.declare(FEATURES, {"device": True, "age": [40], "member": True}, missing)
    place = tmp_path / f"log.{form}"
    writers = {"csv": log.write_csv, "ndjson": log.write_ndjson, "parquet": log.write_parquet}
    if form in writers:
        writers[form](place)
    opened = open_log(log if form == "frame" else place, COLUMNS, schema=schema)
    (batch,) = opened.batches()
    codes = [schema.encode(row) for row in log.select(list(FEATURES)).iter_rows(named=True)]
    assert batch.codes.astype("<i2").tobytes() == b"".join(code.features for code in codes)
    assert batch.leaves.tolist() == [code.leaf for code in codes]
    vectors = schema.vectors(batch.codes)
    assert (vectors == [schema.vector(code.features) for code in codes]).all()


BAD = """arm,reward,device,age,member
0,1,ios,30,true
1,0,ios,,false
1,0,,30,0
0,1,web,old,true
0,1,web,inf,true
1,0,web,30,maybe
1,0,android,31,1
0,1,{long},30,1
"""


def test_rows_are_refused_by_feature_and_reason(tmp_path) -> None:
    place = tmp_path / "log.csv"
    place.write_text(BAD.replace("{long}", "x" * 201))
    log = open_log(place, {"arm": "arm", "reward": "reward"}, schema=SCHEMA)
    assert log.rows == 2
    assert {each.reason: each.examples for each in log.report.problems} == {
        "the feature age is missing": [2],
        "the feature device is missing": [3],
        "the feature age is not a finite number": [4, 5],
        "the feature member is not true or false": [6],
        "the feature device is a text of more than 200 characters": [8],
    }
    schema = {"context": {"agee": {"type": "number", "low": 0, "high": 1}}}
    with pytest.raises(UnknownName, match="no column 'agee' for the feature agee; did you mean"):
        open_log(place, {"arm": "arm", "reward": "reward"}, schema=schema)


def test_a_schema_is_read_from_plain_data_and_files(tmp_path) -> None:
    plain = {"context": FEATURES, "leaves": {"device": True, "age": [40]}}
    (tmp_path / "a.json").write_text(json.dumps(plain))
    (tmp_path / "a.toml").write_text(
        '[leaves]\ndevice = true\nage = [40]\n[context.device]\ntype = "category"\n'
        'values = ["ios", "android"]\n[context]\nage = {type = "number", low = 20, high = 60}\n'
        'member = {type = "boolean"}\n'
    )
    assert read_schema(plain) == read_schema(tmp_path / "a.json") == SCHEMA
    assert read_schema(str(tmp_path / "a.toml")).leaves == SCHEMA.leaves
    assert read_schema(None) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "neither JSON nor TOML"),
        ("[context", "neither JSON nor TOML"),
        ('{"contexts": {}}', "no part of a schema named 'contexts'; did you mean 'context'"),
        ('{"context": {"age": {"type": "numeric"}}}', "schema cannot be read"),
        ('{"context": 3}', "schema cannot be read"),
        ('{"leaves": {}}', "must declare at least one feature"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(text, words, tmp_path) -> None:
    (tmp_path / "schema").write_text(text)
    with pytest.raises((InvalidParameter, UnknownName), match=words):
        read_schema(tmp_path / "schema")


def test_what_cannot_be_a_schema_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidParameter, match="cannot read"):
        read_schema(tmp_path / "nothing.toml")
    with pytest.raises(InvalidParameter, match="schema must be a file or plain data; got int"):
        read_schema(3)  # type: ignore[arg-type]


def test_an_attack_by_visitor_strikes_a_leaf_of_a_log() -> None:
    """It knows the visitor by the predictions of the log, and finds whom the arm suits."""
    log = make_visits(20_000, seed=2)
    attack = {"name": "two-phase-by-visitor", "first": "free-ride", "first_low": 0.2}
    found = armrace.replay(
        log, ["leaf-thompson"], columns=COLUMNS, schema=SCHEMA, replications=2,
        attack=attack, budget=400.0,
    )  # fmt: skip
    quiet, attacked = found.policies
    assert attacked.attack.spent > 100
    assert attacked.estimate("dr").value < quiet.estimate("dr").value - 0.05


def test_replay_takes_a_schema_and_shows_leaves(tmp_path, capsys) -> None:
    place, schema = tmp_path / "visits.csv", tmp_path / "schema.json"
    make_visits(3000, seed=1).write_csv(place)
    schema.write_text(json.dumps({"context": FEATURES, "leaves": {"device": True}}))
    words = ["replay", str(place), "--arm", "arm", "--reward", "reward", "--propensity"]
    words += ["propensity", "--schema", str(schema), "--policies", "leaf-barrier"]
    page, figures = tmp_path / "replay.html", tmp_path / "replay.json"
    places = ["--report", str(page), "--json", str(figures)]
    assert run([*words, "--replications", "2", *places]) == 0
    shown = capsys.readouterr().out
    assert "leaf-barrier, by segment:" in shown
    for device in ("ios", "android", "other"):
        assert f"device={device}" in shown
        assert f"device={device}" in page.read_text()
    data = json.loads(figures.read_text())
    assert len(data["policies"][0]["leaves"]) == 3
    # The page's own arguments give the same figures.
    again = armrace.replay(
        place, data["policies"][0]["specification"], columns=data["columns"], **data["settings"]
    )
    assert json.loads(json.dumps(again.to_builtins()))["policies"] == data["policies"]


def test_too_few_rounds_for_the_leaves_is_a_warning() -> None:
    found = armrace.replay(
        make_visits(600), ["ucb1"], columns=COLUMNS, schema=SCHEMA, replications=1
    )
    # 600 rows, of which a fifth is accepted, for three arms in six leaves.
    assert any("A run has 6.67 rounds for each of 3 arms in each of 6 leaves" in words
               for words in found.warnings)  # fmt: skip
