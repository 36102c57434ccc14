"""SMPyBandits: its Evaluator with one policy and one repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import MEANS, Play, Start, report
from SMPyBandits.Arms import Bernoulli
from SMPyBandits.Environment import Evaluator
from SMPyBandits.Policies import UCB, Exp3, Thompson, TsallisInf

KINDS = {"ucb1": UCB, "thompson": Thompson, "exp3": Exp3, "tsallis-inf": TsallisInf}


def player(kind: type) -> Play:
    def play(rounds: int, seed: int) -> int:
        np.random.seed(seed)  # noqa: NPY002  the library draws from the global generator
        evaluator = Evaluator(
            {
                "horizon": rounds,
                "repetitions": 1,
                "n_jobs": 1,
                "verbosity": 0,
                "environment": [{"arm_type": Bernoulli, "params": MEANS}],
                "policies": [{"archtype": kind, "params": {}}],
            }
        )
        evaluator.startAllEnv()
        return int(evaluator.getPulls(0, 0)[0])

    return play


def starter(kind: type) -> Start:
    def start(arms: int) -> Any:
        policy = kind(arms)
        policy.startGame()
        return policy.choice, policy.getReward

    return start


report(
    "SMPyBandits",
    {name: player(kind) for name, kind in KINDS.items()},
    {name: starter(kind) for name, kind in KINDS.items()},
)
