"""Rows that contradict the rest of a log: named, and without influence on a verdict."""

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.offline.log import UNLIKELY, Survey

ROWS = 49_999
COLUMNS = {"arm": "arm", "reward": "reward", "propensity": "p"}


@pytest.fixture(scope="module")
def clicks():
    luck = np.random.default_rng(1)
    arms = luck.integers(0, 5, ROWS)
    rates = np.array([0.05, 0.06, 0.07, 0.05, 0.12])
    rewards = (luck.random(ROWS) < rates[arms]).astype(np.int64)
    names = np.array(["ad-a", "ad-b", "ad-c", "ad-d", "ad-e"])
    return pl.DataFrame({"arm": names[arms], "reward": rewards, "p": np.full(ROWS, 0.2)})


def with_rows(clicks, *rows):
    more = pl.DataFrame(list(rows), schema=clicks.schema, orient="row")
    return pl.concat([more, clicks])


def replayed(frame):
    return armrace.replay(frame, ["thompson"], **COLUMNS, replications=4)


@pytest.fixture(scope="module")
def usual(clicks):
    found = replayed(clicks)
    assert found.warnings == []
    assert found.policies[0].verdict == "better"
    assert found.policies[0].rounds > 9_000
    return found.policies[0]


def test_one_row_of_another_arm_is_left_out_and_named(clicks, usual):
    found = replayed(with_rows(clicks, ("ad-x", 1, 0.2)))
    assert found.policies == [usual]
    assert "ad-x" not in found.arms
    assert found.row_report.sentences()[1:] == [
        "1 row left out: the arm 'ad-x' has 1 row, where its propensities announce about 10,000 "
        "(row 1)."
    ]


def test_one_row_with_a_tiny_propensity_does_not_set_the_floor(clicks, usual):
    found = replayed(with_rows(clicks, ("ad-a", 1, 0.001)))
    policy = found.policies[0]
    assert (found.floor, policy.verdict) == (0.2, usual.verdict)
    assert policy.rounds == pytest.approx(usual.rounds, rel=0.02)
    (warning,) = found.warnings
    assert warning.startswith("Propensities below 0.2 are raised to it; the smallest is 0.001.")


def test_an_arm_that_came_late_stays_and_is_named(clicks):
    """It could be shown in the last tenth of the rows: rare, but not a stray row."""
    late = clicks.with_row_index("n").with_columns(
        arm=pl.when((pl.col("n") < 45_000) & (pl.col("arm") == "ad-e"))
        .then(pl.lit("ad-d"))
        .otherwise("arm")
    )
    found = replayed(late.drop("n"))
    assert "ad-e" in found.arms
    assert any(
        "Arms have fewer rows than their propensities announce: ad-e could be shown in" in each
        for each in found.warnings
    )


def test_honest_rare_arms_are_hardly_ever_contradicted():
    """Logs of 1,000 rows whose 20 arms have propensities of 0.0005 to 0.3, all of them right.

    At most 1 in 10,000 may name an arm; that more than two of 500 do has a probability of 2e-5.
    """
    luck = np.random.default_rng(5)
    law = np.geomspace(0.0005, 0.3, 20)
    law /= law.sum()
    named = 0
    for _ in range(500):
        survey = Survey()
        survey.arms = {str(arm): arm for arm in range(20)}
        arms = luck.choice(20, 1_000, p=law)
        survey.add_figures(arms, np.zeros(1_000), law[arms], np.zeros(0, dtype=np.int64))
        shown = survey.pulls > 0
        named += bool((survey.chances()[shown] < UNLIKELY).any())
        assert not survey.contradicted()[shown].any()
    assert named <= 2
