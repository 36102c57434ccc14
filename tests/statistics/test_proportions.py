import numpy as np
import pytest
from scipy import stats

from armrace.errors import InvalidParameter
from armrace.statistics import binomial_tail, clopper_pearson, slope_of_growth
from armrace.statistics.proportions import wilson_interval


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
