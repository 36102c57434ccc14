"""Late rewards: audits hold whatever the delays depend on, and still see a forger.

Error probabilities: an honest learner raises an alarm with probability at most the level, 0.05,
over fixed seeds; before outstanding rewards were counted, all of these learners raised one.
"""

import random
from collections import deque

import numpy as np
import pytest

from armrace.audit import audit, watch
from armrace.audit.evidence import Samples, nearest_pairs, pairs_of
from armrace.kernels.generics import Ticket, decide, learn
from armrace.learner import Learner
from armrace.policies import MultiLayerRace, Ucb1
from armrace.policies.common.blocks import nearest_sums
from armrace.randomness import Purpose, stream_for

RATES = {"red": 0.3, "green": 0.25}


def play(delay, forged=range(0), rounds=6000, seed=1):
    """Clicks are reported at once, their absence only after ``delay`` decisions."""
    learner = Learner("multi-layer-race", arms=list(RATES), horizon=10_000, seed=seed)
    clicks, late = random.Random(seed), deque()
    for number in range(rounds):
        ticket = learner.decide()
        click = clicks.random() < RATES[ticket.arm]
        if click or (number in forged and ticket.arm == "red"):
            learner.learn(ticket, 1.0)
        else:
            late.append((number + delay, ticket))
        while late and late[0][0] <= number:
            learner.learn(late.popleft()[1], 0.0)
    return learner


@pytest.mark.parametrize("delay", [50, 500])
@pytest.mark.parametrize("seed", range(3))
def test_delays_that_depend_on_the_reward_raise_no_alarm(delay, seed):
    assert not play(delay, seed=seed).audit(0.05).alarmed


@pytest.mark.parametrize("delay", [0, 5, 50])
def test_forged_clicks_are_still_seen(delay):
    found = play(delay, forged=range(3000, 3500)).audit(0.05)
    alarm = next(alarm for alarm in found.alarms if alarm.kind == "change")
    assert (alarm.arm, alarm.direction) == ("red", "up")
    assert 80 < found.seen_certificate < 500
    assert alarm.means[1] > 0.8  # of the rewards that have come


def race_of(pulls, assigned):
    """Two layers that have seen arm 0 pay nothing, and always."""
    race = MultiLayerRace(delta=0.1).start(2, 1024)
    race.pulls[:2, 0] = pulls
    race.assigned[:2, 0] = assigned
    race.sums[:2, 0] = 0.0, pulls[1]
    race.rounds[0] = 2 * sum(assigned)
    return race


def test_outstanding_rewards_of_a_layer_may_be_anything():
    """With 50 of 100 outstanding, the first layer's mean may be as large as a half."""
    at_once = audit(race_of([50, 50], [50, 50]), level=0.2)
    late = audit(race_of([50, 50], [100, 50]), level=0.2)
    assert at_once.seen_certificate > late.seen_certificate > 0.0
    assert late.alarms[0].means == (0.0, 1.0)
    assert not audit(race_of([50, 50], [1000, 50]), level=0.2).alarmed


def test_the_nearest_sums_are_the_least_striking():
    """Against all whole ways to fill in the outstanding rewards; both forms agree."""
    coins = np.random.default_rng(5)
    for _ in range(50):
        n, m = coins.integers(1, 12, size=2)
        low, other_low = coins.integers(0, n + 1), coins.integers(0, m + 1)
        high, other_high = coins.integers(low, n + 1), coins.integers(other_low, m + 1)
        first, second = np.meshgrid(np.arange(low, high + 1), np.arange(other_low, other_high + 1))
        sizes = np.full(first.size, n), np.full(first.size, m)
        filled = pairs_of(sizes[0], first.ravel() * 1.0, sizes[1], second.ravel() * 1.0)
        ends = (np.array([float(end)]) for end in (low, high, other_low, other_high))
        a, b, c, d = ends
        nearest = nearest_pairs(Samples(np.array([n]), a, b), Samples(np.array([m]), c, d))
        assert nearest.evidence[0] <= filled.evidence.min() + 1e-9
        if high * m <= other_low * n or low * m >= other_high * n:
            assert nearest.evidence[0] == pytest.approx(filled.evidence.min())
        compiled = nearest_sums(n, float(low), float(high), m, float(other_low), float(other_high))
        assert compiled == (nearest.sums[0], nearest.other_sums[0])


def test_a_play_that_another_follows_stays_unknown_in_the_waves():
    """One arm: a reward that could belong to either of two plays is given to none."""
    state = watch(Ucb1().start(1, 100), 1, 100)
    stream = stream_for(1, Purpose.LEARNER, 0)
    first = decide(state, stream)
    learn(state, first, 1.0)  # the first reward has none before it to compare with
    learn(state, decide(state, stream), 1.0)
    assert (state.waves.assigned.sum(), state.waves.pulls.sum()) == (3, 3)  # one a memory
    tickets: list[Ticket] = [decide(state, stream), decide(state, stream)]
    learn(state, tickets[1], 0.0)
    learn(state, tickets[0], 1.0)
    assert (state.waves.assigned.sum(), state.waves.pulls.sum()) == (6, 3)
    learn(state, decide(state, stream), 1.0)
    assert (state.waves.assigned.sum(), state.waves.pulls.sum()) == (9, 6)
    assert state.assigned[0] == state.pulls[0] == 5
