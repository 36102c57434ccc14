"""Geometric and binomial variates against exact probabilities; seeds are fixed."""

import math

import numba
import numpy as np
import pytest
from scipy import stats

from armrace.kernels.streams import binomial, geometric
from armrace.randomness import Purpose, stream_for

SIGNIFICANCE = 1e-4
"""Each test errs with this probability for a fresh seed; seeds are fixed."""


def stream(number=0):
    return stream_for(11, Purpose.SKIPPED_ROUNDS, number)


@numba.njit
def binomials(source, coins, chance, count):
    return np.array([binomial(source, coins, chance) for _ in range(count)])


@numba.njit
def geometrics(source, chance, most, count):
    return np.array([geometric(source, chance, most) for _ in range(count)])


def test_interpreted_they_draw_the_same():
    """So that what is said of the compiled functions below is said of both."""
    for coins, chance in ((20, 0.3), (300, 0.4), (10**12, 0.37)):
        source = stream()
        drawn = [binomial(source, coins, chance) for _ in range(20)]
        assert drawn == binomials(stream(), coins, chance, 20).tolist()
    source = stream()
    drawn = [geometric(source, 0.01, 10**9) for _ in range(20)]
    assert drawn == geometrics(stream(), 0.01, 10**9, 20).tolist()


@pytest.mark.parametrize(
    ("coins", "chance"),
    [(1, 0.3), (24, 0.5), (25, 0.5), (100, 0.03), (1000, 0.97), (5000, 0.4), (300, 1e-3)],
)
def test_binomials_have_their_law(coins, chance):
    drawn = binomials(stream(), coins, chance, 3000)
    low, high = stats.binom.ppf([1e-9, 1 - 1e-9], coins, chance)
    values = np.arange(low, high + 1)
    expected = stats.binom.pmf(values, coins, chance) * drawn.size
    cells = np.cumsum(expected) // 60  # so that every cell expects some sixty
    observed = np.bincount(
        cells[np.clip(drawn - int(low), 0, values.size - 1)].astype(int),
        minlength=int(cells[-1]) + 1,
    )
    means = np.bincount(cells.astype(int), weights=expected)
    kept = means > 5
    statistic = ((observed - means)[kept] ** 2 / means[kept]).sum()
    assert stats.chi2.sf(statistic, max(1, kept.sum() - 1)) > SIGNIFICANCE


@pytest.mark.parametrize("coins", [10**9, 10**12, 10**15])
def test_binomials_of_many_coins_have_the_right_mean_and_spread(coins):
    chance = 0.37
    deviation = math.sqrt(coins * chance * (1 - chance))
    scores = (binomials(stream(1), coins, chance, 2000) - coins * chance) / deviation
    assert stats.kstest(scores, "norm").pvalue > SIGNIFICANCE


def test_certain_coins():
    source = stream(2)
    assert binomial(source, 10**12, 0.0) == 0
    assert binomial(source, 10**12, 1.0) == 10**12
    assert binomial(source, 0, 0.5) == 0


@pytest.mark.parametrize("chance", [0.9, 0.3, 0.01])
def test_geometrics_have_their_law(chance):
    drawn = geometrics(stream(3), chance, 10**9, 4000)
    expected_mean = (1 - chance) / chance
    error = math.sqrt(1 - chance) / chance / math.sqrt(drawn.size)
    assert abs(drawn.mean() - expected_mean) < 4 * error
    share_at_zero = (drawn == 0).mean()
    assert abs(share_at_zero - chance) < 4 * math.sqrt(chance * (1 - chance) / drawn.size)


def test_geometrics_stop_where_they_are_told_to():
    source = stream(4)
    assert geometric(source, 1.0, 5) == 0
    assert geometric(source, 0.0, 5) == 5
    assert max(geometric(source, 1e-6, 5) for _ in range(100)) == 5
