"""The guard's bounds against values computed by hand, and where they must agree."""

import math

import pytest

from armrace.theory import (
    guard_layers,
    guard_overhead,
    guarded_regret,
    most_labelled_rounds,
    moves_until_deleted,
    price_of_high_probability,
    rounds_until_moves,
    sharp_plays_until_deleted,
)


def test_layers_as_computed_by_hand():
    """K = 10, T = 100, delta = 0.05, s = 2, rho = 4: layers tolerate 16, 32, 64 and 128."""
    layers = guard_layers(10, 100, 0.05, share=2, first=4.0)
    assert [layer.tolerated for layer in layers] == [16, 32, 64, 128]
    assert [64 * layer.share for layer in layers] == [9, 4, 2, 1]
    assert layers[0].log_upper == pytest.approx(math.log(2 * 4 / 0.05))
    assert layers[2].log_lower == pytest.approx(math.log(2 * 10 * 64 / 0.05))
    used = [1 / 4, 7 / 64, 3 / 64, 1 / 64]
    for layer, share, place in zip(layers, used, (1, 2, 3, 4), strict=True):
        rho, c = share * layer.tolerated, layer.allowance
        assert rho <= 4
        assert c * math.log(c / rho) - c + rho == pytest.approx(math.log(4**place / 0.05))


def test_layers_spend_a_third_of_delta_each_on_intervals_and_allowances():
    layers = guard_layers(3, 10**6, 0.1)
    upper = [math.exp(-layer.log_upper) for layer in layers]
    lower = [3 * math.exp(-layer.log_lower) for layer in layers]
    assert 0.0333 < sum(upper) + sum(lower) < 0.1 / 3


@pytest.mark.parametrize(
    ("gaps", "horizon", "parameters", "expected"),
    [
        ([0.1] * 9, 10**9, (4, 1, 1.0), 154_860),
        ([0.1] * 9, 10**9, (2, 5, 4.0), 157_846),
        ([0.9], 10**6, (4, 1, 1.0), 2_392),
    ],
)
def test_overheads_that_another_program_computed(gaps, horizon, parameters, expected):
    assert round(guard_overhead(gaps, horizon, 0.05, *parameters)) == expected


def test_the_bound_of_two_arms_is_what_the_first_layer_waits_for_and_slower_turns():
    """T is so long that every layer has room for all of its turns, except the slowest ones."""
    gap, horizon, delta, lead = 0.5, 10**12, 0.1, 1
    layers = guard_layers(2, horizon, delta)
    failure = delta / (8 * len(layers))
    turns = [sharp_plays_until_deleted(gap, layer) for layer in layers]
    waited = rounds_until_moves((1 + lead) * 2 * turns[0], layers[0].share, failure)
    expected = gap * waited
    for layer, limit in zip(layers[1:], turns[1:], strict=True):
        most = int(most_labelled_rounds(layer.share, horizon, failure) / (1 + lead))
        expected += gap * min(limit, most)
    assert guarded_regret([gap], horizon, delta, 0).pseudo_regret == pytest.approx(expected)
    assert turns[-1] > most_labelled_rounds(layers[-1].share, horizon, failure)  # a slowest one


def test_moves_count_turns_of_all_arms_and_the_rounds_of_the_base():
    assert moves_until_deleted([100, 100]) == [300, 300]  # Lemma 6, before the factor 1 + lead


def test_labels_are_drawn_as_often_as_bernsteins_bound_allows():
    most, expected = most_labelled_rounds(0.001, 10**6, 1e-4), 1000.0
    x = most - expected
    assert math.exp(-(x**2) / (2 * (expected + x / 3))) == pytest.approx(1e-4)
    assert most_labelled_rounds(0.5, 3, 1e-9) == 3


def test_the_bound_grows_linearly_with_the_corruption_and_is_flat_up_to_what_is_tolerated():
    bounds = [guarded_regret([0.3], 10**12, 0.1, c).pseudo_regret for c in (0, 16, 17, 1024, 2**17)]
    assert bounds[0] == bounds[1] < bounds[2]
    assert 64 < bounds[4] / bounds[3] < 256
    assert guarded_regret([0.3], 10**4, 0.1, 10**4).pseudo_regret == pytest.approx(3000)


def test_the_regret_adds_twice_the_corruption():
    one, other = (guarded_regret([0.3], 10**12, 0.1, c) for c in (3, 13))
    assert other.regret - one.regret == pytest.approx(20)


def test_the_price_of_high_probability_as_computed_by_hand():
    """gap 0.1: kl(0.4, 0.6) = 0.2 ln 1.5 = 0.081093; evidence ln 25/0.081093 = 39.694.

    C0 = 2 39.694/(0.01 9) = 882.08, and 10^9/882.08 has six whole factors of 10.
    """
    assert price_of_high_probability(0.1, 10**9, 0.01, 10) == pytest.approx(6 * 39.694, abs=0.01)
    assert price_of_high_probability(0.1, 10**9, 0.01, 10, least=10**5) == pytest.approx(
        4 * 39.694, abs=0.01
    )
    assert price_of_high_probability(0.1, 800, 0.01, 10) == 0
    assert price_of_high_probability(0.1, 10**9, 0.01, 1) == 0
