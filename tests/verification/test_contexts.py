"""Paths of policies for contexts: what the claims about them see."""

import numpy as np
import pytest

from armrace.policies import ExpertBarrier, LeafBarrier, LinearUcb
from armrace.verification.claims import QUICK
from armrace.verification.contexts import (
    VISITORS,
    ContextSubject,
    books_of_experts,
    context_claims,
    excess_of_experts,
    expert_path,
    find_contextual,
    mixture_of_advice,
    walk_visits,
)
from armrace.verification.verify import try_claims

SMALL = QUICK._replace(path_rounds=4_096, horizon=20_000, runs=6, windows=1)


@pytest.fixture(scope="module")
def path():
    return expert_path(ExpertBarrier(), 400, seed=5)


@pytest.mark.parametrize("policy", [LeafBarrier(), ExpertBarrier()])
def test_all_claims_hold_and_bounds_are_tried(policy) -> None:
    claims = list(context_claims(ContextSubject(policy.tag(), policy), SMALL, 3))
    checks = try_claims(claims, progress=False)
    assert [check.claim for check in checks if check.verdict == "fails"] == []
    assert sum("is at most its bound" in check.claim for check in checks) >= 3
    assert all(check.interval[0] <= check.interval[1] for check in checks)


def test_the_adversary_strikes_and_visitors_differ() -> None:
    visits = walk_visits(LeafBarrier(), 600, seed=2)
    assert {context.leaf for context in visits.contexts} == {0, 1}
    assert len({context.vector.tobytes() for context in visits.contexts}) == 4
    assert visits.weights.sum(axis=1) == pytest.approx(1)
    assert visits.played.sum(axis=1).tolist() == [1] * 600


def test_the_parts_of_a_path_are_those_of_the_definition(path) -> None:
    number, arm = 57, int(path.visits.played[57].argmax())
    advice, law = path.choices[number], path.visits.weights[number]
    error = path.visits.losses[number, arm] - path.predictions[number, arm]
    assert path.errors[number] == pytest.approx(error)
    surprise = path.weights[number] * (advice[:, arm] / law[arm] - 1) * error
    assert path.shares[number] == pytest.approx(surprise)
    assert path.shares.sum(axis=1) == pytest.approx(0, abs=1e-12)
    assert path.spare[number] == pytest.approx((advice**2 / law).sum(axis=1) - 1)
    assert path.losses[number] == pytest.approx(advice @ path.visits.losses[number])


def test_a_changed_number_is_seen(path) -> None:
    assert books_of_experts(path).max() < 1e-12 > mixture_of_advice(path).max()
    losses = path.booked.losses.copy()
    losses[200:, 2] += 1e-4
    assert books_of_experts(path._replace(booked=path.booked._replace(losses=losses))).max() > 1e-8
    choices = path.choices.copy()
    choices[300] = np.roll(choices[300], 1, axis=1)
    assert mixture_of_advice(path._replace(choices=choices)).max() > 1e-3
    assert excess_of_experts(path).mean() < 0


def test_only_policies_with_a_theorem_are_found() -> None:
    assert find_contextual(LeafBarrier()) is not None
    assert find_contextual(ExpertBarrier(optimism=0.0)) is not None
    assert find_contextual(LinearUcb()) is None
    assert len(VISITORS.kinds().means) == 4
