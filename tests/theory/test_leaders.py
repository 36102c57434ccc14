"""Published bounds of leaders, with their constants put together by hand."""

import math

import pytest

from armrace.policies import POLICIES
from armrace.theory import (
    exp3_any_rewards_regret,
    lb_inf_regret,
    tsallis_inf_any_rewards_regret,
    tsallis_inf_regret,
)

LOGARITHM = math.log(10**6)


def test_lb_inf_by_hand():
    inverse, rest = LOGARITHM / 0.2 + LOGARITHM / 0.4, 9 * LOGARITHM
    quiet = 36 * inverse + 6 * math.sqrt(inverse * rest) + rest
    assert lb_inf_regret([0.2, 0.4], 10**6) == pytest.approx(quiet)
    attacked = 9 * inverse + 3 * math.sqrt(inverse * (200 + rest)) + rest + 200
    assert lb_inf_regret([0.2, 0.4], 10**6, 100, predicts=False) == pytest.approx(attacked)


def test_tsallis_inf_by_hand():
    leading, rest = (LOGARITHM + 3) / 0.5 + 4, 56 * LOGARITHM + 1.5 * math.sqrt(2) + 32
    assert tsallis_inf_regret([0.5], 10**6) == pytest.approx(leading + rest)
    assert tsallis_inf_regret([0.5], 10**6, 10) == pytest.approx(leading + rest + 40)
    large = 2 * math.sqrt(leading * 2000) + rest + 2000
    assert tsallis_inf_regret([0.5], 10**6, 1000) == pytest.approx(large)
    weighted = 2 * (4 * LOGARITHM + 68) + 4 * math.sqrt(2)
    assert tsallis_inf_regret([0.5], 10**6, reduced_variance=False) == pytest.approx(weighted)


def test_without_gaps_the_bounds_for_any_rewards_hold():
    root = math.sqrt(2 * 10**6)
    reduced = 2 * root + 28 * LOGARITHM + 16
    assert tsallis_inf_regret([0.006], 10**6, 5) == pytest.approx(reduced + 10)
    assert tsallis_inf_regret([0.006], 10**6, 5, reduced_variance=False) == pytest.approx(
        4 * root + 1 + 10
    )
    assert tsallis_inf_regret([0.001], 10**6) == pytest.approx(1000)


def test_bounds_for_any_rewards_by_hand():
    root = math.sqrt(3 * 10**6)
    assert tsallis_inf_any_rewards_regret(3, 10**6) == pytest.approx(2 * root + 42 * LOGARITHM + 16)
    assert tsallis_inf_any_rewards_regret(3, 10**6, reduced_variance=False) == pytest.approx(
        4 * root + 1
    )
    best = math.sqrt(2 * 3 * 10**6 * math.log(3))
    assert exp3_any_rewards_regret(3, 10**6) == pytest.approx(best)
    for rate in (1e-4, 1e-2):
        assert exp3_any_rewards_regret(3, 10**6, rate) > best


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("lb-inf", True),
        ({"name": "lb-inf", "prediction_rate": 0.0}, True),
        ({"name": "lb-inf", "prediction_rate": 0.1}, True),
        ({"name": "tsallis-inf", "estimator": "iw"}, True),
        ("log-barrier", False),
    ],
)
def test_policies_guarantee_what_is_published_about_them(policy, says):
    found = POLICIES.make(policy).guarantee([0.2], 10**5, 30.0)
    assert (found is not None) == says
    assert found is None or found.failure == 0.0
