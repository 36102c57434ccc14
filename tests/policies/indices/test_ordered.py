"""Rewards in order of size against sorting them."""

import numpy as np
import pytest

from armrace.policies.crucb import shorth
from armrace.policies.indices.histories import (
    PAGE,
    insert,
    make_ordered,
    median,
    reward_of_rank,
    sum_of_ranks,
)
from armrace.policies.rucb import median_deviation

SIZE = 1000
GENERATOR = np.random.default_rng(1)
REWARDS = {
    "continuous": GENERATOR.random(SIZE),
    "binary": (GENERATOR.random(SIZE) < 0.5).astype(float),
    "rounded": GENERATOR.random(SIZE).round(1),
    "rising": np.arange(SIZE) / SIZE,
    "falling": 1 - np.arange(SIZE) / SIZE,
    "equal": np.full(SIZE, 0.25),
}


@pytest.mark.parametrize("name", REWARDS)
def test_order_statistics_are_those_of_the_sorted_rewards(name):
    ordered = make_ordered(arms=2, capacity=SIZE, cursors=3)
    seen, near = [], 0
    for reward in REWARDS[name]:
        assert insert(ordered, 1, reward)
        seen.append(reward)
        middle = median(ordered, 1, 0)
        assert middle == np.median(seen)
        deviation, near = median_deviation(ordered, 1, 1, 2, middle, near)
        assert deviation == pytest.approx(np.median(np.abs(np.array(seen) - middle)), abs=1e-15)
    in_order = [reward_of_rank(ordered, 1, 0, rank) for rank in range(SIZE)]
    assert in_order == sorted(seen)
    for first, last in ((0, SIZE), (0, 0), (3, 500), (640, 700)):
        total = sum_of_ranks(ordered, 1, 0, first, last)
        assert total == pytest.approx(sum(in_order[first:last]), abs=1e-10)


@pytest.mark.parametrize("name", REWARDS)
def test_shorth_is_that_of_all_intervals(name):
    ordered = make_ordered(arms=1, capacity=SIZE, cursors=2)
    near = 0
    for count, reward in enumerate(REWARDS[name], start=1):
        insert(ordered, 0, reward)
        if count % 13 == 1:
            held = max(1, (3 * count) // 4)
            x = np.sort(REWARDS[name][:count])
            start = int(np.argmin(x[held - 1 :] - x[: count - held + 1]))
            mean, near = shorth(ordered, 0, held, near)
            assert mean == pytest.approx(x[start : start + held].mean(), abs=1e-12)
            assert near == start


def test_what_does_not_fit_is_refused_and_changes_nothing():
    ordered = make_ordered(arms=3, capacity=4 * PAGE, cursors=1)
    kept = 0
    for arm in range(3):
        kept += sum(insert(ordered, arm, reward) for reward in GENERATOR.random(10 * PAGE))
    assert ordered.sizes.sum() == kept >= 4 * PAGE
    for arm in range(3):
        size = ordered.sizes[arm]
        values = [reward_of_rank(ordered, arm, 0, rank) for rank in range(size)]
        assert values == sorted(values)


def test_as_many_as_were_asked_for_always_fit():
    """Rising rewards leave pages half empty, the worst case."""
    capacity = 50 * PAGE
    ordered = make_ordered(arms=5, capacity=capacity, cursors=1)
    for number in range(capacity):
        arm = 0 if number % 2 else number % 5
        assert insert(ordered, arm, number / capacity)
