"""Whether contexts pay: environments made of logs, and what a plan says of them."""

import json

import numpy as np
import pytest

from armrace.cli.main import run
from armrace.contexts import Schema
from armrace.errors import InvalidParameter
from armrace.offline import Log, open_log, visitors_of
from armrace.planning import make_question, weigh_contexts
from replay_reference import COLUMNS, DEVICES, FEATURES, SCHEMA, make_visits

UNTOLD = Schema.declare(FEATURES)


def question_of(log: Log, decisions: float):
    return make_question(
        tuple(log.rates.tolist()), traffic=decisions, days=1, policies=["ucb1"], replications=10
    )


@pytest.fixture(scope="module")
def told() -> Log:
    """A log whose devices decide which arm pays 0.6 and which 0.3."""
    return open_log(make_visits(20_000, seed=1), COLUMNS, schema=UNTOLD)


@pytest.fixture(scope="module")
def untold() -> Log:
    """The same visitors, with rewards that do not depend on them."""
    log = make_visits(20_000, seed=1)
    return open_log(log.with_columns(reward=log["reward"].shuffle(1)), COLUMNS, schema=UNTOLD)


def test_an_environment_of_a_log_has_its_visitors(told: Log) -> None:
    environment, kept = visitors_of(told)
    assert kept > 0.9
    batch = told.sample(4096)
    assert batch.arms.size == len(environment.vectors) == 4000  # every fifth of 20,000 rows
    devices = [int(code) for code in batch.codes[:, list(FEATURES).index("device")]]
    best = np.array([DEVICES[("ios", "android", "web")[device]] for device in devices])
    truth = np.where(np.arange(3) == best[:, None], 0.6, 0.3)
    # Some 1,300 rows of the rarest arm on each device have an error of 0.014.
    assert np.abs(environment.means - truth).mean() < 0.02
    assert environment.mean_rewards(1) == pytest.approx(told.rates, abs=0.02)


def test_differences_that_other_rows_do_not_confirm_are_not_simulated(untold: Log) -> None:
    environment, kept = visitors_of(untold)
    assert kept < 0.5
    assert environment.means.std(axis=0).max() < 0.01
    with pytest.raises(InvalidParameter, match="the log has no features"):
        visitors_of(open_log(make_visits(100), COLUMNS))


def test_leaves_of_a_log_are_those_of_its_environment(told: Log) -> None:
    environment, _ = visitors_of(told.with_leaves(SCHEMA), kinds=500)
    assert set(environment.leaves) == set(range(6))
    assert len(environment.vectors) == 500


def test_contexts_that_pay_are_declared(told: Log) -> None:
    """20,000 decisions: to ignore the device loses 0.2 of each, 4,000."""
    found = weigh_contexts(told, question_of(told, 20_000), progress=False)
    assert found.schema.leaves == {"device": True}
    assert [each.policy for each in found.losses] == [
        "optimistic-log-barrier", "leaf-barrier", "expert-barrier",
    ]  # fmt: skip
    assert found.losses[0].mean == pytest.approx(4000, rel=0.1)
    assert found.earned > 3500
    assert found.is_clear
    words = " ".join(found.sentences)
    assert "Proposed are 3, by device" in words
    assert f"decisions with {found.best.policy}: declare them." in words


def test_contexts_that_do_not_pay_are_left_out(untold: Log) -> None:
    found = weigh_contexts(untold, question_of(untold, 20_000), progress=False)
    assert found.schema.leaves == {}
    assert [each.policy for each in found.losses] == ["optimistic-log-barrier", "expert-barrier"]
    assert "leave them out" in found.sentences[-1]
    assert not (found.is_clear and found.earned > 0)


def test_a_plan_of_a_log_with_a_schema_says_whether_contexts_pay(tmp_path, capsys) -> None:
    place, schema = tmp_path / "visits.csv", tmp_path / "schema.json"
    make_visits(3000, seed=1).write_csv(place)
    schema.write_text(json.dumps({"context": FEATURES}))
    words = ["plan", "--log", str(place), "--arm", "arm", "--reward", "reward", "--propensity"]
    words += ["propensity", "--schema", str(schema), "--policies", "ucb1", "--attacks", "zero-best"]
    words += ["--traffic", "3000", "--days", "1", "--replications", "2", "--gap", "0.001"]
    page, figures = tmp_path / "plan.html", tmp_path / "plan.json"
    assert run([*words, "--report", str(page), "--json", str(figures)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    contexts = json.loads(figures.read_text())["contexts"]
    assert contexts["schema"]["leaves"] == {"device": True}
    for sentence in contexts["sentences"]:
        assert sentence in shown
    assert "declare them" in shown
    assert "declare them" in page.read_text()
    assert run(["plan", "--means", "0.1,0.2", "--traffic", "1e3", "--schema", str(schema)]) == 2
    assert "columns are those of a log; give --log" in capsys.readouterr().err
