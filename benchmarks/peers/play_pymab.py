"""PyMAB: its Experiment, whose loop is compiled; the time in that loop is noted as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymab.simulation
from common import MEANS, Play, Start, elapsed, report, stopwatch
from pymab import BanditEnvironment, BernoulliReward, Experiment, ExperimentConfig
from pymab.policies import BernoulliThompsonSamplingPolicy, EXP3Policy, UCBPolicy

core_seconds: list[float] = []
native = getattr(pymab.simulation, "run_native_experiment", None)


def timed_native(**arguments: Any) -> Any:
    started = stopwatch()
    output = native(**arguments)
    core_seconds.append(elapsed(started))
    return output


if native is not None:
    pymab.simulation.run_native_experiment = timed_native


KINDS = {
    "ucb1": UCBPolicy,
    "thompson": BernoulliThompsonSamplingPolicy,
    "exp3": EXP3Policy,
}


def player(kind: type) -> Play:
    def play(rounds: int, seed: int) -> int:
        result = Experiment(
            environment=BanditEnvironment(means=np.array(MEANS), reward_model=BernoulliReward()),
            policies={"policy": kind(n_arms=len(MEANS))},
            config=ExperimentConfig(horizon=rounds, n_replicates=1, seed=seed),
        ).run()
        return int((result.actions == 0).sum())

    return play


def starter(kind: type) -> Start:
    def start(arms: int) -> Any:
        policy, generator = kind(n_arms=arms), np.random.default_rng(1)
        return (
            lambda: policy.select_action(rng=generator),
            lambda arm, reward: policy.update(action=arm, reward=reward),
        )

    return start


report(
    "pymab",
    {name: player(kind) for name, kind in KINDS.items()},
    {name: starter(kind) for name, kind in KINDS.items()},
    core_seconds if native is not None else None,
    live_arms=(10, 1000),
)
