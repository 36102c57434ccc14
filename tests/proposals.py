"""What an attack makes of a round, and of a run, for tests of single attacks."""

import numpy as np

from armrace.adversaries import Setting
from armrace.kernels.generics import corrupt
from armrace.randomness import Purpose, stream_for
from playing import run

SETTING = Setting(means=np.array([0.25, 0.75, 0.5]), horizon=1000, budget=50.0)
BEST, RUNNER_UP, WORST = 1, 2, 0


def strike(state, rewards, weights=(1.0, 1.0, 1.0), round=0, left=50.0, stream=None):
    """The rewards after the attack."""
    changed = np.array(rewards, dtype=float)
    stream = stream or stream_for(1, Purpose.ADVERSARY, 0)
    corrupt(state, round, np.array(weights, dtype=float), changed, left, stream)
    return changed.tolist()


def ledger_of(attack, policy="ucb1", environment=(0.9, 0.8), horizon=20_000, budget=1e9, seed=3):
    """The ledger at the end of a run."""
    return run(policy, environment, horizon, seed, adversary=attack, budget=budget).ledger
