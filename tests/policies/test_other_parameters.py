"""What holds with other parameters than the defaults, which the catalogue's own tests have."""

import math

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.kernels.generics import decide, learn
from armrace.policies import (
    Barbar,
    Barbat,
    BestOfAllWorlds,
    Broad,
    CrUcb,
    Exp3,
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
    Sao,
    Sapo,
    Thompson,
    ThompsonCf,
    TsallisInf,
)
from armrace.randomness import Purpose, stream_for
from armrace.testing import check_policy
from armrace.testing.contract import expect_sound
from playing import final_state, is_sound

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
    *(Barbar(scale=scale) for scale in (1 / 1024, 1e-4)),
    *(Barbat(scale=scale) for scale in (1 / 1024, 1e-4)),
    BestOfAllWorlds(scale=0.01),
    *(Broad(learning_rate=rate) for rate in (1 / 162, 0.5)),
    CrUcb(),
    *(Exp3Ix(anytime=anytime) for anytime in (False, True)),
    *(Exp3PlusPlus(version=version) for version in ("2017", "2014")),
    Exp3P(),
    KlUcb(c=3),
    KlUcbCf(),
    *(LogBarrier(learning_rate=rate) for rate in (None, 0.5, 100.0)),
    Moss(),
    *(RobustUcb(estimator=each) for each in ("median-of-means", "truncated", "catoni")),
    *(RUcb(tuned=tuned) for tuned in (False, True)),
    Sao(),
    Sapo(scale=0.01),
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
    state = final_state(policy, environment, horizon)
    if isinstance(policy, (BestOfAllWorlds, Sao)):  # whose bounds may be infinite
        expect_sound(policy, state)
    else:
        assert is_sound(state, 3)


LEADERS = ("lb-inf", "lb-inf-v", "optimistic-log-barrier", TsallisInf(), TsallisInf(estimator="iw"))


@pytest.mark.parametrize("policy", LEADERS, ids=str)
def test_a_thousand_arms(policy):
    assert is_sound(final_state(policy, np.linspace(0, 1, 1000), 5000), 1000)


WEIGHING = [
    (Exp3(learning_rate=0.1), lambda state: state.losses, 2.0),
    (Exp3P(), lambda state: state.exponential.gains, 2.0),
    (Exp3PlusPlus(version="2014"), lambda state: state.losses, 2.0),
    (Exp3Ix(), lambda state: state.losses, 1 / (0.5 + math.sqrt(math.log(2) / 1000) / 2)),
    (Exp3Ix(anytime=True), lambda state: state.losses, 1 / (0.5 + math.sqrt(math.log(2) / 2) / 2)),
    (Sapo(), lambda state: state.weighted_losses, 2.0),
]


@pytest.mark.parametrize(("policy", "estimates", "added"), WEIGHING)
def test_late_feedback_is_weighed_with_the_probability_of_its_decision(policy, estimates, added):
    state = policy.start(arms=2, horizon=1000)
    stream = stream_for(0, Purpose.LEARNER, 0)
    first = decide(state, stream)
    for _ in range(100):
        learn(state, decide(state, stream), 0.5)
    before = estimates(state).copy()
    learn(state, first, float(isinstance(policy, Exp3P)))
    expected = [0.0, 0.0]
    expected[first.arm] = added
    assert estimates(state) - before == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        *((Barbar, {"scale": scale}, "scale must be") for scale in (0, -1, 1000, math.inf)),
        *((BestOfAllWorlds, {"alpha": a}, r"alpha must be in \(0, 0\.5\)") for a in (0, 0.5)),
        (Exp3Ix, {"anytime": True, "learning_rate": 0.1}, "anytime sets the rates itself"),
        (Exp3Ix, {"anytime": True, "exploration": 0.0}, "anytime sets the rates itself"),
        (Exp3PlusPlus, {"version": "2020"}, "version must be one of 2017, 2014"),
        *((Exp3P, {"delta": delta}, "delta must be") for delta in (0.0, 1.0, -1, "often")),
        *((k, {"p00": 0.25, "p11": 0.75}, "must not add to 1") for k in (KlUcbCf, ThompsonCf)),
    ],
)
def test_parameters_have_limits(kind, given, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        kind(**given)
