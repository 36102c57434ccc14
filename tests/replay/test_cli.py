"""``armrace replay``, ``audit``, ``import``, ``export`` and ``plan --log`` from the shell."""

import json
from pathlib import Path

import polars as pl
import pytest

from armrace.cli.main import run
from armrace.learner import Learner
from replay_reference import make_log

MEANS = (0.3, 0.7)
SAMPLE = ["sample:open-bandit", "--arm", "item_id", "--reward", "click"]


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    log = make_log(3000, MEANS, seed=1)
    log.with_columns(
        time=pl.int_range(3000) * 3_600_000 // 50 + 1_700_000_000_000,
        network=pl.Series(["a", "b", "c"] * 1000),
    ).write_csv(path)
    return path


COLUMNS = ["--arm", "arm", "--reward", "reward"]


def test_replay_writes_table_json_and_page(
    clicks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, page = tmp_path / "replay.json", tmp_path / "replay.html"
    words = [*COLUMNS, "--policies", "ucb1,exp3", "--replications", "2", "--attack", "zero-best"]
    words += ["--budget", "20", "--source", "network", "--retract", "b"]
    assert run(["replay", str(clicks), *words, "--json", str(figures), "--report", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "3,000 of 3,000 rows are used." in shown
    for part in ("under zero-best", "without b", "rejection", "doubly"):
        assert part in shown
    data = json.loads(figures.read_text())
    assert [each["form"] for each in data["policies"]] == [
        "as logged", "under zero-best", "without b",
    ] * 2  # fmt: skip
    assert len(data["policies"][0]["estimates"]) == 4
    text = page.read_text()
    for part in ("<svg", "Estimates", "Attacks", "Rows of the log", "without b", "self-normalised"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["replay", "none.csv", *COLUMNS], "cannot read none.csv: No such file"),
        (["replay", *SAMPLE[:3], "--reward", "clicks"], "did you mean 'click'?"),
        (["replay", SAMPLE[0]], "the column of the arm is missing; give --arm COLUMN"),
        (["replay", *SAMPLE, "--rewards", "1"], "rewards must be the smallest and the largest"),
        (["replay", *SAMPLE, "--rewards", "x,1"], "rewards must be a number"),
        (["replay", *SAMPLE, "--attack", "zero-best"], "budget is missing"),
        (["replay", *SAMPLE, "--level", "2"], "level must be in (0, 1)"),
        (["replay", *SAMPLE, "--columns", "none.toml"], "cannot read none.toml"),
        (["audit", "none.json"], "cannot read none.json"),
        (["audit", *SAMPLE, "--key-file", "k"], "key-file is for a snapshot"),
        (["audit", *SAMPLE, "--level", "0"], "level must be"),
        (["plan", "--arm", "x"], "give --log LOG"),
        (["plan", "--log", *SAMPLE], "traffic is missing"),
        (["plan", "--log", *SAMPLE, "--means", "0.1,0.2"], "the log has the arms"),
        (["plan", "--means", "0.1,0.2"], "traffic is missing"),
        (["export", "shop", "x.csv", "--from", "none.db"], "must end in .ndjson or .parquet"),
        (["export", "shop", "x.parquet", "--from", "none.db"], "there is no store none.db"),
        (["import", "none.parquet", "--into", "x.db"], "cannot read none.parquet"),
        (["import", *SAMPLE, "--into", "x.db", "--window", "x"], "window must be a number"),
    ],
)
def test_refusals_are_one_sentence(
    words, sentence, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("armrace: ")
    assert sentence in last
    assert not list(tmp_path.glob("x.*"))


def test_audit_of_a_log_finds_what_was_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = make_log(4000, MEANS, seed=1)
    forged = pl.concat([honest, make_log(4000, (0.3, 0.2), seed=2)])
    path = tmp_path / "log.parquet"
    forged.write_parquet(path)
    assert run(["audit", str(path), *COLUMNS, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    (alarm,) = found["audit"]["alarms"]
    assert (alarm["arm"], alarm["direction"], alarm["kind"]) == ("1", "down", "change")
    assert 3000 < alarm["since"] < 5000
    honest.write_parquet(path)
    assert run(["audit", str(path), *COLUMNS]) == 0
    words = capsys.readouterr().out
    assert "Nothing in the 4,000 rounds" in words
    assert "What it cannot show" in words


def test_audit_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = Learner("ucb1", ["a", "b"], horizon=2000, seed=1)
    for number in range(2000):
        decision = learner.decide()
        pays = (number < 1000) == (decision.arm == "a")
        learner.learn(decision, 1.0 if pays else 0.0)
    plain, sealed, key = tmp_path / "l.json", tmp_path / "l.bin", tmp_path / "key"
    plain.write_bytes(learner.snapshot().to_json())
    sealed.write_bytes(learner.snapshot(b"secret").to_bytes())
    key.write_bytes(b"secret")
    assert run(["audit", str(plain)]) == 0
    first = capsys.readouterr().out
    assert "Feedback on arm a went down" in first
    assert run(["audit", str(sealed), "--key-file", str(key)]) == 0
    assert capsys.readouterr().out == first
    assert run(["audit", str(sealed)]) == 2
    assert "sealed with a key" in capsys.readouterr().err


def test_plan_reads_rates_and_traffic_from_a_log(
    clicks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*COLUMNS, "--time", "time", "--policies", "ucb1", "--attacks", "zero-best"]
    words += ["--replications", "2", "--days", "1", "--json", "-"]
    page = tmp_path / "plan.html"
    assert run(["plan", "--log", str(clicks), *words, "--report", str(page)]) == 0
    told = capsys.readouterr()
    question = json.loads(told.out)["question"]
    log = pl.read_csv(clicks)
    rates = log.group_by("arm").agg(pl.col("reward").mean()).sort("arm")["reward"].to_list()
    assert question["means"] == pytest.approx(rates)
    assert question["traffic"] == pytest.approx(1200, rel=0.01)
    assert "decisions a day" in told.err
    assert "too large on average" in told.err
