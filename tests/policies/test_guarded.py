"""The guard: as the theory page has it, around every kind of base, and its tickets."""

import math
from collections import Counter

import numpy as np
import pytest

from armrace.errors import ForeignTicket
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    SAME_ARM,
    assign,
    choose,
    decide,
    distribution,
    distribution_among,
    learn,
)
from armrace.kernels.streams import uniform
from armrace.learner import Learner
from armrace.policies import Guarded, Thompson, TsallisInf
from armrace.policies.races.patience import delete_arm
from armrace.randomness import Purpose, stream_for
from armrace.statistics import clopper_pearson
from playing import SEED, make_table, probabilities, run

ALL_KINDS = ["ucb1", "thompson", "exp3", "exp3p", "tsallis-inf", "lb-inf", "barbar", "sapo"]
SIMILAR = "kl-ucb moss exp3-ix exp3-plus-plus lb-inf-v optimistic-log-barrier log-barrier broad"
ALL_KINDS += [
    pytest.param(base, marks=pytest.mark.long) for base in (*SIMILAR.split(), "crucb", "robust-ucb")
]


def walked(policy, rounds, arms=4, horizon=2_000):
    state, stream = policy.start(arms, horizon), stream_for(3, Purpose.LEARNER, 0)
    coins = np.random.default_rng(3)
    for _ in range(rounds):
        ticket = decide(state, stream)
        learn(state, ticket, float(coins.random() < 0.5))
    return state, stream


@pytest.mark.parametrize("base", ALL_KINDS)
@pytest.mark.parametrize("eligible", [None, np.array([True, False, True, True])])
def test_arms_are_played_as_announced_when_some_are_deleted(base, eligible):
    """Pearson's statistic of at most three classes exceeds 60 with probability below e^-29."""
    state, stream = walked(Guarded(base=base, share=1, lead=0), 60)
    for arm in (1, 3):
        delete_arm(state.race, 0, arm)
    state.scratch.up_to_date[0] = False
    draws, counts, announced = 600, np.zeros(4), np.zeros(4)
    for _ in range(draws):
        ticket = choose(state, stream, eligible)
        counts[ticket.arm] += 1
        announced[ticket.arm] = ticket.probability
        if ticket.inner_arm != NO_ARM:
            assert ticket.arm in (0, 2)
        if ticket.layer != NO_LAYER:
            assert state.race.active[ticket.layer, ticket.arm]
    law = probabilities(state, 4) if eligible is None else announced
    if math.isnan(announced[0]):
        return
    seen = counts > 0
    assert law[seen].sum() == pytest.approx(1, abs=1e-3)
    assert announced[seen] == pytest.approx(law[seen])
    assert ((counts - draws * law)[seen] ** 2 / (draws * law[seen])).sum() < 60


def test_the_law_of_a_posterior_among_some_arms():
    state = Thompson().start(3, 100)
    state.successes[:], state.failures[:] = (1, 50, 0), (0, 2, 0)
    law = np.empty(3)
    distribution_among(state, np.array([True, False, True]), law)
    assert law == pytest.approx([2 / 3, 0, 1 / 3], abs=1e-9)


def test_weights_are_normalised_among_some_arms():
    state = TsallisInf().start(4, 100)
    law = np.empty(4)
    distribution_among(state, np.array([True, False, True, True]), law)
    assert law == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])


def lost_weight(told):
    """The weight that Tsallis-INF gives an arm that was taken from it at the beginning."""
    base = {"name": "tsallis-inf", "estimator": "iw"}
    state = Guarded(base=base, share=30).start(3, 4_000)
    state.weighted[0] = told
    delete_arm(state.race, 0, 2)
    stream, table = stream_for(1, Purpose.LEARNER, 0), make_table(4_000, means=(0.6, 0.4, 0.4))
    for row in table:
        ticket = decide(state, stream)
        assert ticket.arm != 2
        learn(state, ticket, row[ticket.arm])
    weights = np.empty(3)
    distribution(state.base, weights)
    return weights[2]


def test_a_base_with_weights_forgets_an_arm_only_if_it_is_told():
    """Otherwise its weight, and with it a regret that grows linearly, would go to the lost arm."""
    assert lost_weight(told=True) < 0.02
    assert lost_weight(told=False) > 0.9


@pytest.mark.parametrize(("share", "runs"), [(0, 1), (2, 4)])
def test_labels_have_their_probabilities(share, runs):
    """Each interval misses with probability 1e-6 at most."""
    rounds, policy = 20_000, Guarded(base="ucb1", share=share)
    counts, played = np.zeros(policy.layer_count(2, rounds)), 0
    for replication in range(runs):
        parts = run(policy, [0.5, 0.5], rounds, seed=2 + replication)
        counts += parts.policy.race.assigned.sum(axis=1)
        played += rounds
    expected = parts.policy.race.share
    assert expected.sum() == 2.0**-share
    for count, probability in zip(counts, expected, strict=True):
        low, high = clopper_pearson(int(count), played, 1e-6)
        assert low <= probability <= high


def test_what_the_first_layer_tolerates_costs_it_no_best_arm_and_more_can():
    """Far above ``first 2^share`` a fooled layer takes the best arm from the base."""
    policy = Guarded(base="ucb1", share=2, first=1.0)
    within = run(policy, [0.9, 0.5], 50_000, 0, adversary="swap-best", budget=4.0).policy.race
    assert within.active[:, 0].all()
    assert not within.active[0, 1]
    beyond = run(policy, [0.9, 0.5], 50_000, 0, adversary="swap-best", budget=4e3).policy.race
    assert not beyond.active[0, 0]
    assert beyond.active[-1, 0]


def test_without_labels_a_guard_is_its_base():
    """With ``share`` 30 no round of a short run is labelled."""
    table, arms = make_table(400), []
    for policy in (Guarded(base="tsallis-inf", share=30), TsallisInf()):
        state, stream = policy.start(4, 400), stream_for(SEED, Purpose.LEARNER, 0)
        own = []
        for row in table:
            if isinstance(policy, TsallisInf):
                uniform(stream)  # the guard's label
            ticket = decide(state, stream)
            learn(state, ticket, row[ticket.arm])
            own.append(ticket.arm)
        arms.append(own)
    assert arms[0] == arms[1]


def test_a_turn_teaches_the_base_nothing():
    state, _ = walked(Guarded(base="ucb1", share=0, lead=0), 50)
    assert state.base.counts.pulls.sum() == 0
    state, _ = walked(Guarded(base="ucb1", share=0, lead=4), 500)
    turns = 500 - state.base.counts.pulls.sum()
    assert turns == sum(int(plays.sum()) // 5 for plays in state.race.assigned)


@pytest.mark.parametrize("inner_arm", [-3, -(2**63), 3, 2**62])
def test_a_forged_inner_arm_is_refused(inner_arm):
    learner = Learner(Guarded(base="ucb1"), arms=3, horizon=100, log=False)
    decision = learner.decide()
    forged = decision.ticket._replace(inner_arm=inner_arm)
    with pytest.raises(ForeignTicket, match=r"^no decision of this learner is"):
        learner.learn(decision._replace(ticket=forged), 1.0)
    with pytest.raises(ForeignTicket, match=r"^no decision of this learner could have the ticket"):
        learner.assign(forged)
    learner.learn(decision, 1.0)


def test_tickets_say_which_arm_the_base_drew():
    """The base draws one of its lost arms at least once, but for a probability below 1e-9."""
    state, stream = walked(Guarded(base="tsallis-inf", share=1, lead=1), 60)
    for arm in (1, 3):
        delete_arm(state.race, 0, arm)
    state.scratch.up_to_date[0] = False
    said = Counter()
    for _ in range(400):
        ticket = choose(state, stream)
        assert ticket.phase == 0
        completed = assign(state, ticket)
        assert completed.inner_arm == ticket.inner_arm
        said[ticket.inner_arm] += 1
    assert said.keys() == {NO_ARM, SAME_ARM, 1, 3}
