"""Probabilities from estimated losses: the solver of the two barriers, and exponentials."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armrace.policies.leaders.estimates import (
    LOGARITHMIC_BARRIER,
    TSALLIS_ENTROPY,
    add_loss,
    exponential_weights,
    power_weights,
)

POWERS = (LOGARITHMIC_BARRIER, TSALLIS_ENTROPY)
LOSSES = {
    "equal": np.zeros(10),
    "two": np.array([2.0, 0.0]),
    "negative": np.array([-30.0, 5.0, 7.0]),
    "far apart": np.array([0.0, 1e9, 1e3, 1e-3]),
    "far from zero": 1e12 + np.arange(5.0),
    "many": np.random.default_rng(0).exponential(50, 1000),
}


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("scale", [1e-4, 0.1, 2.0])
@pytest.mark.parametrize("start", [0.0, -1e30, 1e30, -1.7])
def test_the_solution_has_its_form_whatever_the_start(power, losses, scale, start):
    out = np.empty(losses.size)
    normaliser = power_weights(losses, scale, power, start, out)
    assert out.sum() == pytest.approx(1, abs=1e-12)
    shifted = losses - losses.min()
    distance = out.max() ** (-1 / power)
    assert out == pytest.approx((scale * shifted + distance) ** -power, rel=1e-9)
    assert normaliser == pytest.approx(losses.min() - distance / scale, rel=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_equal_losses_give_equal_probabilities(power):
    out = np.empty(7)
    power_weights(np.full(7, 3.0), 0.3, power, 0.0, out)
    assert out == pytest.approx(np.full(7, 1 / 7), rel=1e-12)


def test_exponential_weights_of_losses_that_no_exponential_can_hold():
    out = np.empty(3)
    exponential_weights(np.array([1e9, 1e9 + 1, 1e12]), 0.5, out)
    assert out == pytest.approx([1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5)), 0])


def test_a_loss_of_vanishing_probability_stays_finite():
    losses = np.zeros(2)
    add_loss(losses, 1, 1.0, 5e-324)
    assert losses == pytest.approx([0.0, 1e300])
    out = np.empty(2)
    power_weights(losses, 1.0, TSALLIS_ENTROPY, 0.0, out)
    assert out.tolist() == [1.0, 0.0]
