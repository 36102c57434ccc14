"""The small problem on which policies are checked, and what the checks look at in a state."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.checking.contract import expect
from armrace.kernels.generics import decide, distribution, learn
from armrace.kernels.states import lasting_arrays
from armrace.kernels.streams import Stream
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for

ARMS = 3
HORIZON = 600
MEANS = (0.9, 0.5, 0.1)
SUM_TOLERANCE = 1e-9

Floats = npt.NDArray[np.float64]


def weights_of(state: Any) -> Floats:
    """Return the probability with which a state would choose each arm."""
    weights = np.full(ARMS, np.nan)
    distribution(state, weights)
    return weights


def walk(policy: Policy, rounds: int) -> tuple[Any, Stream]:
    """Return a state after some rounds with immediate feedback."""
    state = policy.start(ARMS, HORIZON)
    stream = stream_for(11, Purpose.LEARNER, 0)
    coins = np.random.default_rng(11)
    for _ in range(rounds):
        ticket = decide(state, stream)
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))
    return state, stream


def expect_sound(policy: Policy, state: Any, when: str = "") -> None:
    """Check that the weights of a state are probabilities, and that it holds no NaN."""
    weights = weights_of(state)
    sound = bool(np.all(weights >= 0)) and abs(float(weights.sum()) - 1) < SUM_TOLERANCE
    expect(sound, policy, f"gives the weights {weights}{when}")
    # Not of scratch space, which may never have been written.
    sound = not any(bool(np.isnan(array).any()) for _, array in lasting_arrays(state))
    expect(sound, policy, f"has a NaN in its state{when}")
