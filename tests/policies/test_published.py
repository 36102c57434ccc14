"""UCB with any bonus, UCB-V and epsilon-greedy: indices by hand, and what they accept."""

import math

import numpy as np
import pytest

import armrace
from armrace.environments import Gaussian
from armrace.errors import InvalidParameter
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.policies import EpsilonGreedy, Ucb, UcbV
from armrace.randomness import Purpose, stream_for

STREAM = stream_for(0, Purpose.LEARNER, 0)


def fed(policy, *plays):
    """The state after plays, each an arm and its reward."""
    state = policy.start(2, 1000)
    for arm, reward in plays:
        learn(state, assign(state, make_ticket(arm)), reward)
    return state


def weights(state):
    out = np.zeros(2)
    distribution(state, out)
    return out.tolist()


@pytest.mark.parametrize(
    ("bonus", "index"),
    [
        (0.3, -2.0 + 0.3 * math.sqrt(math.log(3) / 2)),
        (1.5, -2.0 + 1.5 * math.sqrt(math.log(3) / 2)),
    ],
)
def test_the_bonus_of_ucb_is_free_and_rewards_may_be_negative(bonus, index):
    policy = Ucb(bonus=bonus)
    state = fed(policy, (0, -1.0), (0, -3.0), (1, -2.5))
    assert policy.upper_bound(state, 0) == pytest.approx(index)
    # Arm 0: -2 + bonus sqrt(ln 4 / 2) = -2 + 0.833 bonus; arm 1: -2.5 + 1.177 bonus.
    assert weights(state) == ([1.0, 0.0] if bonus == 0.3 else [0.0, 1.0])


def test_the_index_of_ucb_v_as_computed_by_hand():
    """Rewards 0, 1, 1, 0 have mean and deviation 1/2: 1/2 + sqrt(E/8) + 3 E/4, E = 1.2 ln 5."""
    policy = UcbV()
    state = fed(policy, (0, 0.0), (0, 1.0), (0, 1.0), (0, 0.0), (1, 0.5))
    e = 1.2 * math.log(5)
    assert policy.upper_bound(state, 0) == pytest.approx(0.5 + math.sqrt(e / 8) + 0.75 * e)
    assert policy.upper_bound(state, 1) == pytest.approx(0.5 + 3 * e)  # one reward: no variance
    assert weights(state) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EpsilonGreedy(fading=1.0), [1 - 1 / 8, 1 / 8]),  # round 4 explores with 1/4
        (EpsilonGreedy(fading=0.0, least=0.5), [0.75, 0.25]),
        (EpsilonGreedy(fading=8.0), [0.5, 0.5]),
    ],
)
def test_exploration_as_computed_by_hand(policy, expected):
    assert weights(fed(policy, (0, 3.0), (1, -1.0), (1, -1.0))) == pytest.approx(expected)


@pytest.mark.parametrize(("ties", "expected"), [("first", [0.875, 0.125]), ("any", [0.5, 0.5])])
def test_ties(ties, expected):
    state = fed(EpsilonGreedy(ties=ties), (0, 1.0), (1, 1.0), (0, 1.0))
    assert weights(state) == pytest.approx(expected)


def test_each_arm_is_played_once_first_unless_that_is_switched_off():
    assert weights(fed(EpsilonGreedy(fading=0.0), (0, 1.0))) == [0.0, 1.0]
    assert weights(fed(EpsilonGreedy(fading=0.0, once=False), (0, 1.0))) == [1.0, 0.0]
    assert choose(EpsilonGreedy(fading=0.0).start(2, 9), STREAM).arm == 0


def test_policies_say_what_they_accept():
    bell = Gaussian(means=(1.0, 0.0))
    with pytest.raises(
        InvalidParameter, match=r"ucb1 takes rewards in \[0, 1\], and gaussian pays"
    ):
        armrace.simulate("ucb1", bell)
    with pytest.raises(InvalidParameter, match="are epsilon-greedy, ucb"):
        armrace.simulate("ucb-v", bell)
    with pytest.raises(InvalidParameter, match=r"an audit takes rewards in \[0, 1\]"):
        armrace.simulate("ucb", bell, audit=0.05)
