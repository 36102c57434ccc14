"""Where a run ended and when it had decided, on plays written by hand."""

import math

import numpy as np
import pytest

from armrace.planning.plans import decision_rounds, ends_right, read_run, reading_points
from armrace.simulation import simulate

POINTS = np.array([10, 20, 40])
BEST = np.array([False, True])


def plays(*intervals: tuple[int, ...]) -> np.ndarray:
    """One run, from the plays of each arm between two checkpoints."""
    return np.cumsum(np.array([intervals]), axis=1)


@pytest.mark.parametrize("horizon", [100, 133, 1000, 1001, 250_000, 1_000_001])
def test_last_part_is_a_quarter_to_44_per_cent(horizon: int) -> None:
    points = reading_points(horizon)
    assert points[-1] == horizon
    assert 0.25 <= (horizon - points[-2]) / horizon <= 0.44


@pytest.mark.parametrize("before", [(0, 10), (10, 0)])
@pytest.mark.parametrize(("last", "right"), [((9, 11), True), ((10, 10), False), ((11, 9), False)])
def test_right_is_more_than_half_of_the_last_part_whatever_came_before(
    before: tuple[int, int], last: tuple[int, int], right: bool
) -> None:
    assert ends_right(plays(before, before, last), BEST).tolist() == [right]


def test_arms_that_are_good_enough_count_together() -> None:
    good = np.array([False, True, True])
    pulls = plays((4, 3, 3), (0, 5, 5), (1, 10, 9))
    assert ends_right(pulls, good).tolist() == [True]
    assert decision_rounds(pulls, POINTS, good).tolist() == [10.0]
    assert decision_rounds(pulls, POINTS, np.array([False, True, False])).tolist() == [math.inf]


@pytest.mark.parametrize(
    ("intervals", "rounds"),
    [
        (((0, 10), (1, 9), (2, 18)), 0.0),
        (((2, 8), (1, 9), (2, 18)), 10.0),
        (((0, 10), (2, 8), (2, 18)), 20.0),
        (((2, 8), (2, 8), (2, 18)), 20.0),
        (((0, 10), (0, 10), (3, 17)), math.inf),
        (((5, 5), (10, 0), (20, 0)), 10.0),
    ],
)
def test_decision_is_where_nearly_all_plays_begin(
    intervals: tuple[tuple[int, ...], ...], rounds: float
) -> None:
    assert decision_rounds(plays(*intervals), POINTS, BEST).tolist() == [rounds]


def test_a_result_is_read_run_by_run() -> None:
    result = simulate("ucb1", [0.1, 0.9], horizon=1000, replications=3, progress=False)
    found = read_run(result, BEST)
    assert (found["runs"], found["right"], found["budget"], found["attack"]) == (3, 3, 0.0, "none")
    assert found["regret"] == pytest.approx(result.sample("pseudo_regret").mean())
    assert found["regrets"] == result.sample("pseudo_regret").tolist()
    assert 0 < found["decision"] <= found["decision_p95"] < 750
    wrong = read_run(result, ~BEST)
    assert wrong["right"] == 0
    assert wrong["decision_p95"] == found["decision_p95"]
