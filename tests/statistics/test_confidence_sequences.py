"""Intervals that hold at all times at once."""

import random

import pytest

from armrace.statistics import interval_for_all_times


def test_intervals_hold_at_all_times_at_once():
    """Of 150 runs at level 0.2 at most 30 are expected to miss; more than 50 have chance 1e-4."""
    draw, missed = random.Random(7), 0
    for _ in range(150):
        total = 0.0
        for count in range(1, 61):
            total += draw.random() < 0.3
            low, high = interval_for_all_times(total, count, 0.2)
            if not low <= 0.3 <= high:
                missed += 1
                break
    assert missed <= 50
    assert missed >= 1  # not so wide that they say nothing


@pytest.mark.parametrize("total", [0.0, 0.25, 5.0, 9.75, 10.0])
def test_intervals_contain_the_mean_and_stay_within_the_range(total):
    low, high = interval_for_all_times(total, 10, 0.05)
    assert 0.0 <= low <= total / 10 <= high <= 1.0
