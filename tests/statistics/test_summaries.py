"""Summaries against sums done by hand, and the interval's coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from armrace.statistics import mean_interval, summarise
from armrace.statistics.distributions import student_quantile


def test_a_summary_by_hand():
    # Deviations from the mean, 4: 6, -3, -2, -1, 0, whose squares sum to 50.
    summary = summarise(np.array([10.0, 1.0, 2.0, 3.0, 4.0]))
    assert summary.mean == 4.0
    assert summary.stderr == pytest.approx(math.sqrt(50 / 4 / 5))
    assert summary.p05 == pytest.approx(1.2)
    assert summary.p50 == 3.0
    assert summary.p95 == pytest.approx(8.8)
    assert summary.max == 10.0


def test_one_observation_has_no_error():
    summary = summarise(np.array([3.5]))
    assert summary == (3.5, 0.0, 3.5, 3.5, 3.5, 3.5)
    assert mean_interval(np.array([3.5])) == (3.5, 3.5)


def test_the_interval_has_the_width_of_student():
    sample = np.random.default_rng(2).normal(3.0, size=400)
    low, high = mean_interval(sample)
    assert (low + high) / 2 == pytest.approx(sample.mean())
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 399) * stats.sem(sample))


@pytest.mark.parametrize("freedom", [*range(1, 31), 49, 99, 499, 999, 1000, 1001, 5000, 10**6])
def test_quantiles_of_student_are_those_of_scipy_far_into_the_tail(freedom):
    for level in (0.5, 0.25, 0.1, 0.05, 0.025, 1e-2, 1e-3, 2.5e-5, 1e-6, 1e-9):
        for probability in (1 - level, level):
            expected = stats.t.ppf(probability, freedom)
            assert student_quantile(probability, freedom) == pytest.approx(
                expected, rel=1e-7, abs=1e-12
            )


def test_joint_intervals_are_wide_enough():
    gaps = np.array([1.0, 2.0, 4.0, 8.0])
    low, high = mean_interval(gaps, level=2 * (1 - 0.999))
    assert high - low == pytest.approx(2 * 10.214531852407 * stats.sem(gaps))


def test_the_interval_covers_as_often_as_it_says():
    # Exact binomial test of 95% coverage over 4000 samples; error probability 1e-6.
    samples = np.random.default_rng(3).random((4000, 200))
    intervals = (mean_interval(sample) for sample in samples)
    covered = sum(low <= 0.5 <= high for low, high in intervals)
    assert stats.binomtest(covered, 4000, 0.95).pvalue > 1e-6


def test_a_summary_is_of_plain_numbers():
    assert all(type(figure) is float for figure in summarise(np.arange(5.0)))
