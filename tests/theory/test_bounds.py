"""Bounds against the published constants, against one another, and against nonsense."""

import math

import numpy as np
import pytest

from armrace import theory
from armrace.theory.plays import regret_of_limits, regret_of_stages

GAPS = [1e-3, 0.05, 0.1286, 0.3, 0.75, 1.0]


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("corruption", [0, 5, 500, 1e6])
def test_plays_are_the_least_that_make_the_width_a_quarter_of_the_gap(gap, corruption):
    plays = theory.plays_until_deleted(gap, 12.0, corruption)
    wide = math.sqrt(12 / (plays - 1)) + corruption / (plays - 1)
    narrow = math.sqrt(12 / plays) + corruption / plays
    assert narrow < gap / 4 <= wide * (1 + 1e-12)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("corruption", [0, 5, 500, 1e6])
def test_the_papers_count_is_larger_and_so_true(gap, corruption):
    ours = theory.plays_until_deleted(gap, 5.0, corruption)
    assert ours <= theory.papers_plays_until_deleted(gap, 5.0, corruption)


def test_the_slow_layer_needs_more_plays_than_the_paper_says_beyond_a_gap():
    def constant(gap):
        return 4 * (1 + math.sqrt(1 + 2 * gap)) ** 2

    assert constant(0.1286) == pytest.approx(18, abs=2e-3)
    assert constant(0.1) < 18 < constant(0.15)
    assert constant(1) == pytest.approx(29.9, abs=0.05)
    # with the log term so large that the whole play does not matter
    assert theory.plays_until_deleted(1, 1e9, 2e9) / 1e9 == pytest.approx(constant(1))


def test_deterministic_arms_are_deleted_before_the_lemma_says():
    # Rewards 1 and 0 at K=2, T=1000, delta=0.1 delete the bad arm at its 42nd play.
    assert theory.plays_until_deleted(1, theory.elimination_log_term(2, 1000, 0.1)) >= 42
    # The multi-layer race at T=1024 needs 102 plays of both.
    log_term = theory.race_log_term(2, 1024, 0.1)
    assert 102 <= theory.plays_until_deleted(1, log_term, log_term) == 318


@pytest.mark.parametrize(("arms", "horizon"), [(2, 20), (2, 100), (10, 10**6), (50, 10**12)])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_all_events_of_theorem_3_together_fail_with_delta_at_most(arms, horizon, delta):
    layers = len(theory.layer_shares(horizon))
    # a layer but the first is waited for by each arm but the best
    moves = (layers - 1) * (arms - 1) * delta / (2 * arms * layers)
    martingales = arms * horizon * math.exp(-theory.race_log_term(arms, horizon, delta))
    assert martingales == pytest.approx(delta / (4 * layers))
    for tolerance in (1.0, None):
        events = theory.race_failure(arms, horizon, delta, tolerance=tolerance)
        assert events + moves + martingales <= delta
    assert theory.race_failure(arms, horizon, delta) >= delta / 8 * (1 - 1e-9)


@pytest.mark.parametrize("horizon", [10**6, 10**9, 10**12])
def test_layers_of_theorem_3_tolerate_about_ten_times_what_the_paper_says(horizon):
    ratio = theory.race_tolerance(10, horizon, 0.05)
    layers, log_term = len(theory.layer_shares(horizon)), theory.race_log_term(10, horizon, 0.05)
    assert 8.9 < ratio < 17.7
    assert layers * theory.allowance_failure(ratio, log_term) == pytest.approx(0.05 / 8)
    assert theory.race_tolerance(10, horizon, 0.05, per_arm=True) < ratio
    shares = theory.layer_shares(horizon)
    for corruption in (100, 1000, 10_000):
        paper = theory.tolerant_layer(shares, corruption)
        assert theory.tolerant_layer(shares, corruption, ratio) in (paper - 3, paper - 4)


def test_tolerance_by_hand():
    # c = 2 e, rho = 2: 2e ln(e) - 2e + 2 = 2
    assert theory.tolerated_ratio(2 * math.e, 2.0) == pytest.approx(2.0)
    assert theory.tolerated_ratio(0.0, 1.0) == 0.0


def test_the_sampled_moves_come_in_time():
    # h = 2, M = 6: 6 + 2 + sqrt(4 + 24) = 13.2915, by a share of 1/4
    assert theory.rounds_until_moves(6, 0.25, math.exp(-2)) == 54
    generator = np.random.default_rng(9)
    for moves, share, failure in ((100, 0.25, 0.05), (5, 0.01, 0.01), (2000, 0.5, 0.001)):
        rounds = int(theory.rounds_until_moves(moves, share, failure))
        late = np.mean(generator.binomial(rounds, share, 200_000) < moves)
        assert late <= failure
        assert rounds <= max(2 * moves, 8 * math.log(1 / failure)) / share + 1


def test_moves_are_those_of_turns_in_a_circle():
    """Play arms in turn, delete each at its limit, and count until an arm is gone."""
    limits = [3, 9, 5, math.inf]
    alive, played, moves, gone = [-1, 0, 1, 2, 3], dict.fromkeys(range(-1, 4), 0), 0, {}
    while len(gone) < 3:
        for arm in list(alive):
            played[arm] += 1
            moves += 1
            if arm >= 0 and played[arm] == limits[arm]:
                gone[arm] = moves
                alive.remove(arm)
    allowed = theory.moves_until_deleted(limits)
    assert all(gone[arm] <= allowed[arm] for arm in gone)
    assert allowed[:3] == [3 * 5, 9 + 3 + 9 + 5 + 9, 5 + 3 + 5 + 5 + 5]
    assert allowed[3] == math.inf


def test_theorem_3_by_hand():
    """K = 2, gap 1, T = 10^6, delta = 0.1, C = 1,000: the smallest over all tolerant layers."""
    log_term = math.log(4 * 2 * 10**6 * 20 / 0.1)
    plays = math.floor(4 * log_term * (1 + math.sqrt(2)) ** 2) + 1
    h = math.log(2 * 2 * 20 / 0.1)
    rounds = [
        math.ceil((2 * plays + h + math.sqrt(h * h + 4 * plays * h)) * 2**number)
        for number in range(1, 21)
    ]
    # L = 21.194; L ln(L/rho) - L + rho = ln(1600) at rho = 8.05: shares up to 2^-7 tolerate C
    first = 7
    expected = min((21 - n) * plays + rounds[n - 1] for n in range(first, 21))
    assert theory.agnostic_regret([1.0], 10**6, 0.1, 1_000).pseudo_regret == expected


def test_a_first_layer_tolerates_its_allowance():
    log_term = theory.race_log_term(2, 10**6, 0.1)
    quiet = theory.agnostic_regret([1.0], 10**6, 0.1, 0)
    assert theory.agnostic_regret([1.0], 10**6, 0.1, log_term).pseudo_regret == quiet.pseudo_regret
    beyond = theory.agnostic_regret([1.0], 10**6, 0.1, log_term + 0.01)
    assert beyond.pseudo_regret > quiet.pseudo_regret


def test_too_few_layers_guarantee_nothing():
    shares = [0.75, 0.25]
    assert theory.agnostic_regret([0.5], 10**6, 0.1, 1000, shares).is_void
    assert theory.agnostic_regret([0.5], 10**6, 0.1, 5, shares, tolerance=1.0).is_void
    assert not theory.agnostic_regret([0.5], 10**6, 0.1, 4, shares, tolerance=1.0).is_void


def test_shares_of_layers():
    shares = theory.layer_shares(1024)
    assert len(shares) == 10
    assert shares[0] == 0.5009765625
    assert sum(shares) == 1
    assert theory.layer_shares(1) == [1.0]
    assert theory.tolerant_layer(shares, 1 / shares[0]) == 0
    assert theory.tolerant_layer(shares, 1 / shares[0] + 1e-9) == 1
    assert [theory.tolerant_layer(shares, 2**k) for k in (2, 3, 10)] == [1, 2, 9]


def test_regret_of_limits_and_stages_are_what_a_search_finds():
    generator = np.random.default_rng(3)
    for _ in range(20):
        gaps, limits = generator.random(2), generator.integers(0, 12, 2)
        by_search = max(
            gaps @ (n, m) for n in range(limits[0] + 1) for m in range(limits[1] + 1) if n + m <= 10
        )
        assert regret_of_limits(gaps, limits, 10) == pytest.approx(by_search)
        per_round = [
            max([g for g, e in zip(gaps, limits, strict=True) if t < e], default=0)
            for t in range(10)
        ]
        assert regret_of_stages(gaps, limits, 10) == pytest.approx(sum(per_round))


@pytest.mark.parametrize("gaps", [[0.5], [0.5, 0.2, 0.2], [0.4, 0.0]])
def test_bounds_grow_with_corruption_and_stay_below_the_trivial_one(gaps):
    horizon = 10**6
    for bound in (
        lambda c: theory.known_corruption_regret(gaps, horizon, 0.1, c),
        lambda c: theory.fast_slow_regret(gaps, horizon, 0.1, c),
        lambda c: theory.agnostic_regret(gaps, horizon, 0.1, c),
    ):
        values = [bound(c) for c in (0, 1, 30, 1000, 10**5)]
        assert values == sorted(values)
        assert all(v.pseudo_regret <= horizon * max(gaps) for v in values)
        assert all(v.regret > v.pseudo_regret for v in values)
        assert all(math.isfinite(v.regret) for v in values)


def test_without_corruption_theorem_3_is_layers_times_one_elimination():
    log_term = theory.race_log_term(3, 10**6, 0.05)
    each = theory.plays_until_deleted(0.3, log_term, log_term)
    bound = theory.agnostic_regret([0.3, 0.3], 10**6, 0.05, 0)
    assert bound.pseudo_regret == pytest.approx(20 * 2 * each * 0.3)


def test_theorem_3_is_linear_in_corruption_up_to_powers_of_two():
    bounds = [
        theory.agnostic_regret([0.5], 10**12, 0.05, 2.0**k).pseudo_regret for k in (14, 15, 16)
    ]
    assert bounds[1] - bounds[0] == pytest.approx((bounds[2] - bounds[1]) / 2, rel=0.01)


def test_theorem_6_charges_every_arm_with_the_largest_corruption():
    tolerance = theory.race_tolerance(3, 10**6, 0.1, per_arm=True)
    whole = theory.agnostic_regret([0.5, 0.2], 10**6, 0.1, 64, tolerance=tolerance)
    third_arm = theory.per_arm_regret([0.5, 0.2], 10**6, 0.1, [0, 0, 64])
    assert third_arm.pseudo_regret == whole.pseudo_regret
    assert third_arm.regret == whole.regret
    split = theory.per_arm_regret([0.5, 0.2], 10**6, 0.1, [64, 64, 64])
    assert split.regret == pytest.approx(whole.regret + 128)


def test_the_lower_bound_says_little_of_ucb1_and_much_of_who_stops_looking():
    ucb1 = theory.forced_regret(8, 1 / 6, 10**9, 0.5, 0.9)
    assert ucb1.probability == 0
    eliminated = theory.switching_regret(1 / 6, 10**6, 10**9, 0)
    assert eliminated.probability > 0.49
    assert eliminated.regret == pytest.approx(0.8 / 6 * 10**6 - math.log(10**9))


@pytest.mark.parametrize("gap", [0.1, 0.3])
def test_the_failure_probabilities_of_the_switch_hold_in_simulation(gap):
    # Steps r(1) - r(2) after the switch; the sum over the last phase never falls below -ln T
    # but for T^(-2 gap), over the second phase not below 1.9 gap C but for exp(-gap^2 C/400).
    generator = np.random.default_rng(11)
    steps = (generator.random((4000, 2000)) < 0.5 + gap) * 1.0
    steps -= generator.random((4000, 2000)) < 0.5
    lowest = steps.cumsum(axis=1).min(axis=1)
    assert np.mean(lowest < -math.log(2000)) <= 2000 ** (-2 * gap)
    assert np.mean(steps.sum(axis=1) < 1.9 * gap * 1000) <= math.exp(-(gap**2) * 1000 / 400)


def test_small_gaps():
    assert theory.inverse_gap_for_pseudo_regret(0.0, 100) == 0
    for gap in (1e-6, 0.01, 0.1, 1.0):
        pseudo, regret = (
            theory.inverse_gap_for_pseudo_regret(gap, 10**4),
            theory.inverse_gap(gap, 10**4),
        )
        assert pseudo <= regret <= 100
        assert regret <= 1 / gap


def test_best_of_all_worlds_is_theorem_3_below_the_threshold():
    below = theory.best_of_all_worlds_regret([0.5], 2**20, 0.1, 2**4, 0.25)
    shares = [0.5, 0.25, 0.125, 0.0625, 0.03125, 2**-5]
    assert below == theory.agnostic_regret([0.5], 2**20, 0.1, 2**4, shares)
    above = theory.best_of_all_worlds_regret([0.5], 2**20, 0.1, 2**5 + 1, 0.25)
    assert above.pseudo_regret == 2**15
