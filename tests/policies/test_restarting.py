"""Restarts forget everything, at the moments that are promised, and only then."""

import numpy as np
import pytest

import armrace
from armrace.audit import watch
from armrace.environments import Changing
from armrace.errors import InvalidParameter
from armrace.kernels.generics import assign, choose, decide, distribution, learn
from armrace.kernels.states import equal_states
from armrace.policies import POLICIES, Restarting
from armrace.policies.restarting import RESTARTS
from armrace.randomness import Purpose, stream_for
from armrace.simulation import make_experiment
from armrace.simulation.reference import run_reference
from playing import SEED, make_table

ROUNDS = 600
TABLE = make_table(ROUNDS, [0.6, 0.4, 0.3])


def stream() -> object:
    return stream_for(SEED, Purpose.LEARNER, 0)


def arms_played(state: object, numbers: object, table: np.ndarray) -> list[int]:
    arms = []
    for row in table:
        ticket = decide(state, numbers)
        learn(state, ticket, row[ticket.arm])
        arms.append(int(ticket.arm))
    return arms


@pytest.mark.parametrize("base", ["ucb1", "exp3", "tsallis-inf", "multi-layer-race", "thompson"])
def test_after_each_period_the_base_is_as_new(base: str) -> None:
    policy = Restarting(base=base, when="period", period=150)
    numbers, others = stream(), stream()
    found = arms_played(policy.start(3, ROUNDS), numbers, TABLE)
    expected = []
    for first in range(0, ROUNDS, 150):
        fresh = POLICIES.make(base).start(3, 150)
        expected += arms_played(fresh, others, TABLE[first : first + 150])
    assert found == expected


def test_periods_double() -> None:
    policy = Restarting(base="exp3", when="doubling", period=40)
    numbers, others = stream(), stream()
    found = arms_played(policy.start(3, ROUNDS), numbers, TABLE)
    expected, first = [], 0
    for length in (40, 80, 160, 320):
        fresh = POLICIES.make("exp3").start(3, ROUNDS)
        expected += arms_played(fresh, others, TABLE[first : first + length])
        first += length
    assert found == expected[: len(found)]


def test_compiled_and_interpreted_runs_restart_alike() -> None:
    changing = Changing(levels=((0.9, 0.1), (0.1, 0.9)), changes=(300,))
    policy = Restarting(base="exp3", when="alarm")
    result = armrace.simulate(policy, changing, horizon=ROUNDS, replications=1, seed=SEED)
    given = make_experiment(policy=policy, environment=changing, horizon=ROUNDS, seed=SEED)
    reference = run_reference(given)
    assert reference.state.clock[RESTARTS] >= 1
    assert result.final["pulls"][0].to_list() == np.bincount(reference.arms, minlength=2).tolist()


def test_the_alarm_is_the_one_of_an_audit() -> None:
    state = Restarting(base="ucb1").start(3, ROUNDS)
    watched = watch(POLICIES.make("ucb1").start(3, ROUNDS), 3, ROUNDS)
    numbers, others = stream(), stream()
    for row in TABLE:
        for each, own in ((state, numbers), (watched, others)):
            ticket = decide(each, own)
            learn(each, ticket, row[ticket.arm])
    assert state.clock[RESTARTS] == 0
    assert np.isfinite(state.memory.blocks.evidence).any()
    assert np.array_equal(state.memory.blocks.evidence, watched.blocks.evidence)


def test_there_is_hardly_ever_an_alarm_without_a_change() -> None:
    policy = Restarting(base="exp3", level=0.05)
    plain = armrace.simulate("exp3", [0.6, 0.4], horizon=3000, replications=100, seed=SEED)
    found = armrace.simulate(policy, [0.6, 0.4], horizon=3000, replications=100, seed=SEED)
    # A restart changes what is played afterwards. Each run has one with a probability of at most
    # 0.05: more than 14 of 100 with one below 0.0002.
    restarted = (plain.sample("pseudo_regret") != found.sample("pseudo_regret")).sum()
    assert restarted <= 14


def test_a_change_of_the_best_arm_is_noticed() -> None:
    changing = Changing(levels=((0.7, 0.3), (0.3, 0.7)), changes=(3000,))
    told = {"horizon": 6000, "replications": 30, "seed": SEED}
    plain = armrace.simulate("thompson", changing, **told).figure("dynamic_regret")
    found = armrace.simulate(Restarting(), changing, **told).figure("dynamic_regret")
    assert found.mean + 4 * found.stderr < 0.5 * plain.mean


def test_rewards_of_before_a_restart_are_ignored() -> None:
    policy = Restarting(base="exp3", when="period", period=2)
    state, numbers = policy.start(3, 100), stream()
    late = [decide(state, numbers) for _ in range(3)]  # the third comes after the restart
    assert state.clock[RESTARTS] == 1
    before = np.zeros(3)
    distribution(state, before)
    learn(state, late[0], 0.0)
    after = np.zeros(3)
    distribution(state, after)
    assert np.array_equal(before, after)
    learn(state, late[2], 0.0)
    distribution(state, after)
    assert not np.array_equal(before, after)


def test_a_restart_leaves_nothing() -> None:
    state, numbers = (
        Restarting(base="optimistic-log-barrier", when="period", period=50).start(3, ROUNDS),
        stream(),
    )
    fresh = Restarting(base="optimistic-log-barrier", when="period", period=50).start(3, ROUNDS)
    arms_played(state, numbers, TABLE[:50])
    assert state.clock[RESTARTS] == 1
    assert equal_states(state.memory, fresh.memory)
    arms_played(state, numbers, TABLE[50:60])
    assert not equal_states(state.memory, fresh.memory)


def test_a_base_can_be_restricted_to_some_arms() -> None:
    state, numbers = Restarting(base="ucb1", when="period", period=5).start(3, 100), stream()
    eligible = np.array([False, False, True])
    for _ in range(12):
        ticket = assign(state, choose(state, numbers, eligible))
        assert ticket.arm == 2
        learn(state, ticket, 1.0)


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        (5, "base must be a policy, its name"),
        ("linear-ucb", "for visitors who are alike; got linear-ucb"),
        ("nothing", "no policy named 'nothing'"),
    ],
)
def test_bases_that_cannot_serve_are_refused(base: object, sentence: str) -> None:
    with pytest.raises((InvalidParameter, armrace.ArmraceError), match=sentence):
        Restarting(base=base)
