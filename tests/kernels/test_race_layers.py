"""The layer of a level: the quick form against the plain one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from armrace.kernels.race import halving_layer_at, layer_at
from armrace.policies import FastSlowRace, MultiLayerRace, SharpRace


@pytest.mark.parametrize("layers", [2, 3, 10, 20, 50])
@given(bits=st.integers(0, 2**53 - 1))
@example(bits=0)
@example(bits=2**53 - 1)
def test_the_exponent_tells_the_layer(layers, bits):
    race = MultiLayerRace(layers=layers).start(arms=2, horizon=1000)
    level = bits * 2.0**-53
    assert halving_layer_at(level, race.share) == layer_at(level, race.tail, 0)


@pytest.mark.parametrize("layers", [2, 10, 30])
def test_the_exponent_tells_the_layer_at_every_border(layers):
    race = MultiLayerRace(layers=layers).start(arms=2, horizon=1000)
    for border in race.tail[1:-1]:
        for level in (border - 2.0**-53, border, border + 2.0**-53):
            assert halving_layer_at(level, race.share) == layer_at(level, race.tail, 0)


def test_only_shares_that_halve_are_looked_up_by_their_exponent():
    assert MultiLayerRace().start(2, 1000).halving[0]
    assert SharpRace().start(2, 10**6).halving[0]
    assert not MultiLayerRace(base=3).start(2, 1000).halving[0]
    assert not FastSlowRace(corruption=8).start(2, 1000).halving[0]
    assert not SharpRace(most_corruption=0).start(2, 1000).halving[0]


def test_layers_are_drawn_with_their_shares():
    """Each share within five standard errors of 200,000 levels; errs once in 10^5 for new seeds."""
    layers = 10
    share = MultiLayerRace(layers=layers).start(2, 1000).share
    levels = np.random.default_rng(3).random(200_000)
    found = np.bincount([halving_layer_at(x, share) for x in levels], minlength=layers)
    errors = 5 * np.sqrt(share * (1 - share) / levels.size)
    assert (np.abs(found / levels.size - share) < errors).all()
