"""crUCB against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.policies.crucb import CrUcb, bonus_scale
from playing import learned, make_table, play, play_indices

ESTIMATORS = ("trimmed", "shorth", "median")


def estimate(rewards, alpha, estimator):
    x = sorted(rewards)
    count = len(x)
    if estimator == "median":
        return float(np.median(x))
    if estimator == "trimmed":
        cut = math.ceil(alpha * count)
        kept = x[cut : count - cut] or x
        return sum(kept) / len(kept)
    held = max(1, math.floor((1 - alpha) * count))
    start = min(range(count - held + 1), key=lambda i: x[i + held - 1] - x[i])
    return sum(x[start : start + held]) / held


def textbook_arms(table, alpha, estimator):
    def index(seen, number):
        scale = 0.5 / (1 - 2 * alpha) * math.sqrt(4 * math.log(number))
        return estimate(seen, alpha, estimator) + scale / math.sqrt(len(seen))

    return play_indices(index, table)


def test_trimmed_mean_as_computed_by_hand():
    state = learned(CrUcb(alpha=0.2), [0.0, 0.0, 1.0, 1.0, 9.0])
    assert state.estimates[0] == pytest.approx(2 / 3)


def test_a_fraction_of_a_reward_is_trimmed_as_a_whole_one():
    rewards = [0.0, 0.1, 0.3, 0.35, 0.45, 0.9, 1.0]
    state = learned(CrUcb(alpha=0.2), rewards)  # ceil(1.4) = 2 at each end
    assert state.estimates[0] == pytest.approx((0.3 + 0.35 + 0.45) / 3)


def test_where_trimming_leaves_nothing_all_rewards_count():
    """With 0.4 trimmed at each end, 5 rewards leave 1 and 6 rewards would leave none."""
    rewards = [0.1, 0.2, 0.4, 0.8, 1.0, 0.5]
    assert learned(CrUcb(alpha=0.4), rewards[:5]).estimates[0] == pytest.approx(0.4)
    assert learned(CrUcb(alpha=0.4), rewards).estimates[0] == pytest.approx(0.5)
    assert learned(CrUcb(alpha=0.4), [*rewards, 0.6]).estimates[0] == pytest.approx(0.5)


def test_shorth_as_computed_by_hand():
    """It holds floor(0.75 * 5) = 3 of 5 rewards; of two equally short intervals, the lower."""
    policy = CrUcb(alpha=0.25, estimator="shorth")
    assert learned(policy, [0.0, 0.5, 0.6, 0.8, 1.0]).estimates[0] == pytest.approx(1.9 / 3)
    assert learned(policy, [0.0, 0.25, 0.5, 0.75, 1.0]).estimates[0] == pytest.approx(0.25)


def test_without_trimming_it_is_the_mean_with_the_bonus_of_a_deviation_of_one_half():
    rewards = np.random.default_rng(0).random(50)
    assert learned(CrUcb(alpha=0), rewards).estimates[0] == pytest.approx(rewards.mean())
    expected = 0.5 * math.sqrt(4 * math.log(100) / 10)
    assert bonus_scale(100, 0.0) / math.sqrt(10) == pytest.approx(expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("alpha", [0.0, 0.13, 0.4])
def test_plays_as_printed(estimator, alpha):
    table = np.random.default_rng(2).random((400, 3)) ** [1.0, 1.2, 0.9]
    arms, _ = play(CrUcb(alpha=alpha, estimator=estimator), table)
    assert arms == textbook_arms(table, alpha, estimator)


@pytest.mark.parametrize("estimator", ["trimmed", "median"])
def test_plays_as_printed_on_bernoulli_arms(estimator):
    table = make_table(600)
    arms, _ = play(CrUcb(estimator=estimator), table)
    assert arms == textbook_arms(table, 0.1, estimator)
