"""Policies that draw what they cannot have: the learner says so, and goes on."""

import pytest

from armrace.errors import BrokenPolicy
from armrace.learner import Learner
from simulation.test_checked import WRONG
from stray_policies import Stray


def in_round_7(policy):
    learner = Learner(policy, ["red", "green", "blue"], horizon=50)
    for _ in range(7):
        learner.learn(learner.decide(), 1.0)
    return learner


@pytest.mark.parametrize("policy", WRONG, ids=str)
@pytest.mark.parametrize("draw", [Learner.decide, Learner.choose, lambda each: each.decide_many(3)])
def test_a_learner_refuses_what_its_policy_cannot_draw(policy, draw):
    """``decide`` returned the arm 'tolist' once: what lay in memory behind the arms' names."""
    learner = in_round_7(policy)
    with pytest.raises(BrokenPolicy) as refusal:
        draw(learner)
    assert str(refusal.value) == f"the policy stray {WRONG[policy]}."
    assert (learner.decisions, learner.rewards) == (7, 7)
    assert learner.snapshot().decisions == 7


def test_a_distribution_that_is_none_is_refused():
    learner = in_round_7(Stray(probability=None))
    with pytest.raises(BrokenPolicy, match="gave arm 0 the probability nan"):
        learner.distribution()


def test_a_base_within_a_guard_is_refused():
    learner = Learner({"name": "guarded", "base": Stray(arm=3)}, 3, horizon=50)

    def play():
        for _ in range(50):
            learner.learn(learner.decide(), 1.0)

    with pytest.raises(BrokenPolicy, match="the policy guarded chose arm 3; its arms are 0 to 2"):
        play()
