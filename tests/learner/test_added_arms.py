"""A state that has grown by an arm is as sound as one that had the arm from the start."""

import random

import pytest

from armrace.audit import watch
from armrace.kernels.generics import decide, learn
from armrace.kernels.states import grow_state, unsafe_array
from armrace.policies import POLICIES
from armrace.policies.indices.histories import rewards_in_order
from armrace.randomness import Purpose, stream_for

HORIZON, ROUNDS = 1500, 500
GROWING = [name for name, policy in POLICIES.items() if policy.takes_new_arms]


def play(state, arms, rewards, stream, luck):
    for _ in range(ROUNDS):
        ticket = decide(state, stream)
        reward = luck.random()
        learn(state, ticket, reward)
        rewards[ticket.arm].append(reward)
    assert sum(map(len, rewards)) == state.pulls.sum()
    assert len(rewards) == arms


@pytest.mark.parametrize("name", GROWING)
def test_a_new_arm_takes_nothing_from_the_others(name):
    """500 rounds fill several pages of each arm, and move their directories."""
    policy, luck = POLICIES.make(name), random.Random(1)
    stream = stream_for(1, Purpose.LEARNER, replication=0)
    state, rewards = watch(policy.start(2, HORIZON), 2, HORIZON), [[], []]
    play(state, 2, rewards, stream, luck)
    for arms in (3, 4):
        grown = watch(policy.start(arms, HORIZON), arms, HORIZON)
        grow_state(state, grown)
        state = grown
        rewards.append([])
        play(state, arms, rewards, stream, luck)
        assert rewards[-1]
        fresh = watch(policy.start(arms, HORIZON), arms, HORIZON)
        assert unsafe_array(state, fresh) is None
    if hasattr(state.inner, "ordered"):
        for arm in range(4):
            assert rewards_in_order(state.inner.ordered, arm).tolist() == sorted(rewards[arm])
