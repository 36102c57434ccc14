"""A learner and an attack that do exactly what a script says, and write down what they see."""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pytest

from armrace.adversaries import Adversary
from armrace.environments import Table
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    assign,
    choose,
    corrupt,
    distribution,
    learn,
    make_ticket,
    observe,
)
from armrace.policies import Policy
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out, run_replication


class ScriptedPlayState(NamedTuple):
    arms: np.ndarray
    layers: np.ndarray
    rewards: np.ndarray
    position: np.ndarray


class ScriptedPlay(Policy, frozen=True, tag="scripted-play"):
    """Plays the arms of its script, from the layers of its script."""

    script: Annotated[tuple[int, ...], "the arm of each round"]
    layers: Annotated[tuple[int, ...], "the layer of each round"] = ()

    def layer_count(self, arms, horizon):
        return max(self.layers, default=0) + 1

    def start(self, arms, horizon):
        layers = self.layers or (0,) * len(self.script)
        return ScriptedPlayState(
            np.array(self.script, dtype=np.int64),
            np.array(layers, dtype=np.int64),
            np.full(horizon, np.nan),
            np.zeros(1, dtype=np.int64),
        )


@implement(distribution, ScriptedPlayState)
def scripted_distribution(state, out):
    out.fill(0.0)
    out[state.arms[state.position[0]]] = 1.0


@implement(choose, ScriptedPlayState)
def scripted_choose(state, stream):
    at = state.position[0]
    return make_ticket(state.arms[at], state.layers[at])


@implement(assign, ScriptedPlayState)
def scripted_assign(state, ticket):
    state.position[0] += 1
    return ticket


@implement(learn, ScriptedPlayState)
def scripted_learn(state, ticket, reward):
    state.rewards[state.position[0] - 1] = reward


class ScriptedAttackState(NamedTuple):
    proposals: np.ndarray
    shown_rewards: np.ndarray
    shown_weights: np.ndarray
    shown_left: np.ndarray
    seen_arms: np.ndarray
    seen_rewards: np.ndarray


class ScriptedAttack(Adversary, frozen=True, tag="scripted-attack"):
    """Proposes the rewards of its script; a round without a row is left alone."""

    sees_weights: ClassVar[bool] = True

    proposals: Annotated[tuple[tuple[float, ...] | None, ...], "rewards of each round, or none"]
    smallest: Annotated[float, "what it says that its changes cost at least"] = 0.0

    def start(self, setting):
        rounds, arms = setting.horizon, setting.arms
        proposals = np.full((rounds, arms), -7.0)
        for number, row in enumerate(self.proposals):
            if row is not None:
                proposals[number] = row
        return ScriptedAttackState(
            proposals,
            np.full((rounds, arms), np.nan),
            np.full((rounds, arms), np.nan),
            np.full(rounds, np.nan),
            np.full(rounds, -1, dtype=np.int64),
            np.full(rounds, np.nan),
        )

    def smallest_cost(self, state, setting):
        return self.smallest


@implement(corrupt, ScriptedAttackState)
def scripted_corrupt(state, round, weights, rewards, left, stream):
    state.shown_left[round] = left
    for arm in range(rewards.size):
        state.shown_rewards[round, arm] = rewards[arm]
        state.shown_weights[round, arm] = weights[arm]
        if state.proposals[round, 0] != -7.0:
            rewards[arm] = state.proposals[round, arm]


@implement(observe, ScriptedAttackState)
def scripted_observe(state, round, arm, reward):
    state.seen_arms[round] = arm
    state.seen_rewards[round] = reward


@pytest.fixture
def scripted():
    """Makes an experiment from a table of rewards, arms played and proposals."""

    def make(rewards, script, proposals=(), budget=100.0, layers=(), smallest=0.0):
        return make_experiment(
            policy=ScriptedPlay(script=tuple(script), layers=tuple(layers)),
            environment=Table(rewards=np.array(rewards, dtype=np.float64)),
            adversary=ScriptedAttack(proposals=tuple(proposals), smallest=smallest),
            budget=budget,
            horizon=len(rewards),
            replications=1,
        )

    return make


@pytest.fixture
def outcome_of():
    """What the ledger says of an experiment's only replication."""
    return lambda experiment: run_replication(experiment, 0)


@pytest.fixture
def parts_after():
    """The engine's arguments after it ran them: states, ledger and record."""

    def run(experiment, replication=0):
        parts = make_parts(experiment, replication)
        play_out(parts)
        return parts

    return run
