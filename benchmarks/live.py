"""Live use: microseconds that one decision and its reward take from Python."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import numpy as np

from armrace.learner import Learner
from benchmarks.figures import Figure

__all__ = ["batch_microseconds", "learner_microseconds", "live"]

_TARGETS = {10: 2.5, 1000: 2.5}
_BATCH_TARGET = 1.0
_BLOCK = 2_000


def live(blocks: int) -> Iterator[Figure]:
    """One decide and learn of the race with few and with many arms, and many in one call."""
    for arms, target in _TARGETS.items():
        yield Figure(
            f"decide + learn, race, K = {arms}",
            learner_microseconds("multi-layer-race", arms, blocks),
            "us",
            target=target,
            note=f"best of {blocks} blocks of {_BLOCK}",
        )
    yield Figure(
        "decide + learn in batches, race, K = 10",
        batch_microseconds("multi-layer-race", 10, blocks),
        "us",
        target=_BATCH_TARGET,
        note=f"best of {blocks} batches of {_BLOCK}",
    )


def learner_microseconds(policy: str, arms: int, blocks: int) -> float:
    """The least time for a decision and its reward, over some blocks of them."""
    learner = Learner(policy, arms=arms, horizon=10**6, seed=1)
    generator = random.Random(1)
    rewards = [float(generator.random() < 0.5) for _ in range(_BLOCK)]

    def play() -> None:
        for reward in rewards:
            learner.learn(learner.decide(), reward)

    return _least_time(play, blocks)


def batch_microseconds(policy: str, arms: int, blocks: int) -> float:
    """The least time for a decision and its reward when many are made in one call."""
    learner = Learner(policy, arms=arms, horizon=10**6, seed=1)
    rewards = (np.random.default_rng(1).random(_BLOCK) < 0.5).astype(np.float64)
    return _least_time(lambda: learner.learn_many(learner.decide_many(_BLOCK), rewards), blocks)


def _least_time(play: Callable[[], None], blocks: int) -> float:
    play()
    times = []
    for _ in range(blocks):
        started = time.process_time()
        play()
        times.append(time.process_time() - started)
    return min(times) / _BLOCK * 1e6
