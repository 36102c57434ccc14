"""PyMAB's policies on a shared problem: how often each arm was pulled."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Problem, loop, report_pulls
from pymab import BanditEnvironment, BernoulliReward, Experiment, ExperimentConfig, policies
from pymab._reference.policies.adversarial import EXP3Policy

_ALMOST_NOTHING = 1e-12


class LossExp3(EXP3Policy):
    """Its EXP3 with losses in place of gains: r/p becomes r/p - 1/p = -(1 - r)/p."""

    def update(self, *, action: int, reward: float) -> None:
        probability = self.last_probabilities[action]
        self.log_weights[action] -= self.learning_rate / (probability * self.n_arms)
        super().update(action=action, reward=reward)


def experiment(policy: object, problem: Problem) -> list[list[int]]:
    result = Experiment(
        environment=BanditEnvironment(
            means=np.array(problem.means), reward_model=BernoulliReward()
        ),
        policies={"policy": policy},
        config=ExperimentConfig(
            horizon=problem.horizon, n_replicates=problem.replications, seed=problem.seed
        ),
    ).run()
    actions = result.actions.reshape(problem.replications, problem.horizon)
    return [np.bincount(row, minlength=problem.arms).tolist() for row in actions]


def exp3(kind: type, problem: Problem) -> Any:
    rate = np.sqrt(2 * np.log(problem.arms) / (problem.horizon * problem.arms))
    return kind(n_arms=problem.arms, gamma=_ALMOST_NOTHING, learning_rate=rate * problem.arms)


def loss_exp3(problem: Problem) -> list[list[int]]:
    def start(generator: np.random.Generator) -> tuple[Any, Any]:
        policy = exp3(LossExp3, problem)
        return (
            lambda: policy.select_action(rng=generator),
            lambda arm, reward: policy.update(action=arm, reward=reward),
        )

    return loop(start, problem)


report_pulls(
    "pymab",
    {
        "UCBPolicy": lambda p: experiment(policies.UCBPolicy(n_arms=p.arms), p),
        "KLUCBPolicy": lambda p: experiment(policies.KLUCBPolicy(n_arms=p.arms), p),
        "KLUCBPolicy, c = 0": lambda p: experiment(
            policies.KLUCBPolicy(n_arms=p.arms, c=_ALMOST_NOTHING), p
        ),
        "MOSSPolicy": lambda p: experiment(
            policies.MOSSPolicy(n_arms=p.arms, horizon=p.horizon), p
        ),
        "BernoulliThompsonSamplingPolicy": lambda p: experiment(
            policies.BernoulliThompsonSamplingPolicy(n_arms=p.arms), p
        ),
        "EXP3Policy": lambda p: experiment(exp3(policies.EXP3Policy, p), p),
        "EXP3Policy, losses": loss_exp3,
    },
)
