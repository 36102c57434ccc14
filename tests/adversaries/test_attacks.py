"""Each attack changes what it says, is charged for it, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

from armrace.adversaries import (
    ADVERSARIES,
    AaeOpening,
    NoAttack,
    Outage,
    RandomFlips,
    Setting,
    SwapBest,
    ZeroBest,
    ZeroBestWhenLikely,
)
from armrace.environments import Deterministic, Table
from armrace.errors import InvalidParameter
from armrace.kernels.generics import corrupt
from armrace.policies import ActiveArmElimination, EnlargedArmElimination
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out, run_replication

SETTING = Setting(means=np.array([0.25, 0.75, 0.5]), horizon=100, budget=50.0)
BEST, RUNNER_UP = 1, 2


PAID, STRUCK, EVEN = [0.5, 1.0, 0.25], [0.5, 0.0, 0.25], (0, 0, 0)
LIKELY, GIVEN = ZeroBestWhenLikely(likely=0.2), Outage(arm=2, first=5, length=3)
PROPOSED = [
    # attack, weights, round, what it makes of the rewards
    (NoAttack(), EVEN, 0, PAID),
    (ZeroBest(), EVEN, 0, STRUCK),
    (SwapBest(), EVEN, 0, [0.5, 0.0, 1.0]),
    (SwapBest(decoy=0), EVEN, 0, [1.0, 0.0, 0.25]),
    *((ZeroBestWhenLikely(), (1 - w, w, 0), 0, STRUCK) for w in (0.5, 0.75)),
    (ZeroBestWhenLikely(), (0.5001, 0.4999, 0), 0, PAID),
    (LIKELY, (0.8, 0.2, 0), 0, STRUCK),
    (LIKELY, (0.9, 0.1, 0), 0, PAID),
    *((Outage(), EVEN, number, STRUCK) for number in (10, 19)),  # the second tenth of the run
    *((Outage(), EVEN, number, PAID) for number in (9, 20)),
    *((GIVEN, EVEN, number, [0.5, 1.0, 0.0]) for number in (5, 7)),
    *((GIVEN, EVEN, number, PAID) for number in (4, 8)),
    (RandomFlips(rate=1.0), EVEN, 0, [0.5, 0.0, 0.75]),
    (RandomFlips(rate=0.0), EVEN, 0, PAID),
    (AaeOpening(), (0, 1, 0), 0, STRUCK),
    (AaeOpening(), (1, 0, 0), 0, PAID),  # where the best arm cannot be played
    (AaeOpening(boost=True), (0, 0, 1), 0, [0.5, 1.0, 1.0]),
    (AaeOpening(boost=True), (0, 1, 0), 0, STRUCK),
    (AaeOpening(rounds=7), (0, 1, 0), 6, STRUCK),
    (AaeOpening(rounds=7), (0, 1, 0), 7, PAID),
]


@pytest.mark.parametrize(("attack", "weights", "round", "shown"), PROPOSED, ids=str)
def test_what_an_attack_makes_of_a_round(attack, weights, round, shown):
    state, changed = attack.start(SETTING), np.array(PAID)
    stream = stream_for(1, Purpose.ADVERSARY, 0)
    corrupt(state, round, np.array(weights, dtype=float), changed, SETTING.budget, stream)
    assert changed.tolist() == shown


def test_the_opening_lasts_as_long_as_arm_elimination_needs():
    # K = 2, T = 1000, delta = .1: L = ln(40000) = 10.59663; 4L/.64 = 66.2 pulls of each arm.
    setting = Setting(np.array([1.0, 0.8]), 1000, 100.0)
    assert AaeOpening(delta=0.1).start(setting).rounds == 2 * (67 + 1)
    assert AaeOpening(delta=0.1, boost=True).start(setting).rounds == 2 * (43 + 1)


def test_the_opening_against_a_worthless_runner_up_lasts_to_the_end():
    assert AaeOpening().start(Setting(np.array([1.0, 0.0]), 1000, 1.0)).rounds == 1000


@pytest.mark.parametrize(
    ("attack", "sentence"),
    [
        (SwapBest(decoy=3), "decoy must be an arm in [0, 2]; got 3."),
        (SwapBest(decoy=BEST), "decoy must not be the best arm; got 1."),
        (Outage(arm=3), "arm must be an arm in [0, 2]; got 3."),
    ],
    ids=str,
)
def test_an_arm_that_is_not_there_is_refused(attack, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        attack.start(SETTING)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        (RandomFlips, {"rate": 1.5}, "rate must be in [0, 1]; got 1.5."),
        (ZeroBestWhenLikely, {"likely": -0.1}, "likely must be in [0, 1]; got -0.1."),
        (Outage, {"length": 0}, "length must be at least 1; got 0."),
        (Outage, {"first": -1}, "first must be at least 0; got -1."),
        (AaeOpening, {"delta": 0}, "delta must be in (0, 1); got 0."),
        (SwapBest, {"decoy": 1.5}, "decoy must be a whole number; got 1.5."),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_in_one_sentence(kind, values, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        kind(**values)
    assert str(refusal.value) == sentence


# On the engine: a single-layer race that never deletes plays its three arms in turn.

REWARDS = np.tile([[0.25, 1.0, 0.5]], (300, 1))
PATIENT = EnlargedArmElimination(corruption=1e6)


def attacked(attack, budget, rewards=REWARDS):
    experiment = make_experiment(
        policy=PATIENT,
        environment=Table(rewards=rewards),
        adversary=attack,
        budget=budget,
        horizon=len(rewards),
        replications=1,
        seed=4,
    )
    outcome = run_replication(experiment, 0)
    assert outcome.pulls[-1].tolist() == [100, 100, 100]
    return outcome


CHARGES = [
    # attack, budget, total spent, spent on each arm, observed by the learner
    (NoAttack(), 50.0, 0.0, [0, 0, 0], 0.0),
    (ZeroBest(), 50.0, 50.0, [0, 50, 0], 17.0),  # rounds 0 to 49; arm 1 in 1, 4, ..., 49
    (ZeroBest(), 1000.0, 300.0, [0, 300, 0], 100.0),
    (SwapBest(), 50.0, 50.0, [0, 50, 25], 17.0 + 0.5 * 16),
    (SwapBest(decoy=0), 50.0, 50.0, [37.5, 50, 0], 17.0 + 0.75 * 17),
    (ZeroBestWhenLikely(), 50.0, 50.0, [0, 50, 0], 50.0),
    (Outage(), 50.0, 30.0, [0, 30, 0], 10.0),  # rounds 30 to 59
    (Outage(arm=0, first=10, length=20), 50.0, 5.0, [5, 0, 0], 0.25 * 6),  # 12, 15, ..., 27
    (AaeOpening(rounds=60), 50.0, 20.0, [0, 20, 0], 20.0),
    (AaeOpening(rounds=60, boost=True), 50.0, 30.0, [0, 20, 10], 30.0),
    (RandomFlips(rate=1.0), 50.0, 50.0, [25, 50, 0], 17.0 + 0.5 * 17),
]


@pytest.mark.parametrize(("attack", "budget", "total", "arms", "seen"), CHARGES, ids=str)
def test_an_attack_is_charged_exactly(attack, budget, total, arms, seen):
    outcome = attacked(attack, budget)
    assert outcome.corruption[-1] == total
    assert outcome.arm_corruption[-1].tolist() == arms
    assert outcome.layer_corruption[-1].tolist() == [seen]


def test_every_attack_of_the_catalogue_is_tested_here_or_in_a_file_of_its_own():
    here = {type(case[0]) for case in CHARGES}
    files = list(Path(__file__).parent.glob("test_*.py"))
    written = " ".join(file.stem + file.read_text() for file in files)
    for attack in set(ADVERSARIES.values()) - here:
        names = attack.__name__, attack.tag().replace("-", "_")
        assert any(name in written for name in names), attack


def test_random_flips_strike_their_share_of_the_rounds():
    # 300 rounds at rate .2, each costing 1: within 5 standard deviations of 60, 6e-7 to fail.
    spent = attacked(RandomFlips(rate=0.2), 1000.0).corruption[-1]
    assert abs(spent - 60) < 5 * np.sqrt(300 * 0.2 * 0.8)


def elimination_under(attack, budget):
    experiment = make_experiment(
        policy=ActiveArmElimination(delta=0.1),
        environment=Deterministic(rewards=(1.0, 0.8)),
        adversary=attack,
        budget=budget,
        horizon=1000,
        replications=1,
    )
    parts = make_parts(experiment, 0)
    play_out(parts)
    return parts


def test_the_opening_has_the_best_arm_deleted_when_it_should():
    parts = elimination_under(AaeOpening(delta=0.1), budget=100.0)
    state = parts.policy
    assert state.active.tolist() == [[False, True]]
    assert state.eliminated_at.tolist() == [[133, -1]]
    assert state.pulls[0, 0] == 67  # arm 1 had 66 pulls then, and has had all since
    assert parts.ledger.pulls.tolist() == [67, 933]
    assert parts.ledger.charged.tolist() == [67.0, 100.0]


def test_the_opening_fails_with_one_pull_too_little():
    state = elimination_under(AaeOpening(delta=0.1), budget=60.0).policy
    assert state.active[0, 0]
