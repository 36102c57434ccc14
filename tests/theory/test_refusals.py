"""What bounds and allowances refuse, each in one sentence."""

import math

import pytest

from armrace import theory
from armrace.errors import InvalidParameter

GAPS = "gaps must have an entry for each arm but the best; got none."
REFUSED = [
    ("corruption_allowance", (0, 1), "rho must be above 0; got 0."),
    ("corruption_allowance", (1, -1), "log_term must be at least 0; got -1."),
    ("corruption_allowance", (1, math.nan), "log_term must be finite; got nan."),
    ("observed_corruption", (1.5,), "delta must be in (0, 1); got 1.5."),
    ("barrier_curvature", (1.5, 1.0), "first_scale must be above 1 + optimism/2, 1.5; got 1.5."),
    ("barrier_curvature", (1.0, 0.0), "first_scale must be above 1 + optimism/2, 1; got 1."),
    ("barrier_regret", ([0.2], 100, 0.0, 2.0, 50.0), "scale_growth must be at most first_scale^2"),
    ("agnostic_regret", ([1.5], 10, 0.1, 0), "each of gaps must be in [0, 1]; got 1.5."),
    ("agnostic_regret", ([], 10, 0.1, 0), GAPS),
    ("known_corruption_regret", ([0.5], 0, 0.1, 0), "horizon must be at least 1; got 0."),
    ("fast_slow_regret", ([0.5], 10, 0.0, 0), "delta must be in (0, 1); got 0."),
    ("tolerant_layer", ([0.5, 0.5], 3), "corruption must be at most 2, what the slowest layer"),
    ("per_arm_regret", ([0.5], 10, 0.1, [1]), "corruptions must have an entry for each of the 2"),
    ("switching_regret", (0.5, 10, 100, 0), "gap must be in (0, 0.5); got 0.5."),
    ("switching_regret", (0.1, 40, 100, 0), "rounds must be at most a third of the horizon, 33.3"),
    ("sparse_interval_plays", (8, 0.1, 10**6, 0.9, 0.5), "epsilon and epsilon_prime must satisfy"),
    ("best_of_all_worlds_regret", ([0.5], 10**6, 0.1, 0, 0.5), "alpha must be in (0, 0.5); got"),
    ("guarded_regret", ([], 10, 0.1, 0), GAPS),
    ("guarded_regret", ([0.1], 10, 0.1, -1), "corruption must be at least 0; got -1."),
    ("guarded_regret", ([0.1], 10, 0.1, 0, -1), "share must be at least 0; got -1."),
    ("guarded_regret", ([0.1], 10, 0.1, 0, 4, -1), "lead must be at least 0; got -1."),
    ("guarded_regret", ([0.1], 10, 0.1, 0, 4, 1, 0), "first must be above 0; got 0."),
    (
        "price_of_high_probability",
        (0.1, 10**9, 0.01, 2.5),
        "factor must be a whole number; got",
    ),
    ("sharp_regret", ([], 1000, 0.1, 0), GAPS),
    ("sharp_regret", ([0.1], 0, 0.1, 0), "horizon must be"),
    ("sharp_regret", ([0.1], 1000, 1.0, 0), "delta must be"),
    ("sharp_regret", ([0.1], 1000, 0.1, -1), "corruption must be"),
    ("sharp_regret", ([0.1], 1000, 0.1, 0, -1), "lead must be"),
    ("sharp_regret", ([0.1], 1000, 0.1, 0, 5, 0.5), "first must be"),
    *(("gaps_of", (m,), "means must") for m in ([], [0.5], [-1.0, 0.5], [0.5, math.nan])),
    ("gaps_of", ([0.5, 2.0],), "each of means must"),
    ("race_log_term", (2, 0, 0.1), "horizon must"),
    ("lb_inf_regret", ([0.0, 0.1], 1000), "the best arm must be unique"),
    ("exp3_any_rewards_regret", (1, 10**6), "arms must be at least 2; got 1."),
]


@pytest.mark.parametrize(("function", "arguments", "sentence"), REFUSED)
def test_nonsense_is_refused_in_a_sentence(function, arguments, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        getattr(theory, function)(*arguments)
    assert sentence in str(refusal.value)
    assert str(refusal.value).count("\n") == 0
