"""Two samples of one arm: e-values, thresholds, and the least change that reconciles them."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import binom

from armrace.audit.evidence import compare_samples, pairs_of
from armrace.policies.common.blocks import log_evidence
from armrace.policies.common.divergence import lower_kl, upper_kl
from armrace.policies.races.intervals import KL_MIXTURE, ends

SAMPLES = [
    (50, 0.0, 50, 50.0),
    (40, 3.0, 400, 220.5),
    (1000, 980.0, 30, 9.0),
    (256, 0.0, 9000, 900.0),
]


@pytest.mark.parametrize("mean", [0.003, 0.05, 0.3, 0.5, 0.97])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 40), (25, 25), (200, 8)])
def test_the_e_value_of_honest_samples_has_expectation_at_most_one(mean, first, second):
    """Exact, by enumeration; it is above a hundredth, so that a factor missing would show."""
    expectation = sum(
        binom.pmf(s, first, mean)
        * binom.pmf(r, second, mean)
        * math.exp(log_evidence(first, s, second, r))
        for s, r in itertools.product(range(first + 1), range(second + 1))
    )
    assert 0.01 < expectation <= 1.0


@pytest.mark.parametrize("sample", SAMPLES)
def test_evidence_is_below_the_exact_mixture_by_less_than_ln_2(sample):
    n, s, m, r = sample
    mean = (s + r) / (n + m)
    exact = betaln(s + 0.5, n - s + 0.5) + betaln(r + 0.5, m - r + 0.5) - 2 * math.log(math.pi)
    exact -= (s + r) * math.log(mean) + (n + m - s - r) * math.log(1 - mean)
    assert exact - math.log(2) <= log_evidence(n, s, m, r) <= exact


def test_evidence_of_rewards_that_are_all_alike_is_finite_and_negative():
    for total in (0.0, 1.0):
        assert -10 < log_evidence(100, 100 * total, 20, 20 * total) < 0
    almost = np.nextafter(1.0, 0.0)
    assert log_evidence(10**9, 1e9, 16, 16 * almost) < 0


def test_many_pairs_at_once_are_as_one_at_a_time():
    n, s, m, r = (np.array(column) for column in zip(*SAMPLES, strict=True))
    found = pairs_of(n, s, m, r)
    for index, sample in enumerate(SAMPLES):
        assert found.evidence[index] == pytest.approx(log_evidence(*sample), rel=1e-9)
        one = compare_samples(*sample, log_term=7.0)
        assert one == pytest.approx(found.comparison(index, 7.0))
        assert one.threshold == pytest.approx(7.0 + found.price[index])


def reconciling_costs(compared, steps=300):
    """What it costs to reconcile the samples, on a grid of ways of moving both means."""
    gaps = np.linspace(0.0, compared.upper_mean - compared.mean, steps)
    moves = itertools.product(compared.pulls * gaps, compared.upper_pulls * gaps)
    return [up + down for up, down in moves if not compared.rejects(up, down)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_cheaper_change_reconciles_the_samples(sample):
    compared = compare_samples(*sample, log_term=7.0)
    least = compared.least_change()
    step = (compared.upper_mean - compared.mean) / 299
    costs = reconciling_costs(compared)
    assert 1.0 < least <= min(costs)
    assert min(costs) <= least + step * max(compared.pulls, compared.upper_pulls)


def change_between_intervals(pulls, alpha):
    """The textbook certificate: means 0 and 1, moved equally until their KL mixtures touch."""
    level = math.log((pulls + 1) / alpha) / pulls
    apart, touching = 0.0, 0.5
    for _ in range(40):
        middle = (apart + touching) / 2
        if upper_kl(middle, level) < lower_kl(1 - middle, level):
            apart = middle
        else:
            touching = middle
    return 2 * apart


def test_the_pair_certifies_more_than_two_disjoint_intervals_do():
    """Two arms, ten layers, 0.1 in all: worked by hand for intervals at 0.1/(2 x 10)."""
    log_term = math.log(1 / 0.005)
    assert ends(KL_MIXTURE, 50, 0.0, 0.0, log_term, log_term, 0.0) == pytest.approx(
        (0.0, 0.168566), abs=1e-6
    )
    assert ends(KL_MIXTURE, 50, 50.0, 50.0, log_term, log_term, 0.0) == pytest.approx(
        (0.831434, 1.0), abs=1e-6
    )
    textbook = change_between_intervals(50, 0.005)
    assert textbook == pytest.approx(0.411905, abs=1e-6)
    ours = compare_samples(50, 0.0, 50, 50.0, math.log(2 * 45 / 0.1)).least_change()
    assert 50 * textbook == pytest.approx(20.59, abs=0.01)
    assert ours == pytest.approx(26.138, abs=0.01)
