"""PyMAB: its Experiment, whose loop is compiled; the time in that loop is noted as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymab.simulation
from common import MEANS, elapsed, report, stopwatch
from pymab import BanditEnvironment, BernoulliReward, Experiment, ExperimentConfig
from pymab.policies import UCBPolicy

core_seconds: list[float] = []
native = getattr(pymab.simulation, "run_native_experiment", None)


def timed_native(**arguments: Any) -> Any:
    started = stopwatch()
    output = native(**arguments)
    core_seconds.append(elapsed(started))
    return output


if native is not None:
    pymab.simulation.run_native_experiment = timed_native


def play(rounds: int, seed: int) -> int:
    result = Experiment(
        environment=BanditEnvironment(means=np.array(MEANS), reward_model=BernoulliReward()),
        policies={"ucb1": UCBPolicy(n_arms=len(MEANS))},
        config=ExperimentConfig(horizon=rounds, n_replicates=1, seed=seed),
    ).run()
    return int((result.actions == 0).sum())


def live_microseconds(arms: int) -> float:
    policy = UCBPolicy(n_arms=arms)
    generator = np.random.default_rng(1)
    rewards = (generator.random(2_000) < 0.5).astype(float).tolist()
    seconds = []
    for _ in range(50):
        started = stopwatch()
        for reward in rewards:
            policy.update(action=policy.select_action(rng=generator), reward=reward)
        seconds.append(elapsed(started))
    return min(seconds[1:]) / len(rewards) * 1e6


report(
    "pymab",
    play,
    core_seconds if native is not None else None,
    {arms: live_microseconds(arms) for arms in (10, 1000)},
)
