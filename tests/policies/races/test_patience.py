"""The draw of a layer, and when intervals are recomputed."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from armrace.kernels.generics import Ticket, learn
from armrace.policies import FastSlowRace, MultiLayerRace, SharpRace
from armrace.policies.races.intervals import paper_rule
from armrace.policies.races.race import FOREVER, halving_layer_at, layer_at, make_race

FINE = 2**13
"""Levels between which no border of up to 12 layers lies."""


@pytest.mark.parametrize("layers", [2, 3, 7, 12])
def test_the_exponent_gives_each_layer_its_share_exactly(layers):
    share = MultiLayerRace(layers=layers).start(arms=2, horizon=1000).share
    found = np.bincount([halving_layer_at(i / FINE, layers) for i in range(FINE)], minlength=layers)
    assert (found / FINE).tolist() == share.tolist()


@pytest.mark.parametrize("layers", [2, 20, 62])
@given(bits=st.integers(0, 2**53 - 1))
@example(bits=0)
@example(bits=1)
@example(bits=2**53 - 1)
def test_every_level_has_a_layer(layers, bits):
    level = bits * 2.0**-53
    layer = halving_layer_at(level, layers)
    assert 0 <= layer < layers
    assert layer == 0 or 2.0 ** -(layer + 1) <= level < 2.0**-layer


def test_the_plain_form_gives_each_layer_its_share_exactly():
    race = MultiLayerRace(layers=7).start(arms=2, horizon=1000)
    found = np.bincount([layer_at(i / FINE, race.tail, 0) for i in range(FINE)], minlength=7)
    assert (found / FINE).tolist() == race.share.tolist()


def test_only_shares_that_halve_are_looked_up_by_their_exponent():
    assert MultiLayerRace().start(2, 1000).halving[0]
    assert SharpRace().start(2, 10**6).halving[0]
    assert not MultiLayerRace(base=3).start(2, 1000).halving[0]
    assert not FastSlowRace(corruption=8).start(2, 1000).halving[0]
    assert not SharpRace(most_corruption=0).start(2, 1000).halving[0]


UNIT = 2**60
"""All rewards here are whole multiples of 1 / UNIT, so that sums of them are exact."""


class Attentive:
    """All intervals of a layer, after every reward, from sums that are exact."""

    def __init__(self, layers, arms, log_term, allowance, pooled):
        self.log_term, self.allowance, self.pooled = log_term, allowance, pooled
        self.pulls = [[0] * arms for _ in range(layers)]
        self.sums = [[0] * arms for _ in range(layers)]
        self.active = np.ones((layers, arms), dtype=bool)

    def interval(self, layer, arm):
        end = len(self.pulls) if self.pooled else layer + 1
        n = sum(self.pulls[used][arm] for used in range(layer, end))
        if n == 0:
            return -math.inf, math.inf
        mean = sum(self.sums[used][arm] for used in range(layer, end)) / UNIT / n
        width = math.sqrt(self.log_term / n) + self.allowance / n
        return mean - width, mean + width

    def learn(self, layer, arm, reward):
        self.pulls[layer][arm] += 1
        self.sums[layer][arm] += int(reward * UNIT)
        for user in range(layer, -1 if self.pooled else layer - 1, -1):
            if not self.active[user, arm]:
                continue
            ends = {a: self.interval(user, a) for a in np.flatnonzero(self.active[user])}
            highest = max(low for low, _ in ends.values())
            for other, (_, high) in ends.items():
                if high < highest:
                    self.active[: user + 1, other] = False


plays = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=1,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(
    plays,
    st.integers(1, 40),
    st.sampled_from([0.02, 0.3, 2.0]),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
)
def test_whatever_comes_in_whatever_order(given_plays, repeated, log_term, allowance, pooled):
    share = np.array([0.75, 0.25])
    race = make_race(4, share, paper_rule(log_term, np.full(2, allowance)), pooled)
    attentive = Attentive(2, 4, log_term, allowance, pooled)
    for layer, arm, reward in given_plays:
        for _ in range(repeated):
            learn(race, Ticket(arm, layer, 1.0), reward)
            attentive.learn(layer, arm, reward)
            assert np.array_equal(race.active, attentive.active)


@pytest.mark.parametrize("log_term", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("before", [50, 400, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_the_worst_that_can_come_is_noticed_at_once(log_term, before, level):
    """One arm pays all and the other nothing from now on; each turn in the other order as well."""
    for order in ((0, 1), (1, 0)):
        race = make_race(2, np.array([1.0]), paper_rule(log_term, np.zeros(1)))
        attentive = Attentive(1, 2, log_term, 0.0, pooled=False)
        for turn in range(before + 300):
            for arm in order:
                reward = level if turn < before else float(arm == 0)
                learn(race, Ticket(arm, 0, 1.0), reward)
                attentive.learn(0, arm, reward)
                assert np.array_equal(race.active, attentive.active)
            if not race.active.all():
                break
        assert not race.active[0, 1]


def test_many_rewards_are_not_looked_at():
    race = make_race(2, np.array([1.0]), paper_rule(10.0, np.zeros(1)))
    intervals = set()
    for _ in range(200):
        for arm in (0, 1):
            learn(race, Ticket(arm, 0, 1.0), 0.5)
            intervals.add(float(race.lower[0, 0]))
    assert race.layers[0].patient
    assert len(intervals) < 30


def test_an_arm_without_a_reward_keeps_its_layer_attentive():
    race = make_race(3, np.array([1.0]), paper_rule(10.0, np.zeros(1)))
    for _ in range(50):
        for arm in (0, 1):
            learn(race, Ticket(arm, 0, 1.0), 0.5)
    assert not race.layers[0].patient
    assert race.pulls[0, 2] == 0


@pytest.mark.parametrize("arms", [2, 5])
def test_where_nothing_is_left_to_be_deleted_patience_has_no_end(arms):
    race = make_race(arms, np.array([1.0]), paper_rule(1.0, np.zeros(1)))
    for _ in range(400):
        for arm in range(arms):
            learn(race, Ticket(arm, 0, 1.0), float(arm == 0))
    assert race.active[0].tolist() == [True] + [False] * (arms - 1)
    assert (race.patience[0] > FOREVER - 1000).all()
