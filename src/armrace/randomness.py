"""Independent random streams from one seed, each for a named purpose.

A seed gives a Philox key; purpose, replication, round and arm are parts of its counter (see
:mod:`armrace.kernels.streams`). Rewards depend on nothing else, so two policies run with one
seed meet the same rewards, and results do not depend on the order or place of computation.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from armrace.kernels.streams import Stream, make_stream

MAXIMAL_SEED = 2**63 - 1


class Purpose(IntEnum):
    """The purpose of a stream: its number is a part of the counter, so that it must not change."""

    REWARDS = 1
    LEARNER = 2
    ADVERSARY = 3
    SKIPPED_ROUNDS = 4
    ACCEPTANCE = 5
    BOOTSTRAP = 6
    VISITORS = 7


def _key(seed: int) -> tuple[int, int]:
    """Return the two words of Philox's key for a seed."""
    # Hashed, so that the streams of neighbouring seeds have nothing in common.
    first, second = np.random.SeedSequence(seed).generate_state(2, dtype=np.uint32)
    return int(first), int(second)


def stream_for(seed: int, purpose: Purpose, replication: int) -> Stream:
    """The sequential stream for one purpose in one replication.

    >>> from armrace.kernels.streams import uniform
    >>> stream = stream_for(seed=1, purpose=Purpose.LEARNER, replication=0)
    >>> f"{uniform(stream):.6f}"
    '0.474749'
    """
    return make_stream(_key(seed), int(purpose), replication)


def generator_for(seed: int, purpose: Purpose) -> np.random.Generator:
    """A generator of NumPy for one purpose, where compiled code is not needed."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, int(purpose)))))


def reward_place(seed: int, replication: int) -> npt.NDArray[np.uint64]:
    """Return the place of one replication's rewards in the counter space of ``seed``."""
    key = _key(seed)
    return np.array([key[0], key[1], int(Purpose.REWARDS), replication], dtype=np.uint64)
