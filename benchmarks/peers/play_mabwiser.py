"""MABWiser: predict and partial_fit in turns; it has no simulator for arms that are played."""

from __future__ import annotations

import numpy as np
from common import MEANS, report
from mabwiser.mab import MAB, LearningPolicy


def play(rounds: int, seed: int) -> int:
    arms = list(range(len(MEANS)))
    generator = np.random.default_rng(seed)
    rewards = (generator.random((rounds, len(MEANS))) < MEANS).astype(float)
    policy = MAB(arms=arms, learning_policy=LearningPolicy.UCB1(alpha=1), seed=seed)
    policy.fit(decisions=arms, rewards=[rewards[arm, arm] for arm in arms])
    best_pulls = 1
    for row in rewards[len(arms) :]:
        arm = policy.predict()
        policy.partial_fit(decisions=[arm], rewards=[row[arm]])
        best_pulls += arm == 0
    return best_pulls


report("mabwiser", play)
