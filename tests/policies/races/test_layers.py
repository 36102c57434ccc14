"""The layer of a level: the quick form and the plain one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from armrace.policies import FastSlowRace, MultiLayerRace, SharpRace
from armrace.policies.races.race import halving_layer_at, layer_at

FINE = 2**13
"""Levels between which no border of up to 12 layers lies."""


@pytest.mark.parametrize("layers", [2, 3, 7, 12])
def test_the_exponent_gives_each_layer_its_share_exactly(layers):
    share = MultiLayerRace(layers=layers).start(arms=2, horizon=1000).share
    found = np.bincount([halving_layer_at(i / FINE, layers) for i in range(FINE)], minlength=layers)
    assert (found / FINE).tolist() == share.tolist()


@pytest.mark.parametrize("layers", [2, 20, 62])
@given(bits=st.integers(0, 2**53 - 1))
@example(bits=0)
@example(bits=1)
@example(bits=2**53 - 1)
def test_every_level_has_a_layer(layers, bits):
    level = bits * 2.0**-53
    layer = halving_layer_at(level, layers)
    assert 0 <= layer < layers
    assert layer == 0 or 2.0 ** -(layer + 1) <= level < 2.0**-layer


def test_the_plain_form_gives_each_layer_its_share_exactly():
    race = MultiLayerRace(layers=7).start(arms=2, horizon=1000)
    found = np.bincount([layer_at(i / FINE, race.tail, 0) for i in range(FINE)], minlength=7)
    assert (found / FINE).tolist() == race.share.tolist()


def test_only_shares_that_halve_are_looked_up_by_their_exponent():
    assert MultiLayerRace().start(2, 1000).halving[0]
    assert SharpRace().start(2, 10**6).halving[0]
    assert not MultiLayerRace(base=3).start(2, 1000).halving[0]
    assert not FastSlowRace(corruption=8).start(2, 1000).halving[0]
    assert not SharpRace(most_corruption=0).start(2, 1000).halving[0]
