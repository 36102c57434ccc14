"""Reward laws against the laws they are named for, and as pure functions of round and arm."""

import numba
import numpy as np
import pytest
from scipy import stats

from armrace.environments import Bernoulli, Beta, Deterministic, FiniteSupport, Table, Uniform
from armrace.kernels.laws import (
    CHUNK,
    SEASONAL,
    add_totals,
    count_totals,
    draw_chunk,
    flip_chunk,
    make_drawn,
    make_law,
    rewards_between,
)
from armrace.kernels.pointers import LiveRewards
from armrace.randomness import reward_place

ERROR_PROBABILITY = 1e-6
"""With which a correct law would fail one of these tests for a fresh seed."""

ROUNDS = 100_000


@numba.njit
def compiled_draw(law, chunk, drawn):
    draw_chunk(law, chunk, drawn)


def law_of(environment, replication=0):
    law = environment.law()
    law.place[:] = reward_place(seed=11, replication=replication)
    return law


def rewards_of(environment, first_round=0, rounds=ROUNDS, replication=0, draw=compiled_draw):
    law = law_of(environment, replication)
    return rewards_between(law, first_round, first_round + rounds, draw)


ENVIRONMENTS = [
    Bernoulli(means=(0.0, 0.03, 0.5, 0.999, 1.0)),
    Uniform(lows=(0.0, 0.2, 0.5), highs=(1.0, 0.4, 0.5)),
    Beta(alphas=(0.5, 1.0, 3.0, 0.01, 200.0, 2.0), betas=(0.5, 2.0, 0.7, 0.02, 1e4, 1e-3)),
    FiniteSupport(values=(0.0, 0.25, 1.0), probabilities=((0.2, 0.5, 0.3), (0.0, 1.0, 0.0))),
    Deterministic(rewards=(0.0, 0.3, 1.0, 0.7, 0.1)),
    Table(rewards=np.random.default_rng(3).random((700, 3))),
]
named = pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda given: given.tag())


@named
def test_rewards_lie_in_the_unit_interval_and_do_not_depend_on_where_they_are_cut(environment):
    whole = rewards_of(environment, rounds=600)
    assert np.all((whole >= 0.0) & (whole <= 1.0))
    for cut in (1, 255, 256, 599):
        head = rewards_of(environment, rounds=cut)
        tail = rewards_of(environment, first_round=cut, rounds=600 - cut)
        assert np.array_equal(np.vstack([head, tail]), whole)


@named
def test_interpreted_and_compiled_laws_agree(environment):
    interpreted = rewards_of(environment, rounds=60, draw=draw_chunk)
    compiled = rewards_of(environment, rounds=60)
    # An interpreter's and a compiler's logarithm may differ in the last bit.
    assert np.allclose(interpreted, compiled, rtol=1e-12, atol=1e-300)
    if environment.tag() != "beta":
        assert np.array_equal(interpreted, compiled)


@named
def test_totals_are_those_of_the_rewards(environment):
    law, drawn = law_of(environment), make_drawn(environment.law().kind.size)
    compiled_draw(law, 1, drawn)
    table = rewards_of(environment, CHUNK, CHUNK)
    for begin, end in ((0, CHUNK), (0, 1), (3, 61), (60, 200), (128, 192), (7, 7)):
        totals = np.full(law.kind.size, 10.0)
        add_totals(law, drawn, begin, end, totals)
        assert np.allclose(totals, 10.0 + table[begin:end].sum(axis=0), rtol=1e-14)


def test_arms_of_all_kinds_stand_side_by_side():
    parts = [environment.law() for environment in ENVIRONMENTS[:2]]
    mixed = parts[0]._replace(
        kind=np.concatenate([law.kind for law in parts]),
        first=np.concatenate([law.first for law in parts]),
        second=np.concatenate([law.second for law in parts]),
        place=reward_place(seed=11, replication=0),
    )
    table = rewards_between(mixed, 0, 300, compiled_draw)
    bernoulli = rewards_of(ENVIRONMENTS[0], rounds=300)
    assert np.array_equal(table[:, :5], bernoulli)
    assert np.unique(table[:, 5]).size == 300


def test_an_arm_has_the_same_rewards_however_many_arms_follow():
    few = rewards_of(Uniform(lows=(0.0,) * 3, highs=(1.0,) * 3), rounds=100)
    many = rewards_of(Uniform(lows=(0.0,) * 9, highs=(1.0,) * 9), rounds=100)
    assert np.array_equal(many[:, :3], few)


@pytest.mark.parametrize("arms", [2, 3, 4, 5, 7, 8, 9])
def test_equal_arms_have_rewards_of_their_own(arms):
    equal = Uniform(lows=(0.0,) * arms, highs=(1.0,) * arms), Beta((2.0,) * arms, (3.0,) * arms)
    for environment in equal:
        rewards = rewards_of(environment, rounds=50)
        assert np.unique(rewards).size == rewards.size


def test_replications_have_rewards_of_their_own():
    environment = Uniform(lows=(0.0, 0.0), highs=(1.0, 1.0))
    first, second = (rewards_of(environment, rounds=500, replication=r) for r in (0, 1))
    assert not set(first.ravel()) & set(second.ravel())


def test_rounds_beyond_32_bits_have_rewards_of_their_own():
    environment = Uniform(lows=(0.0, 0.0), highs=(1.0, 1.0))
    near, far = (rewards_of(environment, first_round=r, rounds=500) for r in (0, 2**32))
    assert not set(near.ravel()) & set(far.ravel())


@pytest.mark.parametrize("rate", [0.0, 1e-4, 0.03, 0.5, 0.97, 1.0])
def test_bernoulli_arms_pay_0_or_1_at_their_rate(rate):
    rewards = rewards_of(Bernoulli(means=(rate, rate)))
    assert np.isin(rewards, (0.0, 1.0)).all()
    for arm in (0, 1):
        successes = int(rewards[:, arm].sum())
        assert stats.binomtest(successes, ROUNDS, rate).pvalue > ERROR_PROBABILITY


def test_bernoulli_arms_are_independent_of_one_another():
    ones = rewards_of(Bernoulli(means=(0.5,) * 5)).astype(int)
    patterns = np.bincount(ones @ (1 << np.arange(5)), minlength=32)
    assert stats.chisquare(patterns).pvalue > ERROR_PROBABILITY


def test_bernoulli_rounds_are_independent_of_one_another():
    ones = rewards_of(Bernoulli(means=(0.5, 0.5)))[:, 0].astype(int)
    patterns = np.bincount(ones.reshape(-1, 5) @ (1 << np.arange(5)), minlength=32)
    assert stats.chisquare(patterns).pvalue > ERROR_PROBABILITY


def test_uniform_arms_are_uniform_between_their_ends():
    rewards = rewards_of(Uniform(lows=(0.0, 0.2), highs=(1.0, 0.4)))
    assert stats.kstest(rewards[:, 0], "uniform").pvalue > ERROR_PROBABILITY
    assert stats.kstest(rewards[:, 1], "uniform", args=(0.2, 0.2)).pvalue > ERROR_PROBABILITY


def test_finite_support_has_its_probabilities():
    probabilities = ((0.2, 0.5, 0.3), (0.7, 0.05, 0.25))
    rewards = rewards_of(FiniteSupport(values=(0.0, 0.25, 1.0), probabilities=probabilities))
    for arm, row in enumerate(probabilities):
        counts = [int((rewards[:, arm] == value).sum()) for value in (0.0, 0.25, 1.0)]
        assert sum(counts) == ROUNDS
        assert stats.chisquare(counts, np.array(row) * ROUNDS).pvalue > ERROR_PROBABILITY


def test_a_value_of_probability_0_never_occurs():
    environment = FiniteSupport(
        values=(0.1, 0.2, 0.3), probabilities=((0.0, 0.5, 0.5), (0.5, 0.5, 0.0))
    )
    rewards = rewards_of(environment)
    assert set(np.unique(rewards[:, 0])) == {0.2, 0.3}
    assert set(np.unique(rewards[:, 1])) == {0.1, 0.2}


BETA_SHAPES = [(2.0, 3.0), (1.0, 1.0), (0.5, 0.5), (0.2, 5.0), (30.0, 0.8), (1e3, 2e3), (1e6, 1e6)]


@pytest.mark.parametrize(("alpha", "beta"), BETA_SHAPES)
def test_beta_arms_have_the_beta_law(alpha, beta):
    rewards = rewards_of(Beta(alphas=(alpha, alpha), betas=(beta, beta)))
    for arm in (0, 1):
        assert stats.kstest(rewards[:, arm], "beta", args=(alpha, beta)).pvalue > ERROR_PROBABILITY


@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 0.02), (1e-3, 1e-3), (1e-3, 2.0)])
def test_beta_arms_with_tiny_shapes_split_between_the_ends_as_they_should(alpha, beta):
    # Nearly all of the mass lies closer to 0 or 1 than a double can tell, so count it there.
    rewards = rewards_of(Beta(alphas=(alpha, 1.0), betas=(beta, 1.0)))[:, 0]
    law = stats.beta(alpha, beta)
    for level in (1e-200, 1e-9, 0.5, 1 - 1e-9):
        below = int((rewards <= level).sum())
        assert stats.binomtest(below, ROUNDS, law.cdf(level)).pvalue > ERROR_PROBABILITY


def test_consecutive_beta_rewards_are_independent():
    rewards = rewards_of(Beta(alphas=(0.7, 1.0), betas=(0.7, 1.0)))[:, 0]
    high = (rewards > 0.5).astype(int)
    correlation = np.corrcoef(high[:-1], high[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(ROUNDS)  # error probability 6e-7


def test_a_table_pays_what_it_says():
    table = np.random.default_rng(4).random((300, 5))
    assert np.array_equal(rewards_of(Table(rewards=table), rounds=300), table)
    assert np.array_equal(rewards_of(Table(rewards=table), 120, 50), table[120:170])


def test_coins_alone_are_drawn_and_added_up_as_among_other_laws():
    law = law_of(Bernoulli(means=[0.3, 0.7, 0.5]))
    both = [make_drawn(3), make_drawn(3)]
    sums = [np.zeros(3), np.zeros(3)]
    draw_chunk(law, 4, both[0])
    flip_chunk(law, 4, both[1])
    assert np.array_equal(both[0].rewards, both[1].rewards)
    add_totals(law, both[0], 3, 200, sums[0])
    count_totals(both[1], 3, 200, sums[1])
    assert np.array_equal(*sums)
    assert sums[0].tolist() == both[0].rewards[:, 3:200].sum(axis=1).tolist()


@pytest.mark.parametrize("kind", [-1, SEASONAL + 1])
def test_a_law_of_an_unknown_kind_is_refused(kind):
    law, sentence = make_law(kind, arms=2), rf"10 \(seasonal\); got \[{kind}, {kind}\]"
    with pytest.raises(ValueError, match=sentence):
        rewards_between(law, 0, 10)
    with pytest.raises(ValueError, match=sentence):
        LiveRewards(law, make_drawn(2), np.zeros(2))
