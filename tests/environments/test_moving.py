"""Means that move, the regret against the best arm of each round, and where it is shown."""

import math
from pathlib import Path

import numpy as np
import pytest

import armrace
from armrace.agents import PythonAgent
from armrace.cli.main import run
from armrace.environments import Bernoulli, Changing, Environment, Seasonal
from armrace.errors import InvalidParameter, UnknownName
from armrace.kernels.laws import CHUNK, Law, draw_chunk, make_drawn, moves, rewards_between

SWAPPED = Changing(levels=((1.0, 0.0), (0.0, 1.0)), changes=(32,))
"""The first arm always pays in the first 32 rounds, and the second one always does afterwards."""


def means_of(environment: Environment, rounds: int) -> np.ndarray:
    """The mean of each arm in each round, as the law of the engine has them."""
    law, found = environment.law(), []
    for chunk in range(-(-rounds // CHUNK)):
        drawn = make_drawn(law.kind.size, moves(law))
        draw_chunk(law, chunk, drawn)
        found.append(drawn.means.T)
    return np.vstack(found)[:rounds]


def test_means_change_at_once_or_evenly() -> None:
    at_once = Changing(levels=((0.25, 0.5), (0.75, 0.5), (0.0, 1.0)), changes=(2, 3))
    assert means_of(at_once, 5).tolist() == [[0.25, 0.5]] * 2 + [[0.75, 0.5]] + [[0, 1]] * 2
    evenly = Changing(levels=((0.25, 0.5), (0.75, 0.0)), changes=(1,), lasting=4)
    expected = [(0.25, 0.5), (0.25, 0.5), (0.375, 0.375), (0.5, 0.25), (0.625, 0.125), (0.75, 0)]
    assert means_of(evenly, 6).tolist() == [list(row) for row in expected]


def test_a_season_is_a_wave() -> None:
    found = means_of(Seasonal(means=(0.5, 0.5), swings=(0.5, -0.25), period=8), 9)
    up = 0.5 / math.sqrt(2)
    assert found[:, 0] == pytest.approx(
        [0.5, 0.5 + up, 1, 0.5 + up, 0.5, 0.5 - up, 0, 0.5 - up, 0.5]
    )
    assert found[:, 1] == pytest.approx(0.5 - (found[:, 0] - 0.5) / 2)


MOVING = [
    Changing(levels=((0.6, 0.4), (0.4, 0.6)), changes=(0,), lasting=CHUNK + 100),
    Changing(levels=((0.1, 0.9, 0.5), (0.9, 0.2, 0.5), (0.3, 0.3, 0.3)), changes=(7, 5000)),
    Seasonal(means=(0.5, 0.4), swings=(0.1, -0.3), period=777),
    SWAPPED,
]


@pytest.mark.parametrize("environment", MOVING, ids=str)
@pytest.mark.parametrize("rounds", [1, 8, 31, 1000, CHUNK + 1234])
def test_the_mean_of_a_run_is_that_of_its_rounds(environment: Environment, rounds: int) -> None:
    expected = means_of(environment, rounds).mean(axis=0)
    assert environment.mean_rewards(rounds) == pytest.approx(expected, abs=1e-9)


def law_of(environment: Environment) -> Law:
    law = environment.law()
    law.place[:] = np.array([1, 2, 3, 4], dtype=np.uint64)
    return law


@pytest.mark.parametrize("change", [CHUNK - 5, CHUNK, CHUNK + 5])
def test_rewards_change_in_the_round_that_is_named(change: int) -> None:
    swapped = Changing(levels=((1.0, 0.0), (0.0, 1.0)), changes=(change,))
    paid = rewards_between(law_of(swapped), change - 2, change + 2)
    assert paid.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_rewards_have_the_means_of_their_rounds() -> None:
    season = Seasonal(means=(0.5, 0.3), swings=(0.4, -0.3), period=100)
    paid = rewards_between(law_of(season), 0, 40_000).reshape(400, 100, 2).mean(axis=0)
    # 200 means of 400 coins, each within 4.5 standard deviations of at most 0.025: all of them
    # with a probability above 0.998.
    assert np.abs(paid - means_of(season, 100)).max() < 4.5 * 0.025


def always(arm: int) -> PythonAgent:
    class Stubborn:
        def __init__(self, arms: int, horizon: int, seed: int) -> None:
            pass

        def choose(self) -> int:
            return arm

        def learn(self, arm: int, reward: float) -> None:
            pass

    Stubborn.__qualname__ = f"stubborn_{arm}"
    return PythonAgent(agent=Stubborn)


@pytest.mark.parametrize(("attack", "budget"), [("none", None), ("zero-best", 5)])
def test_regret_to_the_best_arm_of_each_round_and_of_the_run(
    attack: str, budget: float | None
) -> None:
    first, second = (
        armrace.simulate(always(arm), SWAPPED, attack, budget, horizon=100, replications=1)
        for arm in (0, 1)
    )
    # Of 100 rounds, the first arm is the best in 32 and the second one in 68.
    assert first.sample("dynamic_regret").tolist() == [68.0]
    assert second.sample("dynamic_regret").tolist() == [32.0]
    assert first.sample("pseudo_regret").tolist() == [36.0]
    assert second.sample("pseudo_regret").tolist() == [0.0]
    rounds = first.rows["round"].to_numpy()
    assert first.rows["dynamic_regret"].to_list() == np.maximum(rounds - 32, 0).tolist()


def test_compiled_policies_have_the_same_account() -> None:
    result = armrace.simulate("ucb1", SWAPPED, horizon=1000, replications=1)
    pulls = result.rows["pulls"].to_list()
    at = dict(zip(result.rows["round"], pulls, strict=True))
    # Lost are plays of the second arm in the first 32 rounds, and of the first one afterwards.
    lost = at[32][1] + at[1000][0] - at[32][0]
    assert result.sample("dynamic_regret").tolist() == [lost]


def test_where_means_stay_there_is_no_such_figure(tmp_path: Path) -> None:
    still = armrace.compare(["ucb1"], [0.6, 0.4], horizon=50, replications=2)
    assert "dynamic_regret" not in still.results["ucb1"].measures
    with pytest.raises(UnknownName, match="dynamic_regret"):
        still.table("dynamic_regret")
    still.report(tmp_path / "still.html")
    assert "dynamic regret" not in (tmp_path / "still.html").read_text()


def test_results_tables_and_reports_show_it(tmp_path: Path) -> None:
    found = armrace.compare(["ucb1", "exp3"], SWAPPED, horizon=100, replications=3)
    found.measure = "dynamic_regret"
    assert found.table()["mean"].min() > 0
    found.report(tmp_path / "moving.html")
    assert "dynamic regret" in (tmp_path / "moving.html").read_text()
    assert "dynamic" in found.to_latex()
    result = found.results["ucb1"]
    result.save(tmp_path / "moving.parquet")
    assert armrace.load(tmp_path / "moving.parquet").rows.equals(result.rows)


CHANGING = ["--environment", "changing", "--environment-set", "levels=[[0.9,0.1],[0.1,0.9]]"]
CHANGING += ["--environment-set", "changes=[100]", "--horizon", "200"]


def test_commands_rank_and_attack_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--policies", "ucb1,exp3", *CHANGING, "--replications", "3", "--no-report"]
    assert run([*words, "--measure", "dynamic-regret", "--no-worst"]) == 0
    assert "dynamic-regret" in " ".join(capsys.readouterr().out.split())
    words = ["redteam", "ucb1", *CHANGING, "--budget", "10", "--effort", "few"]
    assert run([*words, "--measure", "dynamic-regret"]) == 0
    assert "mean dynamic regret" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Changing(levels=((0.5, 0.5),), changes=(3,)), "one row more than there are"),
        (lambda: Changing(levels=((0.5,), (0.5,)), changes=(3,)), "at least 2 arms"),
        (lambda: Changing(levels=((0.5, 0.5), (0.5,)), changes=(3,)), "got"),
        (lambda: Changing(levels=((0.5, 0.5), (0.5, 2)), changes=(3,)), r"in \[0, 1\]; got 2"),
        (lambda: Changing(levels=((0.5, 0.5),) * 3, changes=(3, 3)), "got 3 and 3"),
        (lambda: Changing(levels=((0.5, 0.5),) * 3, changes=(3, 8), lasting=6), "lasting 6"),
        (lambda: Changing(levels=(0.5, 0.5), changes=(3,)), "must be a row of means"),
        (lambda: Seasonal(means=(0.5, 0.9), swings=(0.1, 0.2), period=9), "got 1.1"),
        (lambda: Seasonal(means=(0.5, 0.9), swings=(0.1,), period=9), "equally many"),
        (lambda: Seasonal(means=(0.5, 0.9), swings=(0.1, 0), period=1), "period"),
    ],
)
def test_worlds_that_cannot_be_are_refused(make: object, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        make()  # type: ignore[operator]


def test_the_means_of_others_do_not_move() -> None:
    assert not moves(Bernoulli(means=(0.6, 0.4)).law())
    assert all(moves(each.law()) for each in MOVING)
