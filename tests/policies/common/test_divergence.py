"""Divergence and its bounds against hand-computed values and bisection."""

import math

import numpy as np
import pytest

from armrace.policies.common.divergence import improve_upper_kl, kl, lower_kl, upper_kl


def bisect(p, level):
    low, high = p, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(p, middle) <= level else (low, middle)
    return low


def test_bounds_as_computed_by_hand():
    assert upper_kl(0.5, math.log(100) / 10) == pytest.approx(0.887909, abs=5e-7)
    assert upper_kl(0.0, math.log(100) / 10) == pytest.approx(0.369043, abs=5e-7)
    assert upper_kl(0.9, math.log(1000) / 20) == pytest.approx(0.998761, abs=5e-7)


def test_bounds_in_closed_form():
    for level in (1e-9, 1e-3, 0.1, 3.0, 30.0):
        half = (1 + math.sqrt(-math.expm1(-2 * level))) / 2
        assert upper_kl(0.5, level) == pytest.approx(half, abs=1e-15)
        assert upper_kl(0.0, level) == pytest.approx(-math.expm1(-level), rel=1e-15)
        assert upper_kl(1.0, level) == 1.0
        assert lower_kl(0.0, level) == 0.0


def test_edges():
    assert kl(0.3, 0.3) == 0
    assert kl(0.3, 0.0) == kl(0.3, 1.0) == math.inf
    assert kl(0.0, 0.0) == kl(1.0, 1.0) == 0
    assert upper_kl(0.3, 0.0) == 0.3


def test_newton_finds_what_bisection_finds_from_anywhere():
    generator = np.random.default_rng(0)
    for _ in range(2000):
        p = generator.choice([generator.random(), generator.random() ** 8])
        p = p if generator.random() < 0.5 else 1 - p
        level = 10 ** generator.uniform(-9, 2)
        expected = bisect(p, level)
        assert upper_kl(p, level) == pytest.approx(expected, abs=1e-15)
        guess = expected + (expected - p) * generator.uniform(-1.5, 1.5)
        assert improve_upper_kl(p, level, guess) == pytest.approx(expected, abs=1e-14)
