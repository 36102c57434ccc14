"""The shorth: the mean of the shortest interval that holds a given number of rewards."""

from __future__ import annotations

import numpy as np

from armrace.kernels.compiling import inlined
from armrace.policies.indices.ordered import Ordered, reward_of_rank, sum_of_ranks
from armrace.policies.indices.pages import PAGE, page_start

_LOW, _HIGH = 0, 1


@inlined
def shorth(ordered: Ordered, arm: int, held: int, near: int) -> tuple[float, int]:
    """The mean of the shortest interval that holds ``held`` rewards, the lowest such.

    Also returns the rank at which it begins; pass it as ``near`` in the next call. Uses two
    cursors. All intervals that begin on one page are at least as long as the distance from the
    page's last reward to the end of the page's first interval, so most pages can be skipped.
    """
    starts = ordered.sizes[arm] - held + 1
    # A restored state may hold any count here: only that of the trimmed mean is checked.
    near = min(max(near, 0), starts - 1)
    # The interval at the last place is a first bound: no page that cannot do better is looked at.
    longest = reward_of_rank(ordered, arm, _HIGH, near + held - 1)
    longest -= reward_of_rank(ordered, arm, _LOW, near)
    best, best_length = 0, np.inf
    rank = 0
    while rank < starts:
        reward_of_rank(ordered, arm, _LOW, rank)
        begin = page_start(ordered.pages, arm, ordered.cursor_page[arm, _LOW])
        end = min(rank + np.int64(ordered.fill[begin // PAGE]), starts)
        last = ordered.pages.pool[begin + end - 1 - rank]
        least = reward_of_rank(ordered, arm, _HIGH, rank + held - 1) - last
        # An interval as long as the first bound is not skipped: that one must itself be found
        # again.
        if least < best_length and least <= longest:
            for start in range(rank, end):
                upper = reward_of_rank(ordered, arm, _HIGH, start + held - 1)
                length = upper - ordered.pages.pool[begin + start - rank]
                if length < best_length:
                    best, best_length = start, length
        rank = end
    return sum_of_ranks(ordered, arm, _LOW, best, best + held) / held, best
