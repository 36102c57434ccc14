"""Distributions, intervals and summaries: against SciPy, sums by hand, and their coverage."""

import math
import random

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2

from armrace.errors import InvalidParameter
from armrace.statistics import (
    binomial_tail,
    clopper_pearson,
    interval_for_all_times,
    mean_interval,
    slope_of_growth,
    summarise,
)
from armrace.statistics.bounded_means import betting_interval
from armrace.statistics.distributions import chi_square_tail, student_quantile
from armrace.statistics.proportions import wilson_interval


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


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 99, 1000])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0])
def test_the_tail_is_that_of_scipy(freedom, ratio):
    statistic = ratio * freedom
    expected = chi2.sf(statistic, freedom)
    assert chi_square_tail(statistic, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


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


@pytest.mark.parametrize("runs", [1, 7, 100, 20_000])
@pytest.mark.parametrize("probability", [1e-9, 0.03, 0.5, 0.97])
def test_tails_agree_with_scipy(runs, probability):
    for successes in {0, 1, runs // 3, runs // 2, runs - 1, runs}:
        expected = stats.binom.sf(successes - 1, runs, probability)
        assert binomial_tail(successes, runs, probability) == pytest.approx(
            expected, rel=1e-8, abs=1e-300
        )


@pytest.mark.parametrize("runs", [1, 12, 300, 50_000])
@pytest.mark.parametrize("level", [0.3, 0.05, 1e-6])
def test_intervals_agree_with_scipy(runs, level):
    for successes in {0, 1, runs // 4, runs // 2, runs - 1, runs}:
        others = runs - successes
        low = stats.beta.ppf(level / 2, successes, others + 1) if successes else 0
        high = stats.beta.isf(level / 2, successes + 1, others) if others else 1
        found = clopper_pearson(successes, runs, level)
        assert found == pytest.approx((low, high), rel=1e-8)


@pytest.mark.parametrize("successes", [0, 3, 17, 40])
@pytest.mark.parametrize("level", [0.3, 0.05])
def test_wilsons_intervals_agree_with_scipy(successes, level):
    expected = stats.binomtest(successes, 40).proportion_ci(1 - level, method="wilson")
    assert wilson_interval(successes / 40, 40, level) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize(("successes", "runs"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, runs):
    with pytest.raises(InvalidParameter, match=f"got {successes} of {runs}"):
        clopper_pearson(successes, runs)


def test_intervals_of_growth_cover_as_often_as_they_say():
    # 400 samples at level 0.1: between 20 and 60 misses but for a probability below 1e-4.
    generator = np.random.default_rng(1)
    points = np.array([10.0, 20.0, 40.0, 80.0])
    missed = 0
    for _ in range(400):
        noise = generator.normal(size=(30, 4)) * points / 10  # spread grows with the point
        slope = slope_of_growth(points, 3 * points + 5 + noise, 0.1)
        missed += not slope.low <= 3 <= slope.high
    assert 20 <= missed <= 60


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
