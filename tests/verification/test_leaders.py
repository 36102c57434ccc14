"""Claims about leaders: what they measure is what they say, and what is broken is refuted."""

import sys
from typing import Literal

import numpy as np
import pytest

from armrace.policies import Exp3, LbInf, OptimisticLogBarrier, TsallisInf
from armrace.statistics import Interval
from armrace.verification import verify
from armrace.verification.claims import QUICK
from armrace.verification.leader_guarantees import LEADERS, find_leader
from armrace.verification.leader_proofs import (
    BARRIER,
    ENTROPY,
    MEANS,
    TSALLIS,
    distance_from_solution,
    errors_of_estimates,
    regret_on_path,
    replay,
    signed_errors_of_estimates,
    walk,
)
from armrace.verification.leaders import leader_mechanics_claims, leader_regret_claims
from armrace.verification.verify import try_claims

REGULARISERS = {"barrier": BARRIER, "tsallis": TSALLIS, "entropy": ENTROPY}
SMALL = QUICK._replace(runs=8, horizon=4_000, martingale_runs=80, path_rounds=2_048)
VARIANTS = (
    OptimisticLogBarrier(),
    OptimisticLogBarrier(optimism=0.0),
    LbInf(prediction_rate=0.0),
    TsallisInf(estimator="iw"),
    Exp3(learning_rate=0.05),
)


@pytest.mark.parametrize("regulariser", REGULARISERS.values(), ids=REGULARISERS)
def test_slope_and_steepness_are_derivatives_of_the_potential(regulariser):
    p, step = np.linspace(0.05, 0.9, 12), 1e-6
    slope = (regulariser.potential(p + step) - regulariser.potential(p - step)) / (2 * step)
    assert regulariser.slope(p) == pytest.approx(slope, rel=1e-6)
    bend = (regulariser.slope(p + step) - regulariser.slope(p - step)) / (2 * step)
    assert regulariser.steepness(p) == pytest.approx(p * bend, rel=1e-6)


@pytest.mark.parametrize("regulariser", REGULARISERS.values(), ids=REGULARISERS)
def test_stability_is_the_largest_gain_over_all_moves(regulariser):
    """By trial of 200,001 moves; surprises are such that a largest gain exists."""
    moves = np.geomspace(1e-6, 1e4, 200_001)
    for p, z, scale in ((0.3, 0.8, 2.0), (0.3, -0.8, 2.0), (0.01, 30.0, 1.5), (0.9, -1.0, 3.0)):
        start = np.array([p])
        divergence = scale * (
            regulariser.potential(moves)
            - regulariser.potential(start)
            - regulariser.slope(start) * (moves - p)
        )
        gain = (z * (p - moves) - divergence).max()
        found = regulariser.stability(start, np.array([z]), np.array([scale]))
        assert found[0] == pytest.approx(gain, rel=1e-4)
        assert found[0] >= gain


@pytest.mark.parametrize("policy", VARIANTS, ids=lambda p: p.tag())
def test_a_path_keeps_every_promise_and_the_claims_see_a_change(policy):
    subject = find_leader(policy)
    guarantee = subject.guarantee
    path = walk(policy, guarantee.read, 400, seed=3)
    assert path.weights.sum(axis=1) == pytest.approx(1.0, abs=1e-10)
    again = replay(path, guarantee.prescribed(policy, len(MEANS), 400), range(350, 400))
    assert path.weights[350:] == pytest.approx(again, rel=1e-10)
    assert distance_from_solution(path, guarantee.regulariser).max() < 1e-10
    centred = guarantee.barrier is not None
    assert regret_on_path(path, guarantee.regulariser, centred).excess <= 0
    moved = path._replace(weights=path.weights * np.array([1.001, 1.0, 1.0]))
    distance = distance_from_solution(moved, guarantee.regulariser)
    assert 5e-4 < distance.max() < 2e-3


@pytest.mark.parametrize("policy", VARIANTS, ids=lambda p: p.tag())
def test_errors_of_estimates_have_mean_zero_for_every_arm_that_may_be_drawn(policy):
    """Exactly: for one round, the sum over arms of probability times error is 0."""
    path = walk(policy, LEADERS[type(policy)].read, 60, seed=1)
    last = -1
    weights, losses = path.weights[last], path.losses[last]
    played = int(path.arms[last])
    predictions = path.updates[last].copy()
    # Without the part of the arm that was played, a round adds predictions or baselines.
    for baseline in {0.0, 0.5, path.before.predictions[last, played]}:
        part = (losses[played] - baseline) / weights[played]
        if path.updates[last, played] == pytest.approx(baseline + part):
            predictions[played] = baseline
    found = []
    for arm in range(weights.size):
        update = predictions.copy()
        update[arm] += (losses[arm] - predictions[arm]) / weights[arm]
        drawn = np.arange(weights.size) == arm
        one = path._replace(
            weights=weights[None], losses=losses[None], played=drawn[None], updates=update[None]
        )
        found.append((errors_of_estimates(one)[0], signed_errors_of_estimates(one)[0]))
    assert weights @ np.array(found) == pytest.approx([0.0, 0.0], abs=1e-12)


class Careless(OptimisticLogBarrier, frozen=True, tag="careless"):
    """A leader of a user's whose first scale is not what its parameter says."""

    def start(self, arms, horizon):
        return OptimisticLogBarrier(optimism=self.optimism, first_scale=1.0).start(arms, horizon)


def test_a_leader_of_ones_own_is_held_to_the_promises_of_its_class(monkeypatch):
    assert find_leader(Careless()).guarantee is LEADERS[OptimisticLogBarrier]
    monkeypatch.setattr(sys.modules[try_claims.__module__], "QUICK", SMALL)
    found = verify([Careless(), "optimistic-log-barrier"], quick=True, progress=False)
    assert {check.policy for check in found.failed} == {"careless"}
    assert {check.claim for check in found.failed} == {
        "no step of the losses or of the optimism is longer than the proof allows",
        "a second implementation publishes the same probabilities for the same plays",
    }


class Altered(OptimisticLogBarrier, frozen=True, tag="altered"):
    """A leader with a wrong number in its running state."""

    part: Literal["optimism", "predictions", "spreads"] = "optimism"

    def start(self, arms, horizon):
        state = super().start(arms, horizon)
        if self.part == "optimism":
            return state._replace(optimism=4 * self.optimism)
        if self.part == "predictions":
            state.estimates.predictions[:] = 0.0
        else:
            state.spreads.own[:] = 16.0
        return state


@pytest.mark.parametrize(
    ("part", "claims"),
    [
        (
            "optimism",
            {
                "the bias of the optimism is at most its bound",
                "the squared steps of the optimism sum to at most their bound",
            },
        ),
        (
            "predictions",
            {"the squared errors of the predictions are at most those from any fixed number"},
        ),
        ("spreads", {"the squared steps of the optimism sum to at most their bound"}),
    ],
)
def test_a_wrong_number_breaks_the_lemma_that_is_about_it(part, claims):
    subject = find_leader(Altered(part=part))
    checks = try_claims(list(leader_mechanics_claims(subject, SMALL, 0)), progress=False)
    assert claims <= {check.claim for check in checks if check.verdict == "fails"}


def test_nothing_is_claimed_where_nothing_is_proved():
    """Parameters that the proof does not cover leave the claims about the definition."""
    bold = find_leader(OptimisticLogBarrier(optimism=1.0, first_scale=1.0))
    assert {claim.theorem for claim in leader_mechanics_claims(bold, SMALL, 0)} == {"Leader lemma"}
    assert list(leader_regret_claims(bold, SMALL, 0)) == []
    small = SMALL._replace(horizon=10)
    default = find_leader(OptimisticLogBarrier())
    assert not any(
        claim.claim.startswith("the expected") for claim in leader_regret_claims(default, small, 0)
    )


def test_a_bound_that_is_too_small_is_refuted(monkeypatch):
    """A tenth of what is lost, as if it were the theorem's bound for Tsallis-INF."""
    subject = find_leader(TsallisInf())
    monkeypatch.setattr(
        "armrace.verification.leaders.published_bound",
        lambda policy, gaps, horizon, spent: 0.1 * spent + 1,
    )
    wrong = subject.guarantee._replace(regret=lambda policy, arms, horizon: 5.0)
    claims = leader_regret_claims(subject._replace(guarantee=wrong), SMALL, 0)
    checks = [check for check in try_claims(list(claims), progress=False) if check.interval]
    refuted = [check for check in checks if check.verdict == "fails"]
    assert len(refuted) >= len(checks) / 2
    assert all(Interval(*check.interval).low > check.limit for check in refuted)
