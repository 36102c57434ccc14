"""Beta laws against scipy: density, draws, and which of several draws is largest."""

import math

import numpy as np
import pytest
from scipy import stats

from armrace.policies.common.posteriors import draw_beta, law_of_largest, log_density, log_peak
from armrace.randomness import Purpose, stream_for


def law(above, below):
    out = np.empty(len(above))
    law_of_largest(np.array(above, dtype=float), np.array(below, dtype=float), out)
    return out


def law_by_scipy(above, below):
    """Eight nodes between every two of 800 quantiles of every arm."""
    a, b = np.array(above) + 1.0, np.array(below) + 1.0
    levels = np.concatenate([np.logspace(-15, -2, 200), np.linspace(0.01, 0.99, 400)])
    quantiles = [stats.beta.ppf(levels, *shape) for shape in zip(a, b, strict=True)]
    quantiles += [stats.beta.isf(levels[:200], *shape) for shape in zip(a, b, strict=True)]
    edges = np.unique(np.concatenate(quantiles))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, np.newaxis] / 2
    x = edges[:-1, np.newaxis] + half * (1 + nodes)
    functions = [stats.beta.cdf(x, *shape) for shape in zip(a, b, strict=True)]
    return np.array(
        [
            np.sum(
                half
                * weights
                * stats.beta.pdf(x, a[i], b[i])
                * np.prod([functions[j] for j in range(a.size) if j != i], axis=0)
            )
            for i in range(a.size)
        ]
    )


@pytest.mark.parametrize(
    ("above", "below"), [(0, 0), (1, 0), (0, 7), (3, 9), (500, 12), (10**7, 3 * 10**6)]
)
def test_density_is_that_of_scipy(above, below):
    mode = (above + 1) / (above + below + 2)
    for x in np.clip([mode / 2, 0.999 * mode, mode, 1.001 * mode, (1 + mode) / 2], 0.01, 0.99):
        ours = math.exp(log_density(above, below, log_peak(above, below), x))
        # With millions of successes it is scipy's own logarithms that cancel.
        assert ours == pytest.approx(stats.beta.pdf(x, above + 1, below + 1), rel=3e-8, abs=1e-300)


def test_law_as_computed_by_hand():
    assert law([1, 0], [0, 0]) == pytest.approx([2 / 3, 1 / 3], abs=1e-13)
    assert law([0] * 7, [0] * 7) == pytest.approx([1 / 7] * 7, abs=1e-13)
    assert law([90] * 3, [10] * 3) == pytest.approx([1 / 3] * 3, abs=1e-12)


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ([67, 3, 6231, 0], [6269, 0, 0, 17]),
        ([18, 8, 28, 0, 7, 4], [17, 8, 40, 1, 4, 4]),
        ([0, 1654, 17, 3, 180878, 396590], [17, 162543, 0, 0, 181344, 0]),
        ([500_300, 30, 240], [499_700, 20, 260]),
        ([3_000_000, 2_998_000], [7_000_000, 7_002_000]),
    ],
)
def test_law_is_that_of_scipy(above, below):
    expected = law_by_scipy(above, below)
    assert law(above, below) == pytest.approx(expected / expected.sum(), abs=1e-10)


@pytest.mark.long  # like the law of fewer arms, which a parametrised test has above
def test_law_of_a_hundred_arms():
    above = np.random.default_rng(2).binomial(30, 0.6, size=100)
    expected = law_by_scipy(above, 30 - above)
    assert law(above, 30 - above) == pytest.approx(expected / expected.sum(), abs=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 500), (7, 3), (40_000, 90)])
def test_draws_have_the_law(shape):
    """Kolmogorov's test at the level 1e-6 on a fixed stream, six shapes."""
    stream = stream_for(3, Purpose.LEARNER, 0)
    draws = [draw_beta(*map(float, shape), stream) for _ in range(20_000)]
    assert stats.kstest(draws, stats.beta(*shape).cdf).pvalue > 1e-6
