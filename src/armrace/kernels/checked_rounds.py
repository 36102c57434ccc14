"""A compiled loop for checking a policy: it decides and learns, and every index is checked.

The engine can be compiled with checks too. This loop has no attack, no ledger and no record, so
that it is compiled in half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry
from armrace.kernels.generics import NO_LAYER, decide, learn
from armrace.kernels.streams import Stream


@cache
def make_checked_loop(code: str) -> Callable[..., None]:
    """Make the loop for states whose implementations have the fingerprint ``code``."""

    @entry(code, checked=True)
    def play_checked(
        policy: Any,
        stream: Stream,
        table: npt.NDArray[np.float64],
        pulls: npt.NDArray[np.int64],
        layer_pulls: npt.NDArray[np.int64],
    ) -> None:
        """Play a table of rewards, a round per row, and count the plays of arms and layers."""
        for row in range(table.shape[0]):
            ticket = decide(policy, stream)
            # An unsigned index is never negative, which would count from the end.
            pulls[np.uint64(ticket.arm)] += 1
            if ticket.layer != NO_LAYER:
                layer_pulls[np.uint64(ticket.layer)] += 1
            learn(policy, ticket, table[row, ticket.arm])

    return play_checked
