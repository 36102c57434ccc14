"""Intervals by betting are conservative, and narrow enough to be of use."""

import math

import numpy as np

from armrace.statistics.bounded_means import betting_interval


def test_betting_intervals_miss_less_often_than_their_level():
    generator = np.random.default_rng(4)
    missed = 0
    for _ in range(200):
        sample = np.minimum(generator.exponential(1.0, 300), 20.0)
        low, high = betting_interval(sample, 20.0, 0.05)
        missed += not low <= 1 - math.exp(-20) <= high
    assert missed <= 20  # more have a probability below 0.1% at a level of 5%


def test_betting_intervals_see_a_few_per_cent():
    sample = np.random.default_rng(5).uniform(0.9, 1.3, 2_000)
    low, high = betting_interval(sample, 20.0, 1e-4)
    assert 1 < low < 1.1 < high
