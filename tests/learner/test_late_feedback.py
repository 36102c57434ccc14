"""Rewards that come late, by the choice of an adversary, do not make a race delete its best arm.

One adversary sees every reward and decides when it arrives; another has no say in delays, which are
fixed beforehand, and steers which arms are played. Either way, rewards that have arrived are not a
fair sample, and intervals of them alone fail. The race's intervals allow for whatever is due.
"""

import random

import pytest
from scipy import stats

from armrace.kernels.generics import Ticket
from armrace.learner import Learner
from armrace.policies import ActiveArmElimination, MultiLayerRace, SharpRace
from armrace.policies.races.race import interval

DELTA, HORIZON, RUNS = 0.2, 1000, 40
LEVEL = 1e-3
"""The level of the binomial tests. Of 40 runs, the first test allows no deletion: with one, at a
rate of ``DELTA`` or more, its p-value is above the level. A sound race deletes in far fewer runs
than that; these seeds are fixed, and none does."""
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
    """The race as it is."""

    def __init__(self):
        policy = ActiveArmElimination(delta=DELTA)
        self.learner = Learner(policy, arms=2, horizon=HORIZON, log=False)
        self.state = self.learner._state

    def play(self):
        return self.learner.decide()

    def learn(self, decision, reward):
        self.learner.learn(decision, reward)

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


def test_a_deletion_is_seen():
    race = LibraryRace()
    for _ in range(HORIZON):
        decision = race.play()
        race.learn(decision, float(decision.arm == OTHER))
    assert race.deleted() == [BEST]
    assert race.seen(OTHER)[0] == race.seen(OTHER)[1] > HORIZON / 2


@pytest.mark.parametrize("is_late", ADVERSARIES)
def test_the_best_arm_survives_an_adversary_that_delays(is_late):
    deletions = sum(deletes_the_best(LibraryRace(), is_late, seed) for seed in range(RUNS))
    assert deletions == 0
    assert stats.binomtest(deletions, RUNS, DELTA, alternative="less").pvalue < LEVEL
    for seed in range(3):
        assert not deletes_the_best(PlainRace(counts_due=True), is_late, seed)


@pytest.mark.parametrize("is_late", ADVERSARIES)
def test_intervals_that_ignore_what_is_due_fail(is_late):
    """Shows that the adversaries are strong enough to tell the two apart."""
    races = (PlainRace(counts_due=False) for _ in range(RUNS))
    deletions = sum(deletes_the_best(race, is_late, seed) for seed, race in enumerate(races))
    assert stats.binomtest(deletions, RUNS, DELTA, alternative="greater").pvalue < LEVEL


# --- delays that nobody chooses, and an adversary that steers -------------------------------------
#
# Rounds come in blocks. All rewards of a block arrive together, late, and those of later blocks
# before those of earlier ones; the other arm is played between them, without delay. So the delay of
# a play depends on its round alone, and not on any reward. The adversary sees rewards that are
# outstanding, and steers: if a block of the best arm's plays was unlucky, the best arm is not
# played again until that block has arrived; else the next block is tried. When the unlucky block
# arrives, it is all that has arrived of the best arm.

STEERED = {
    "multi-layer-race": (
        MultiLayerRace(layers=1, intervals="kl-jeffreys", delta=DELTA),
        500,
        300_000,
    ),
    "sharp-race": (SharpRace(most_corruption=0, delta=DELTA), 20_000, 3_000_000),
}
"""Each race with the plays of a block and the number of blocks."""


def unlucky_sum(state, plays, low):
    """The largest sum of so many rewards whose upper end lies below ``low``."""
    return max(
        total
        for total in range(plays // 3, plays // 2)
        if interval(state, 0, plays, float(total), 0.0, 0)[1] < low
    )


@pytest.mark.parametrize("name", STEERED)
def test_steering_makes_intervals_fail_that_ignore_what_is_due(name):
    """By exact probabilities: some block is unlucky, and fools intervals of what has arrived."""
    policy, plays, blocks = STEERED[name]
    state = policy.start(2, HORIZON)
    other = 10**9
    low, _ = interval(state, 0, other, 0.499 * other, 0.0, 0)
    total = unlucky_sum(state, plays, low)
    chance = stats.binom.cdf(total, plays, 0.5)  # of one block, with a mean of 0.5
    assert 1 - (1 - chance) ** blocks > 2 * DELTA
    # What is outstanding when the second block arrives could all have paid 1.
    assert interval(state, 0, plays, float(total), 0.0, plays)[1] > 0.6


@pytest.mark.parametrize("name", STEERED)
@pytest.mark.parametrize("earlier", [0, 1, 3])
def test_the_best_arm_survives_an_adversary_that_steers(name, earlier):
    """An unlucky block arrives while ``earlier`` ones are outstanding, or is all there is."""
    policy, plays, _ = STEERED[name]
    learner = Learner(policy, arms=2, horizon=10**6, log=False)
    for _ in range(4 * plays):
        learner.learn(learner.assign(Ticket(OTHER)), 0.5)
    for _ in range(earlier * plays):
        learner.assign(Ticket(BEST))
    block = [learner.assign(Ticket(BEST)) for _ in range(plays)]
    low = learner.inspect()[OTHER].lower
    total = unlucky_sum(learner._state, plays, low) - plays // 50  # it is not looked at every time
    for place, decision in enumerate(block):
        learner.learn(decision, float(place * total // plays < (place + 1) * total // plays))
    assert learner.inspect()[BEST].active == (earlier > 0)
