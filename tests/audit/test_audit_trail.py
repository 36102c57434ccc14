"""Watching changes nothing, and notes what a plain reading of the rewards would."""

import math

import numpy as np
import pytest

from armrace.audit import watch
from armrace.environments import Table
from armrace.kernels.generics import decide, learn
from armrace.policies import POLICIES
from armrace.policies.common.blocks import block_size, log_block_weight, log_evidence
from armrace.randomness import Purpose, stream_for
from armrace.simulation import simulate
from playing import SEED, make_table, run

ROUNDS = 3000


@pytest.fixture(scope="module")
def history():
    """A watched run: its final state, and every arm's rewards with the rounds they came in."""
    table = make_table(ROUNDS, means=(0.2, 0.6, 0.5))
    watched = run("ucb1", Table(table), ROUNDS, SEED, audit=0.05).policy
    state, stream = POLICIES.find("ucb1")().start(3, ROUNDS), stream_for(SEED, Purpose.LEARNER, 0)
    rewards, rounds = [[], [], []], [[], [], []]
    for number, row in enumerate(table, start=1):
        ticket = decide(state, stream)
        learn(state, ticket, row[ticket.arm])
        rewards[ticket.arm].append(row[ticket.arm])
        rounds[ticket.arm].append(number)
    return watched, rewards, rounds


def test_marks_hold_the_sums_and_rounds_of_their_moments(history):
    watched, rewards, rounds = history
    assert watched.rounds[0] == ROUNDS
    for arm in range(3):
        assert watched.pulls[arm] == len(rewards[arm])
        assert watched.sums[arm] == sum(rewards[arm])
        reached = watched.marks.reached[arm]
        marks = watched.marks.pulls[:reached]
        assert reached == np.count_nonzero(watched.marks.pulls <= len(rewards[arm]))
        assert watched.marks.sums[arm, :reached].tolist() == [sum(rewards[arm][:k]) for k in marks]
        assert watched.marks.rounds[arm, :reached].tolist() == [rounds[arm][k - 1] for k in marks]


def test_blocks_hold_the_most_striking_of_their_size(history):
    watched, rewards, rounds = history
    for arm in range(3):
        for scale in range(watched.blocks.sums.shape[1]):
            size, paid = block_size(scale), rewards[arm]
            found = [
                log_evidence(k, sum(paid[:k]), size, sum(paid[k : k + size]))
                + log_block_weight(k // size)
                for k in range(size, len(paid) - size + 1, size)
            ]
            if not found:
                assert watched.blocks.evidence[arm, scale] == -math.inf
                continue
            best = size * (1 + int(np.argmax(found)))
            assert watched.blocks.evidence[arm, scale] == pytest.approx(max(found))
            assert watched.blocks.ends[arm, scale] == best + size
            assert watched.blocks.before[arm, scale] == sum(paid[:best])
            assert watched.blocks.within[arm, scale] == sum(paid[best : best + size])
            assert watched.blocks.first_rounds[arm, scale] == rounds[arm][best - 1]
            assert watched.blocks.last_rounds[arm, scale] == rounds[arm][best + size - 1]


def test_weights_of_blocks_add_up_to_less_than_one():
    """What lies beyond a million adds less than 1/(2 ln 10^6), by an integral."""
    known = sum(math.exp(log_block_weight(i)) for i in range(1, 10**6))
    assert 0.9 < known + 1 / (2 * math.log(10**6 - 1)) < 1.0


@pytest.mark.parametrize("horizon", [1, 7, 8, 100, 10**7, 10**15])
def test_marks_grow_from_eight_to_the_horizon(horizon):
    marks = watch((), 2, horizon).marks.pulls
    assert marks[0] == 8
    assert marks[-1] <= max(8, horizon) < 1.2 * marks[-1]
    assert np.all(np.diff(marks) > 0)


@pytest.mark.parametrize(
    "policy",
    [
        *("multi-layer-race", "ucb1"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("tsallis-inf", "thompson")),
    ],
)
@pytest.mark.parametrize("attack", ["zero-best-when-likely", "random-flips"])
def test_an_audit_changes_no_other_figure(policy, attack):
    setting = {"adversary": attack, "budget": 50, "horizon": 1000, "replications": 3, "seed": 2}
    audited = simulate(policy, [0.5, 0.3], **setting, audit=0.1, progress=False)
    plain = simulate(policy, [0.5, 0.3], **setting, progress=False)
    assert audited.rows.equals(plain.rows)
    assert audited.view == plain.view
    assert len(audited.audits) == 3
    assert plain.audits == []


def test_waves_tell_rewards_in_good_times_from_those_in_bad(history):
    watched, rewards, _ = history
    for arm, paid in enumerate(rewards):
        for column, memory in enumerate((4, 16, 64)):
            recent, pulls, sums = paid[0], [0, 0], [0.0, 0.0]
            for number, reward in enumerate(paid[1:], start=1):
                side = int(recent * number > sum(paid[:number]))
                pulls[side] += 1
                sums[side] += reward
                recent += (reward - recent) / memory
            assert watched.waves.pulls[arm, column].tolist() == pulls
            assert watched.waves.sums[arm, column].tolist() == sums
