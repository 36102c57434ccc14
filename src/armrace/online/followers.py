"""A copy of a learner that draws with random numbers of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from armrace.errors import InvalidParameter
from armrace.kernels.states import raw_arrays
from armrace.kernels.streams import seek
from armrace.online.learner import Learner

__all__ = ["Follower"]

_REPLICATION = 3
"""The place of the replication in :attr:`armrace.kernels.streams.Stream.place`."""
_MOST_STREAMS = 2**32


class Follower(Learner):
    """A learner that knows what another one knew when it last followed, and its own draws since.

    Its numbers come from the same seed as the leader's, but from another part of the generator's
    counter space, so that no two streams of a seed have a number in common.

    Args:
        leader: the learner to copy.
        stream: the number of its random stream, at least 1; the leader's own is 0.
        taken: how many numbers of the stream have been taken before.
    """

    def __init__(self, leader: Learner, stream: int, taken: int = 0) -> None:
        if not 1 <= stream < _MOST_STREAMS:
            raise InvalidParameter(f"stream must be in [1, {_MOST_STREAMS - 1}]; got {stream}.")
        arms = list(leader.arms)
        super().__init__(leader.policy, arms, leader.horizon, leader.seed, leader.watch, log=False)
        self._stream.place[_REPLICATION] = stream
        seek(self._stream, taken)
        self._leader = leader
        self._copied: Any = None
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self.size = 0
        """How many bytes :meth:`follow` copies."""
        self.follow()

    def follow(self) -> None:
        """Copy the leader's state; own draws that the leader does not know of are lost."""
        leading = self._leader._live.policy
        if leading is not self._copied:  # arms were added, which moves the state to new arrays
            self._pair(leading)
        for mine, other in self._pairs:
            mine[...] = other
        self._current = self._current._replace(away=self._leader._away)
        self._live.counters[:] = 0  # of decisions since then, which need no more room than that

    def _pair(self, leading: Any) -> None:
        pairs = list(zip(raw_arrays(self._live.policy), raw_arrays(leading), strict=True))
        if any(mine.size != other.size for mine, other in pairs):
            raise InvalidParameter("the leader has other arms by now; make a new follower.")
        self._pairs, self._copied = pairs, leading
        self.size = sum(mine.size for mine, _ in pairs)
