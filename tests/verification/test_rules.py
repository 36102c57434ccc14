"""The prescribed rules: hand-computed values, and agreement with the compiled races."""

import math

import numpy as np
import pytest

from armrace.learner import Learner
from armrace.policies import MultiLayerRace, SharpRace
from armrace.verification.guarantees import (
    CHECKED,
    PrescribedRace,
    ends,
    make_subject,
    race_rule,
    sharp_race_rule,
)
from armrace.verification.mechanics import ArmDeletion, play_far, prescribed_records

KINDS = ("paper", "hoeffding", "bernstein", "kl", "kl-mixture", "kl-jeffreys")


def one_layer(kind: str, log_term: float, allowance: float) -> PrescribedRace:
    term, room = np.array([log_term]), np.array([allowance])
    return PrescribedRace(kind, np.ones(1), term, term, room, room, 0.1, 0.1)


def test_ends_by_hand():
    low, high = ends(one_layer("hoeffding", 8.0, 5.0), 0, 100, 50)
    assert (low, high) == pytest.approx((0.5 - 0.2 - 0.05, 0.5 + 0.2 + 0.05))
    low, high = ends(one_layer("paper", 9.0, 5.0), 0, 100, 50)
    assert (low, high) == pytest.approx((0.5 - 0.3 - 0.05, 0.5 + 0.3 + 0.05))
    # kl(0, q) = -ln(1 - q)
    low, high = ends(one_layer("kl", 8.0, 0.0), 0, 100, 0)
    assert (low, high) == pytest.approx((0.0, 1 - math.exp(-0.08)))
    # alpha = 1e-4, n = 100, mean 0.9: the published values of the uniform mixture
    low, high = ends(one_layer("kl-mixture", math.log(1e4), 0.0), 0, 100, 90)
    assert (low, high) == pytest.approx((0.677735, 0.989289), abs=1e-6)


def test_the_literal_race_deletes_at_102_plays_of_each():
    rule = race_rule(MultiLayerRace(delta=0.1), 2, 1024)
    assert rule.log_lower[0] == pytest.approx(13.61608, abs=5e-6)
    plays = [(9, turn % 2) for turn in range(400)]
    found = prescribed_records(rule, plays, [1.0 - arm for _, arm in plays], arms=2)
    assert found.deletions == {ArmDeletion(layer, 1, 204, 9) for layer in range(10)}
    assert found.pulls[9].tolist() == [200, 200]
    assert found.sums[9].tolist() == [200, 0]


def test_a_race_is_told_apart_from_one_with_a_slightly_smaller_share_of_delta():
    """Over a long run, deletions and intervals show a change of 1% in the log terms."""
    policy = MultiLayerRace(delta=0.1)
    run = play_far(policy, 8_192, seed=2)
    rule = race_rule(policy, run.records.pulls.shape[1], 8_192)
    found = prescribed_records(rule, run.plays, run.rewards, 4)
    assert found.deletions == run.records.deletions
    assert len(found.deletions) >= 4
    other = rule._replace(log_lower=rule.log_lower * 0.99, log_upper=rule.log_upper * 0.99)
    changed = prescribed_records(other, run.plays, run.rewards, 4)
    assert np.abs(changed.lower - run.records.lower).max() > 1e-4
    assert changed.pulls.tolist() == run.records.pulls.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pool", [False, True])
def test_intervals_and_rules_are_the_compiled_ones(kind, pool):
    if pool and kind == "paper":
        return
    policy = MultiLayerRace(delta=0.1, intervals=kind, pool=pool)
    rule, learner = race_rule(policy, 2, 4096), Learner(policy, 2, 4096, seed=3)
    state = policy.start(2, 4096)
    for name in ("log_lower", "log_upper", "allowance"):
        assert np.allclose(getattr(state.rule, name), getattr(rule, name), rtol=1e-9)
    assert np.array_equal(state.share, rule.share)
    rewards = np.random.default_rng(0).integers(0, 2, 2000)
    for reward in rewards.tolist():
        learner.learn(learner.decide(), float(reward))
    views = learner.inspect()
    for view in views:
        same = [v for v in views if v.arm == view.arm and v.layer >= view.layer]
        used = same if pool else [view]
        pulls = sum(v.pulls for v in used)
        if pulls:
            total = sum(v.pulls * (v.mean or 0.0) for v in used)
            expected = ends(rule, view.layer, pulls, total)
            assert (view.lower, view.upper) == pytest.approx(expected, abs=1e-9)


def test_the_sharp_rule_is_the_compiled_one():
    policy = SharpRace(delta=0.1, first=8.0, lead=2)
    rule, state = sharp_race_rule(policy, 5, 10_000), policy.start(5, 10_000)
    assert np.allclose(state.rule.allowance, rule.allowance)
    assert np.allclose(state.rule.log_upper, rule.log_upper)
    assert np.array_equal(state.share, rule.share)
    assert rule.used_share[0] == 1
    assert (rule.lead, rule.pooled) == (2, True)


@pytest.mark.parametrize("tag", CHECKED)
def test_what_is_verified_is_what_the_policy_promises(tag):
    subject, gaps, horizon, spent = make_subject(tag), [0.2, 0.5], 10**5, 30.0
    if not subject.guarantee.robust:
        assert subject.policy.guarantee(gaps, horizon, spent) is None
        spent = 0.0
    policy = subject.facing(spent)
    promised = policy.guarantee(gaps, horizon, spent)
    assert promised.pseudo_regret == subject.bound(gaps, horizon, spent).pseudo_regret
    assert promised.failure == subject.regret_failure
    if subject.told:
        assert policy.guarantee(gaps, horizon, 2 * spent) is None
