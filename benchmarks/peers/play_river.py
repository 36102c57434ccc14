"""river: the loop of its documentation, with rewards drawn beforehand by NumPy."""

from __future__ import annotations

import numpy as np
from common import MEANS, report
from river import bandit


def play(rounds: int, seed: int) -> int:
    generator = np.random.default_rng(seed)
    rewards = (generator.random((rounds, len(MEANS))) < MEANS).astype(float).tolist()
    policy = bandit.UCB(delta=1, seed=seed)
    arms = range(len(MEANS))
    best_pulls = 0
    for row in rewards:
        arm = policy.pull(arms)
        policy.update(arm, row[arm])
        best_pulls += arm == 0
    return best_pulls


report("river", play)
