"""Live use: microseconds that one decision and its reward take from Python."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from armrace.online import Learner
from benchmarks.figures import Figure

__all__ = ["learner_microseconds", "live"]

_TARGETS = {10: 6.0, 1000: 12.0}
_BLOCK = 2_000


def live(blocks: int) -> Iterator[Figure]:
    """One decide and learn of the race with few and with many arms."""
    for arms, target in _TARGETS.items():
        yield Figure(
            f"decide + learn, race, K = {arms}",
            learner_microseconds("multi-layer-race", arms, blocks),
            "us",
            target=target,
            note=f"best of {blocks} blocks of {_BLOCK}",
        )


def learner_microseconds(policy: str, arms: int, blocks: int) -> float:
    """The least time for a decision and its reward, over some blocks of them."""
    learner = Learner(policy, arms=arms, horizon=10**6, seed=1)
    generator = random.Random(1)
    rewards = [float(generator.random() < 0.5) for _ in range(_BLOCK)]
    _play(learner, rewards)
    return min(_play(learner, rewards) for _ in range(blocks)) / _BLOCK * 1e6


def _play(learner: Learner, rewards: list[float]) -> float:
    started = time.process_time()
    for reward in rewards:
        learner.learn(learner.decide(), reward)
    return time.process_time() - started
