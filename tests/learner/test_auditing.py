"""Auditing live traffic: found, named as the user does, kept in snapshots, and free of charge."""

import random

import pytest

from armrace.audit import audit
from armrace.errors import InvalidParameter
from armrace.learner import Learner

RATES = {"red": 0.05, "green": 0.3}


def play(learner, first, last, forged=False, clicks=None):
    """Live rounds; forged ones pay for red whatever happens."""
    clicks = clicks or random.Random(first)
    for _ in range(first, last):
        decision = learner.decide()
        honest = float(clicks.random() < RATES[decision.arm])
        learner.learn(decision, 1.0 if forged and decision.arm == "red" else honest)


def attacked(policy, **options):
    learner = Learner(policy, arms=list(RATES), horizon=10_000, seed=3, **options)
    play(learner, 0, 2000)
    play(learner, 2000, 2500, forged=True)
    return learner


@pytest.mark.parametrize("policy", ["multi-layer-race", "thompson"])
def test_what_happened_is_told_with_the_users_names(policy):
    learner = Learner(policy, arms=list(RATES), horizon=10_000, seed=3)
    play(learner, 0, 2000)
    assert not learner.audit().alarmed
    learner = attacked(policy)
    found = learner.audit(level=0.01)
    assert found == audit(learner, level=0.01)
    alarm = next(alarm for alarm in found.alarms if alarm.kind == "change")
    assert (alarm.arm, alarm.direction) == ("red", "up")
    assert 1600 < alarm.since < 2400
    assert 0 < found.certificate < 500


def test_a_snapshot_keeps_what_an_audit_needs():
    learner = attacked("ucb1")
    restored = Learner.restore(learner.snapshot().to_json())
    assert restored.watch
    assert restored.audit() == learner.audit()
    play(learner, 2500, 3000)
    play(restored, 2500, 3000)
    assert restored.audit() == learner.audit()


def test_watching_changes_no_decision():
    watched, bare = attacked("ucb1"), attacked("ucb1", watch=False)
    assert watched.inspect() == bare.inspect()
    assert watched.decide() == bare.decide()


def test_without_a_watch_only_layers_can_be_audited():
    race = Learner("multi-layer-race", 2, horizon=10_000, watch=False)
    assert race.audit().looked_at == ["layers"]
    with pytest.raises(InvalidParameter, match="a state under watch"):
        attacked("ucb1", watch=False).audit()


def test_late_feedback_in_another_order_is_honest_too():
    """Delays that do not look at the reward leave honest rewards alike; level 0.05, one seed."""
    learner = Learner("multi-layer-race", arms=list(RATES), horizon=10_000, seed=3)
    clicks, waiting = random.Random(4), []
    for _ in range(3000):
        waiting.append(learner.decide())
        if len(waiting) == 200:
            clicks.shuffle(waiting)
            for decision in waiting:
                learner.learn(decision, float(clicks.random() < RATES[decision.arm]))
            waiting.clear()
    assert not learner.audit().alarmed
