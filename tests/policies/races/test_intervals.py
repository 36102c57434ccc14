"""Intervals against values computed by hand, against brute force, and under corruption."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln

from armrace.policies.races.intervals import (
    BERNSTEIN,
    HOEFFDING,
    KL,
    KL_JEFFREYS,
    KL_MIXTURE,
    PAPER,
    ends,
)

KINDS = (PAPER, HOEFFDING, BERNSTEIN, KL, KL_MIXTURE, KL_JEFFREYS)
SHARP = KINDS[1:]
LOG_TERM = math.log(1e4)


def simple(kind, pulls, mean, log_term=LOG_TERM, allowance=0.0):
    """The interval of binary rewards."""
    total = pulls * mean
    return ends(kind, pulls, total, total, log_term, log_term, allowance)


def test_fixed_intervals_have_the_values_computed_by_hand():
    two_sided = LOG_TERM + math.log(2)
    assert simple(KL, 100, 0.9, two_sided) == pytest.approx((0.718695, 0.983246), abs=1e-6)
    assert simple(HOEFFDING, 100, 0.5, two_sided) == pytest.approx(
        (0.5 - 0.222525, 0.5 + 0.222525), abs=1e-6
    )


def test_the_mixture_has_the_values_computed_by_hand():
    assert simple(KL_MIXTURE, 100, 0.9) == pytest.approx((0.677735, 0.989289), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean", [0.0, 0.03, 0.5, 1.0])
def test_ends_may_have_levels_of_their_own(kind, mean):
    low, high = simple(kind, 50, mean)
    total = 50 * mean
    assert ends(kind, 50, total, total, LOG_TERM, LOG_TERM + 1, 0.0)[0] == low
    assert ends(kind, 50, total, total, LOG_TERM + 1, LOG_TERM, 0.0)[1] == high
    assert ends(kind, 50, total, total, LOG_TERM + 1, LOG_TERM + 1, 0.0)[0] <= low


@pytest.mark.parametrize("kind", KINDS)
@given(
    pulls=st.integers(1, 5000),
    mean=st.floats(0, 1),
    log_term=st.floats(0.1, 40),
    allowance=st.floats(0, 50),
)
def test_an_interval_is_the_mirror_image_of_that_of_the_losses(
    kind, pulls, mean, log_term, allowance
):
    low, high = simple(kind, pulls, mean, log_term, allowance)
    mirrored = simple(kind, pulls, 1 - mean, log_term, allowance)
    assert low <= mean + 1e-12
    assert high >= mean - 1e-12
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-7)


@pytest.mark.parametrize("kind", SHARP)
@given(data=st.data())
def test_the_interval_of_changed_rewards_holds_that_of_the_clean_ones(kind, data):
    """Which is all that the allowance is for: the changes add up to at most so much."""
    clean = np.array(data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=40)))
    wishes = np.array(
        data.draw(st.lists(st.floats(-1, 1), min_size=clean.size, max_size=clean.size))
    )
    changed = np.clip(clean + wishes, 0, 1)
    allowance = float(np.abs(changed - clean).sum())
    log_term = data.draw(st.floats(0.5, 20))

    def interval(rewards, allowed):
        total, squares = float(rewards.sum()), float((rewards**2).sum())
        return ends(kind, rewards.size, total, squares, log_term, log_term, allowed)

    low, high = interval(clean, 0.0)
    wide_low, wide_high = interval(changed, allowance)
    assert wide_low <= max(low, 0.0) + 1e-9 or low < 0
    assert wide_low <= low + 1e-9 or wide_low <= 0
    assert wide_high >= min(high, 1.0) - 1e-9


@pytest.mark.parametrize("kind", [KL, KL_MIXTURE, KL_JEFFREYS])
@given(pulls=st.integers(1, 5000), mean=st.floats(0, 1))
def test_divergence_is_never_wider_than_hoeffding(kind, pulls, mean):
    extra = {KL: 0.0, KL_MIXTURE: math.log(pulls + 1)}.get(
        kind, 0.5 * math.log(math.pi * (pulls + 0.5))
    )
    low, high = simple(kind, pulls, mean)
    wide_low, wide_high = simple(HOEFFDING, pulls, mean, LOG_TERM + extra)
    assert wide_low - 1e-9 <= low
    assert high <= wide_high + 1e-9


@given(pulls=st.integers(1, 10**6), share=st.floats(0, 1))
def test_jeffreys_mixture_never_loses_more_than_the_interval_pays(pulls, share):
    """``B(S + 1/2, n - S + 1/2) / pi`` against the best Bernoulli law, also for fractions S."""
    total = share * pulls
    best = sum(x * math.log(x / pulls) for x in (total, pulls - total) if x > 0)
    mixture = betaln(total + 0.5, pulls - total + 0.5) - math.log(math.pi)
    assert best - mixture <= 0.5 * math.log(math.pi * (pulls + 0.5)) + 1e-8 * pulls


@numba.njit
def ever_misses(kind, totals, mean, log_term):
    for n, total in enumerate(totals):
        low, high = ends(kind, n + 1, total, 0.0, log_term, log_term, 0.0)
        if not low <= mean <= high:
            return True
    return False


@pytest.mark.parametrize("law", ["bernoulli", "beta"])
@pytest.mark.parametrize("kind", [KL_MIXTURE, KL_JEFFREYS])
def test_intervals_for_all_times_hold_at_all_times(kind, law):
    """Level 0.2, 400 runs of 300 rewards: more than 111 misses have probability below 1e-4."""
    generator = np.random.default_rng(5)
    mean = 0.3
    draw = (
        (generator.random((400, 300)) < mean).astype(float)
        if law == "bernoulli"
        else generator.beta(3, 7, (400, 300))
    )
    log_term = math.log(1 / 0.2)
    misses = sum(ever_misses(kind, np.cumsum(rewards), mean, log_term) for rewards in draw)
    assert misses <= 111
    assert law == "beta" or misses > 0, "an interval that never fails is not sharp"


def test_bernstein_beats_hoeffding_where_rewards_hardly_vary():
    assert simple(BERNSTEIN, 5000, 0.01)[1] < simple(HOEFFDING, 5000, 0.01)[1]
    assert simple(BERNSTEIN, 1, 1.0) == simple(HOEFFDING, 1, 1.0)
