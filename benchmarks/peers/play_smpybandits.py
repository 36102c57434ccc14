"""SMPyBandits: its Evaluator with one policy and one repetition."""

from __future__ import annotations

import numpy as np
from common import MEANS, report
from SMPyBandits.Arms import Bernoulli
from SMPyBandits.Environment import Evaluator
from SMPyBandits.Policies import UCB


def play(rounds: int, seed: int) -> int:
    np.random.seed(seed)  # noqa: NPY002  the library draws from the global generator
    evaluator = Evaluator(
        {
            "horizon": rounds,
            "repetitions": 1,
            "n_jobs": 1,
            "verbosity": 0,
            "environment": [{"arm_type": Bernoulli, "params": MEANS}],
            "policies": [{"archtype": UCB, "params": {}}],
        }
    )
    evaluator.startAllEnv()
    return int(evaluator.getPulls(0, 0)[0])


report("SMPyBandits", play)
