"""Audits of policies that play each leaf apart: one level for all, and alarms that name a leaf."""

import numpy as np
import pytest

import armrace
from armrace.audit import audit
from armrace.environments import Visitors
from armrace.errors import InvalidParameter
from armrace.kernels.generics import Context, ContextShape
from armrace.kernels.leaves import row_of
from armrace.learner import Learner
from armrace.statistics import clopper_pearson

LEAVES = 4
VISITORS = Visitors(
    vectors=np.eye(LEAVES) / 2 + 0.1,
    leaves=np.arange(LEAVES),
    means=np.array([[0.6, 0.4], [0.3, 0.6], [0.5, 0.5], [0.8, 0.2]]),
)


@pytest.mark.parametrize("policy", ["leaf-barrier", "leaf-thompson"])
def test_honest_visitors_of_all_leaves_together_rarely_raise_an_alarm(policy):
    """At a level of 0.2 for all leaves, 200 runs with more than 0.2 would be a failure of the proof
    and have a probability below 1e-3 at exactly that rate; the bound is far from tight."""
    result = armrace.simulate(policy, VISITORS, horizon=2_000, replications=200, seed=3, audit=0.2)
    alarmed = sum(audit.alarmed for audit in result.audits)
    assert clopper_pearson(alarmed, 200, 2e-3).low <= 0.2


def _learner(policy="leaf-barrier", **more):
    shape = ContextShape(dimension=2, leaves=LEAVES)
    return Learner(policy, ["a", "b"], 4_000, seed=2, log=False, shape=shape, **more)


def _play(learner, rounds, forged_leaf=None):
    rng = np.random.default_rng(7)
    for number in range(rounds):
        leaf = int(rng.integers(LEAVES))
        context = Context(np.array([0.6, 0.8]), leaf)
        decision = learner.decide(None, context)
        reward = float(rng.random() < (0.7 if decision.arm == "ab"[leaf % 2] else 0.3))
        if leaf == forged_leaf and number > rounds // 2:
            reward = float(decision.arm != "ab"[leaf % 2])
        learner.learn(decision, reward, context)


def test_an_attack_on_one_leaf_is_found_there_with_its_share_of_the_level():
    learner = _learner()
    _play(learner, 3_000, forged_leaf=2)
    found = learner.audit(0.05)
    assert {alarm.leaf for alarm in found.alarms} == {2}
    assert all(alarm.chance <= 0.05 for alarm in found.alarms)
    assert found.rounds == 3_000
    assert "in leaf 2, went" in found.alarms[0].words
    assert found.certificate == pytest.approx(sum(found.arm_certificates))
    assert found.certificate > 10
    # The level is divided among all leaves: alone, the leaf would be alarmed at a quarter of it.
    least = found.alarms[0].chance
    alone = audit(row_of(learner._live.policy.stack, 2), level=0.05)
    assert least == pytest.approx(LEAVES * alone.alarms[0].chance)
    assert learner.audit(least * 1.01).alarmed
    assert not learner.audit(least * 0.99).alarms


def test_honest_leaves_stay_quiet():
    learner = _learner()
    _play(learner, 3_000)
    assert not learner.audit(0.01).alarmed


@pytest.mark.parametrize("policy", ["expert-barrier", "linear-ucb", "square-cb"])
def test_policies_that_tell_visitors_of_a_leaf_apart_are_refused(policy):
    words = "cannot be audited where visitors differ.*leaf-barrier"
    with pytest.raises(InvalidParameter, match=words):
        _learner(policy).audit()
    with pytest.raises(InvalidParameter, match=words):
        armrace.simulate(policy, VISITORS, horizon=100, replications=1, audit=0.05)


def test_a_context_of_another_shape_is_refused_and_needed():
    learner = _learner()
    for context in (
        None,
        Context(np.ones(3), 0),
        Context(np.ones(2), LEAVES),
        Context(np.ones(2), -1),
    ):
        with pytest.raises(
            InvalidParameter, match="context must have 2 coordinates and a leaf below"
        ):
            learner.decide(None, context)
    with pytest.raises(InvalidParameter, match="keeps no log"):
        Learner("leaf-barrier", 2, 100, shape=ContextShape(2, 2))
