"""Audits that examine only arms which may raise an alarm find what audits of all arms find."""

import numpy as np
import pytest

from armrace.audit import audit, evidence
from armrace.audit.auditing import Screens, audit_state
from armrace.audit.evidence import Screen
from armrace.learner import Learner

ARMS = 12


def play(learner, rounds, means, draws):
    for decision in [learner.decide() for _ in range(rounds)]:
        if draws.random() < 0.9:  # some rewards never come
            learner.learn(decision, float(draws.random() < means[decision.arm]))


def stages(policy, seed):
    """Yield a learner as its arms change, some of them and at different times."""
    draws = np.random.default_rng(seed)
    means = draws.uniform(0.2, 0.8, ARMS)
    learner = Learner(policy, ARMS, 20_000, seed)
    for _ in range(8):
        play(learner, 500, means, draws)
        moved = draws.integers(ARMS, size=3)
        means[moved] = 1.0 - np.round(means[moved])
        yield learner


@pytest.mark.parametrize("policy", ["multi-layer-race", "exp3"])
@pytest.mark.parametrize("level", [0.9, 0.01])
def test_screened_audits_find_what_audits_of_all_arms_find(policy, level, monkeypatch):
    kept, alarmed = Screens.fresh(), 0
    for seed in range(3):
        for learner in stages(policy, seed):
            state = learner._live.policy
            found = [audit(state, level), audit_state(state, level, None, kept)]
            with monkeypatch.context() as patch:
                patch.setattr(Screen, "suspects", lambda *given: list(range(ARMS)))
                expected = audit(state, level)
            assert found == [expected, expected]
            alarmed += len(expected.alarms)
        kept = Screens.fresh()
    assert alarmed > 10


def test_arms_that_have_not_moved_are_not_looked_at_again():
    looked_at = []

    def bounds_of(arms):
        looked_at.append(arms.tolist())
        return np.full(arms.size, 5.0)

    screen, plays = Screen(), np.array([100, 3, 100])
    assert screen.suspects(np.stack([plays, plays]), plays, bounds_of, 10.0) == []
    assert screen.suspects(np.stack([plays, plays]), plays, bounds_of, 4.0) == [0, 2]
    later = plays + np.array([0, 0, 1])
    assert screen.suspects(np.stack([later, plays]), later, bounds_of, 4.0) == [0, 2]
    assert looked_at == [[0, 2], [2]]


def test_no_more_arms_are_examined_than_an_audit_has_time_for(monkeypatch):
    monkeypatch.setattr(evidence, "MOST_EXAMINED", 2)
    plays = np.full(4, 100)
    strength = np.array([7.0, 5.0, 9.0, 8.0])
    found = Screen().suspects(np.stack([plays, plays]), plays, lambda arms: strength[arms], 4.0)
    assert found == [2, 3]
