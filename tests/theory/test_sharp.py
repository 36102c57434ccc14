"""The sharp race's bound: against the sum that it stands for, and where gaps vanish."""

import math

import pytest

from armrace.theory import (
    agnostic_regret,
    sharp_layers,
    sharp_plays_until_deleted,
    sharp_regret,
)


def leaders_share(gaps, horizon, delta, lead):
    """Plays of the leaders of all layers, turn by turn, until the last bad arm goes."""
    total = 0.0
    for layer in sharp_layers(len(gaps) + 1, horizon, delta, 16.0):
        turns = [sharp_plays_until_deleted(gap, layer) for gap in gaps]
        for limit in (*turns, max(turns)):
            for n in range(1, limit):
                width = math.sqrt((layer.log_lower + 0.5 * math.log(math.pi * (n + 0.5))) / (2 * n))
                total += lead * min(max(gaps), 2 * (width + layer.allowance / n))
            total += lead * max(gaps)
    return total


def test_the_bound_covers_every_turn_of_every_layer():
    gaps, horizon, delta, lead = [0.5, 0.4], 10**9, 0.1, 5
    turns = sum(
        gap * sharp_plays_until_deleted(gap, layer)
        for layer in sharp_layers(3, horizon, delta, 16.0)
        for gap in gaps
    )
    least = turns + leaders_share(gaps, horizon, delta, lead)
    assert least <= sharp_regret(gaps, horizon, delta, 0, lead).pseudo_regret <= 1.5 * least


def test_without_a_leader_the_bound_is_that_of_the_turns():
    gaps, horizon = [0.5], 10**9
    layers = sharp_layers(2, horizon, 0.1, 16.0)
    turns = sum(0.5 * sharp_plays_until_deleted(0.5, layer) for layer in layers)
    assert sharp_regret(gaps, horizon, 0.1, 0, lead=0).pseudo_regret == pytest.approx(turns)


@pytest.mark.parametrize("tiny", [0.0, 1e-6])
def test_arms_as_good_as_the_best_cost_next_to_nothing(tiny):
    alone = sharp_regret([0.1] * 8, 10**9, 0.05, 0).pseudo_regret
    beside = sharp_regret([0.1] * 8 + [tiny], 10**9, 0.05, 0).pseudo_regret
    assert beside < 1.3 * alone


def test_the_bound_grows_with_the_corruption_and_never_beyond_all_rounds():
    first = sharp_layers(2, 10**12, 0.1, 16.0)[0].tolerance
    assert first == pytest.approx(28.74, abs=0.005)
    corruptions = (0, 16, first, first + 0.01, 1e3, 1e6)
    bounds = [sharp_regret([0.3], 10**12, 0.1, c).pseudo_regret for c in corruptions]
    assert bounds == sorted(bounds)
    assert bounds[0] == bounds[2] < bounds[3]
    assert sharp_regret([0.3], 1000, 0.1, 1000).pseudo_regret == pytest.approx(300)


def test_a_first_layer_meets_no_more_than_there_is():
    """Its share is 1, together with the slower layers whose rewards it uses."""
    layers = sharp_layers(10, 10**6, 0.05, 16.0)
    assert layers[0].tolerance == layers[0].allowance == pytest.approx(29.9, abs=0.05)
    assert [layer.tolerance for layer in layers[1:]] == [layer.tolerated for layer in layers[1:]]


def test_under_corruption_the_bound_is_the_smallest_over_tolerant_layers():
    gaps, horizon, delta, lead = [0.5], 10**9, 0.1, 5
    layers = sharp_layers(2, horizon, delta, 16.0)
    turns = [sharp_plays_until_deleted(0.5, layer) for layer in layers]
    h = math.log(4 * 2 * len(layers) / delta)
    found = sharp_regret(gaps, horizon, delta, 100, lead).pseudo_regret
    quiet = sharp_regret(gaps, horizon, delta, 0, lead).pseudo_regret
    moves = 6 * 2 * turns[3]
    rounds = math.ceil((moves + h + math.sqrt(h * h + 2 * moves * h)) / layers[3].share)
    assert found < quiet + 0.5 * rounds
    assert found > 0.5 * rounds


@pytest.mark.parametrize(("arms", "gap"), [(2, 0.1), (2, 0.5), (10, 0.1)])
@pytest.mark.parametrize("corruption", [0, 100, 10_000])
def test_its_bound_is_of_the_order_of_the_literal_races(arms, gap, corruption):
    """The regret is a tenth; what is proved of it is up to five times as much."""
    sharp = sharp_regret([gap] * (arms - 1), 10**12, 0.05, corruption).pseudo_regret
    literal = agnostic_regret([gap] * (arms - 1), 10**12, 0.05, corruption).pseudo_regret
    assert 1 < sharp / literal < 5


def test_nothing_is_guaranteed_beyond_what_the_slowest_layer_tolerates():
    """At 2,000 units such a race was seen to lose 35 times what an unlimited one guarantees."""
    told = {"gaps": [0.1], "horizon": 10**8, "delta": 0.05, "first": 16.0, "most_corruption": 32.0}
    assert [layer.tolerated for layer in sharp_layers(2, 10**8, 0.05, 16.0, 32.0)] == [16.0, 32.0]
    assert math.isfinite(sharp_regret(corruption=32, **told).regret)
    for corruption in (33, 512, 2_000):
        bound = sharp_regret(corruption=corruption, **told)
        assert bound.is_void
        assert bound.pseudo_regret == bound.regret == math.inf
    unlimited = {**told, "most_corruption": None}
    assert math.isfinite(sharp_regret(corruption=2_000, **unlimited).regret)
