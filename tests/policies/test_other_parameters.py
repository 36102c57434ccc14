"""What holds with other parameters than the defaults, which the catalogue's own tests have."""

import math

import pytest

from armrace.policies import (
    Barbar,
    Barbat,
    Broad,
    CrUcb,
    Exp3Ix,
    Exp3P,
    Exp3PlusPlus,
    Guarded,
    KlUcb,
    KlUcbCf,
    LogBarrier,
    Moss,
    OptimisticLogBarrier,
    RobustUcb,
    RUcb,
    Sapo,
    Thompson,
    ThompsonCf,
    TsallisInf,
)
from armrace.testing import check_policy
from playing import final_state, is_sound, make_table, play

CONTRACTS = [
    Barbar(scale=1 / 1024),
    CrUcb(estimator="shorth"),
    CrUcb(estimator="median"),
    Exp3P(delta=None),
    KlUcb(c=3),
    OptimisticLogBarrier(optimism=0.0),
    RobustUcb(estimator="catoni"),
    Sapo(scale=0.02),
    TsallisInf(estimator="iw"),
]
SIMILAR = [
    Barbat(scale=1 / 1024),
    Broad(learning_rate=0.5),
    Exp3Ix(anytime=True),
    Exp3PlusPlus(version="2014"),
    Guarded(base="ucb1"),
    Guarded(base="thompson"),
    KlUcbCf(p00=0.1, p11=0.2),
    RobustUcb(estimator="truncated"),
    RUcb(tuned=True),
    ThompsonCf(p00=0.1, p11=0.2),
]
"""Policies whose code is much like that of one that is checked anyway."""

EXTREMES = [
    *(Barbar(scale=scale) for scale in (1.0, 1 / 1024, 1e-4)),
    *(Barbat(scale=scale) for scale in (1.0, 1 / 1024, 1e-4)),
    *(Broad(learning_rate=rate) for rate in (1 / 162, 0.5)),
    *(Exp3Ix(anytime=anytime) for anytime in (False, True)),
    *(Exp3PlusPlus(version=version) for version in ("2017", "2014")),
    Exp3P(),
    KlUcb(c=3),
    KlUcbCf(),
    *(LogBarrier(learning_rate=rate) for rate in (None, 0.5, 100.0)),
    Moss(),
    *(RobustUcb(estimator=each) for each in ("median-of-means", "truncated", "catoni")),
    *(RUcb(tuned=tuned) for tuned in (False, True)),
    Thompson(),
    ThompsonCf(p00=0.2, p11=0.1),
    *(TsallisInf(estimator=estimator) for estimator in ("rv", "iw")),
]


@pytest.mark.parametrize(
    "policy",
    [*CONTRACTS, *(pytest.param(each, marks=pytest.mark.long) for each in SIMILAR)],
    ids=str,
)
def test_it_keeps_the_contract(policy):
    check_policy(policy)


@pytest.mark.parametrize("policy", EXTREMES, ids=str)
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_million_extreme_rounds_leave_it_sound(policy, reward):
    horizon = 10**6
    if isinstance(policy, RobustUcb):
        # Catoni costs a pass over all rewards.
        horizon = 10**4 if policy.estimator == "catoni" else 2 * 10**5
    environment = {"name": "deterministic", "rewards": (reward,) * 3}
    assert is_sound(final_state(policy, environment, horizon), 3)


@pytest.mark.parametrize("policy", [Barbar(), LogBarrier()], ids=str)
def test_a_horizon_of_one_round(policy):
    assert is_sound(final_state(policy, [0.5, 0.5], 1), 2)


@pytest.mark.parametrize("estimator", ["median-of-means", "truncated", "catoni"])
def test_robust_ucb_shows_its_index(estimator):
    policy = RobustUcb(estimator=estimator)
    _, state = play(policy, make_table(300))
    assert all(math.isfinite(view.upper) for view in policy.inspect(state))
