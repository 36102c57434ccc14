"""Rewards that come late, by the choice of an adversary, do not make a race delete its best arm.

The adversary sees every reward and decides when it arrives. Those that have arrived are then not
a fair sample, and intervals of them alone fail. The race's intervals allow for whatever is due.
"""

from __future__ import annotations

import random

import pytest
from scipy import stats

from armrace.kernels.generics import Ticket, assign, learn
from armrace.policies import ActiveArmElimination
from armrace.policies.races.race import next_arm
from armrace.policies.races.state import interval

DELTA, HORIZON, RUNS = 0.2, 1000, 40
LEVEL = 1e-3
"""Of each binomial test below: the probability that it fails on sound code, at most."""
MEANS = (0.6, 0.5)
BEST, OTHER = 0, 1


def ones_of_the_best_arm_are_late(arm, reward, pulls, total):
    return arm == BEST and reward == 1.0


def zeros_of_the_other_arm_are_late(arm, reward, pulls, total):
    return arm == OTHER and reward == 0.0


def the_best_arm_is_held_back_when_it_looks_good(arm, reward, pulls, total):
    return arm == BEST and total + reward > 0.1 * (pulls + 1)


ADVERSARIES = [
    ones_of_the_best_arm_are_late,
    zeros_of_the_other_arm_are_late,
    the_best_arm_is_held_back_when_it_looks_good,
]


class LibraryRace:
    """The race as it is, interpreted."""

    def __init__(self):
        self.state = ActiveArmElimination(delta=DELTA).start(2, HORIZON)

    def play(self):
        arm = int(next_arm(self.state.layers[0]))
        return assign(self.state, Ticket(arm))

    def learn(self, ticket, reward):
        learn(self.state, ticket, reward)

    def seen(self, arm):
        return self.state.pulls[0, arm], self.state.sums[0, arm]

    def deleted(self):
        return [arm for arm in (BEST, OTHER) if not self.state.active[0, arm]]


class PlainRace:
    """Arms in turn, and a comparison of intervals after each reward."""

    def __init__(self, counts_due):
        self.rule = ActiveArmElimination(delta=DELTA).start(2, HORIZON)
        self.counts_due = counts_due
        self.turn, self.assigned = BEST, [0, 0]
        self.pulls, self.sums = [0, 0], [0.0, 0.0]
        self.gone = []

    def play(self):
        arm = self.turn
        self.turn = OTHER - arm
        self.assigned[arm] += 1
        return Ticket(arm)

    def learn(self, ticket, reward):
        self.pulls[ticket.arm] += 1
        self.sums[ticket.arm] += reward
        if all(self.pulls):
            ends = [self.interval(arm) for arm in (BEST, OTHER)]
            self.gone += [arm for arm in (BEST, OTHER) if ends[arm][1] < ends[OTHER - arm][0]]

    def interval(self, arm):
        due = self.assigned[arm] - self.pulls[arm] if self.counts_due else 0
        return interval(self.rule, 0, self.pulls[arm], self.sums[arm], 0.0, due)

    def seen(self, arm):
        return self.pulls[arm], self.sums[arm]

    def deleted(self):
        return self.gone


def deletes_the_best(race, is_late, seed):
    """Whether the best arm is deleted while the adversary holds rewards back."""
    luck = random.Random(seed)
    for _ in range(HORIZON):
        ticket = race.play()
        reward = float(luck.random() < MEANS[ticket.arm])
        if not is_late(ticket.arm, reward, *race.seen(ticket.arm)):
            race.learn(ticket, reward)
        if race.deleted():
            break
    return BEST in race.deleted()


@pytest.mark.parametrize("is_late", ADVERSARIES)
def test_the_best_arm_survives_an_adversary_that_delays(is_late):
    deletions = sum(deletes_the_best(LibraryRace(), is_late, seed) for seed in range(RUNS))
    assert stats.binomtest(deletions, RUNS, DELTA, alternative="less").pvalue < LEVEL
    for seed in range(3):
        assert not deletes_the_best(PlainRace(counts_due=True), is_late, seed)


@pytest.mark.parametrize("is_late", ADVERSARIES)
def test_intervals_that_ignore_what_is_due_fail(is_late):
    """Shows that the adversaries are strong enough to tell the two apart."""
    races = (PlainRace(counts_due=False) for _ in range(RUNS))
    deletions = sum(deletes_the_best(race, is_late, seed) for seed, race in enumerate(races))
    assert stats.binomtest(deletions, RUNS, DELTA, alternative="greater").pvalue < LEVEL
