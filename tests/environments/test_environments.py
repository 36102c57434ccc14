"""Exact means, the laws that go to the engine, and what is refused."""

import numpy as np
import pytest

from armrace.environments import (
    ENVIRONMENTS,
    Bernoulli,
    Beta,
    Changing,
    Constrained,
    Deterministic,
    FiniteSupport,
    Gaussian,
    Seasonal,
    Table,
    Uniform,
    WideUniform,
)
from armrace.environments.visitors import VisitorEnvironment
from armrace.errors import ArmraceError, InvalidParameter
from armrace.kernels.laws import rewards_between
from armrace.randomness import reward_place

TABLE = np.array([[0.0, 1.0], [0.5, 0.0], [1.0, 0.5], [0.5, 1.0]])

MEANS = [
    (Bernoulli(means=(0.25, 1.0)), [0.25, 1.0]),
    (Beta(alphas=(1.0, 3.0), betas=(3.0, 1.0)), [0.25, 0.75]),
    (Uniform(lows=(0.0, 0.25), highs=(1.0, 0.75)), [0.5, 0.5]),
    (
        FiniteSupport(values=(0.0, 0.5, 1.0), probabilities=((0.5, 0.25, 0.25), (0, 0, 1))),
        [0.375, 1.0],
    ),
    (Deterministic(rewards=(0.125, 0.0)), [0.125, 0.0]),
    (Table(rewards=TABLE), [0.5, 0.625]),
    # The first four rounds have phases of 1, 2 and 3: high, low, low, high.
    (Constrained(means=(0.75, 0.5), shift=-0.5), [0.5, 0.25]),
    (Changing(levels=((0.5, 0.25), (1.0, 0.25)), changes=(3,)), [0.625, 0.25]),
    # A season of four rounds begins and ends in the middle: its waves cancel out.
    (Seasonal(means=(0.5, 0.25), swings=(0.5, -0.25), period=4), [0.5, 0.25]),
    (Gaussian(means=(-1.0, 2.5), sigma=0.1), [-1.0, 2.5]),
    (WideUniform(lows=(-3.0, 0.0), highs=(1.0, 8.0)), [-1.0, 4.0]),
]


@pytest.mark.parametrize(("environment", "means"), MEANS, ids=lambda given: str(given)[:20])
def test_means_are_exact_and_survive_plain_data(environment, means):
    assert environment.arms == len(means) == environment.law().kind.size
    for each in (environment, ENVIRONMENTS.make(environment.to_builtins())):
        assert type(each) is type(environment)
        assert each.mean_rewards(4).tolist() == means


def test_every_environment_of_the_catalogue_is_tested_here():
    elsewhere = {each for each in ENVIRONMENTS.values() if issubclass(each, VisitorEnvironment)}
    assert {type(environment) for environment, _ in MEANS} == set(ENVIRONMENTS.values()) - elsewhere


@pytest.mark.parametrize(
    "name", ["visitors-main", "visitors-mid", "visitors-segments", "visitors-clicks"]
)
def test_visitors_have_short_vectors_and_means_that_are_probabilities(name):
    environment = ENVIRONMENTS.make(name)
    kinds, again = environment.kinds(), ENVIRONMENTS.make(environment.to_builtins()).kinds()
    assert (np.square(kinds.vectors).sum(axis=1) <= 1).all()
    assert (kinds.means > 0).all()
    assert (kinds.means < 1).all()
    assert kinds.leaves.min() == 0
    assert all((one == other).all() for one, other in zip(kinds, again, strict=True))


def test_the_means_of_a_table_are_those_of_the_rounds_played():
    assert Table(rewards=TABLE).mean_rewards(2).tolist() == [0.25, 0.5]


def test_a_table_keeps_its_rewards_whatever_becomes_of_the_callers_array():
    given = TABLE.copy()
    table = Table(rewards=given)
    given[:] = 0.0
    assert table.rewards.tolist() == TABLE.tolist()
    assert table.mean_rewards(2).tolist() == [0.25, 0.5]


def test_masked_rewards_are_refused():
    masked = np.ma.masked_array(TABLE, mask=TABLE[0, 0] == TABLE)
    with pytest.raises(InvalidParameter, match="rewards must have no masked values; got"):
        Table(rewards=masked)
    whole = Table(rewards=np.ma.masked_array(TABLE))
    assert type(whole.rewards) is np.ndarray


HALVES = (0.5, 0.5)
REFUSALS = [
    (Bernoulli, ((0.5,),), "means must name at least 2 arms; got 1."),
    (Bernoulli, ((),), "means must name at least 2 arms; got 0."),
    (Bernoulli, ((0.5, 1.2),), "each of means must be in [0, 1]; got 1.2."),
    (Bernoulli, ((0.5, "x"),), "each of means must be a number; got 'x'."),
    (Deterministic, ((0.5, -1),), "each of rewards must be in [0, 1]; got -1."),
    (Deterministic, ((0.5,),), "rewards must name at least 2 arms; got 1."),
    (Uniform, ((0.5, 0.6), HALVES), "each low must be at most its high; got 0.6 and 0.5."),
    (Uniform, (HALVES, (0.6,)), "lows and highs must be equally many; got 2 lows and 1 highs."),
    (Beta, ((1.0, 0.0), HALVES), "each of alphas must be in [0.001, 1e+06]; got 0."),
    (Beta, (HALVES, (1.0,)), "alphas and betas must be equally many; got 2 alphas and 1 betas."),
    (FiniteSupport, ((0, 1), ((0.5, 0.4), HALVES)), "the probabilities of an arm must sum to 1;"),
    (FiniteSupport, ((0, 1), ((1.5, -0.5), HALVES)), "each of probabilities must be in [0, 1];"),
    (FiniteSupport, ((0, 2), (HALVES, HALVES)), "each of values must be in [0, 1]; got 2."),
    (FiniteSupport, ((), ((), ())), "values must name at least 1 reward; got none."),
    (FiniteSupport, ((0, 1), ((1.0,), (1.0,))), "values and probabilities must be equally many;"),
    (Table, (np.ones(3),), "rewards must be an array of rounds x arms."),
    (Table, ("rewards.csv",), "rewards must be an array of rounds x arms."),
    (Table, (np.ones((3, 1)),), "rewards must have at least 1 round and 2 arms; got 3 and 1."),
    (Table, (np.ones((0, 2)),), "rewards must have at least 1 round and 2 arms; got 0 and 2."),
]


@pytest.mark.parametrize(("kind", "given", "sentence"), REFUSALS)
def test_bad_parameters_are_refused_in_one_sentence(kind, given, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        kind(*given)
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 1.1])
def test_a_table_with_a_bad_reward_is_refused(bad):
    table = TABLE.copy()
    table[2, 1] = bad
    with pytest.raises(InvalidParameter, match=r"^each of rewards must be in \[0, 1\]; got "):
        Table(rewards=table)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Bernoulli, {"means": 0.5}),
        (Uniform, {"lows": 0.5, "highs": 0.6}),
        (FiniteSupport, {"values": (0.0, 1.0), "probabilities": (0.5, 0.5)}),
        (Table, {"rewards": np.array([["0", "1"]])}),
        (Table, {"rewards": np.array([[0, 1j]])}),
    ],
    ids=lambda given: str(given)[:40],
)
def test_parameters_of_the_wrong_kind_are_refused_by_an_error_of_ours(kind, values):
    with pytest.raises(ArmraceError):
        kind(**values)


def test_gaussian_rewards_have_their_moments_and_tails():
    """Of 200,000 draws: each bound is 6 standard errors wide, so it fails by chance with 1e-8."""
    law = Gaussian(means=(1.0, -2.0), sigma=0.5).law()
    law.place[:] = reward_place(3, 0)
    draws = (rewards_between(law, 0, 200_000) - [1.0, -2.0]) / 0.5
    root = np.sqrt(len(draws))
    assert np.abs(draws.mean(axis=0)).max() < 6 / root
    assert np.abs((draws**2).mean(axis=0) - 1).max() < 6 * np.sqrt(2) / root
    assert np.abs((draws**4).mean(axis=0) - 3).max() < 6 * np.sqrt(96) / root
    beyond = (np.abs(draws) > 1.959964).mean(axis=0)
    assert np.abs(beyond - 0.05).max() < 6 * np.sqrt(0.05 * 0.95) / root
    assert abs(np.corrcoef(draws.T)[0, 1]) < 6 / root
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 6 / root


def test_the_range_of_rewards_is_the_unit_interval_unless_a_law_says_otherwise():
    assert Bernoulli(means=(0.5, 0.1)).reward_range() == (0.0, 1.0)
    assert Gaussian(means=(0.5, 0.1)).reward_range() == (-np.inf, np.inf)
    assert WideUniform(lows=(-3.0, 0.0), highs=(1.0, 8.0)).reward_range() == (-3.0, 8.0)


def test_phases_grow_and_alternate_with_the_means_of_their_turn():
    """By hand: 1, 2, 3, 4 and 7 rounds, from lengths 1, 1.6, 2.56, 4.096 and 6.5536."""
    law = Constrained(means=(1.0, 0.75), shift=-0.75).law()
    assert law.table[:5, 0].tolist() == [1, 3, 6, 10, 17]
    law.place[:] = reward_place(1, 0)
    paid = rewards_between(law, 0, 30_000)
    phase = np.searchsorted(law.table[:, 0], np.arange(30_000), side="right") % 2
    assert (paid[phase == 0, 0] == 1).all()
    assert (paid[phase == 1, 1] == 0).all()
    for arm, turn, mean in ((0, 1, 0.25), (1, 0, 0.75)):
        own = paid[phase == turn, arm]
        # Six standard errors: fails by chance with probability 1e-8.
        assert abs(own.mean() - mean) < 6 * np.sqrt(0.1875 / own.size)


def test_means_must_stay_probabilities_in_every_phase():
    with pytest.raises(InvalidParameter, match=r"each of means plus shift must be in \[0, 1\]"):
        Constrained(means=(0.5, 0.4), shift=-0.45)
