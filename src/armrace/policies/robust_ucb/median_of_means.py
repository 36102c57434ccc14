"""Upper confidence bounds around medians of means.

In round ``t`` the first ``k floor(n/k)`` of an arm's ``n`` rewards, in the order they came, are
cut into ``k = floor(min(1 + 16 ln t, n/2))`` equal blocks; the estimate is the median of the
blocks' means. Running sums of the rewards give any block's mean at once, and nothing needs
computing while neither the number of blocks nor their length has changed, which on long runs is
nearly always.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    learn,
)
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.indices.argmax import make_argmax, plays_next_arm
from armrace.policies.indices.histories import PAGE, Pages, insert_page, make_pages, page_start

_VARIANCE = 0.25
_GAPS = np.array([301, 132, 57, 23, 10, 4, 1])
"""Ciura's gaps for Shell's sort, which he found by experiment."""


class LatestMedians(NamedTuple):
    """The last estimates and their block counts, kept so that not every round needs a sort."""

    estimates: npt.NDArray[np.float64]
    blocks: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    most_blocks: npt.NDArray[np.int64]
    """``floor(1 + 16 ln t)`` when the median was last computed; 0 after a new reward."""


class MediansOfMeans(NamedTuple):
    """Counts and running sums of the rewards."""

    counts: Counts
    sums: Pages
    kept: npt.NDArray[np.int64]
    """Rewards in the running sums."""
    spread: npt.NDArray[np.float64]
    scratch: LatestMedians


def make_medians_of_means(arms: int, capacity: int) -> MediansOfMeans:
    """The state before the first round, with room for ``capacity`` rewards."""
    return MediansOfMeans(
        counts=make_counts(arms),
        sums=make_pages(arms, capacity),
        kept=np.zeros(arms, dtype=np.int64),
        spread=np.zeros(arms),
        scratch=LatestMedians(
            estimates=np.ones(arms),
            blocks=np.zeros(arms, dtype=np.int64),
            lengths=np.zeros(arms, dtype=np.int64),
            most_blocks=np.zeros(arms, dtype=np.int64),
        ),
    )


@inlined
def median_of_means_index(state: MediansOfMeans, arm: int, logarithm: float) -> float:
    """Median of means plus ``sqrt(12 v 16 (1/8 + 2 ln t) / n)``, given ``ln t``."""
    bonus = math.sqrt(12.0 * _VARIANCE * (2.0 + 32.0 * logarithm)) * state.spread[arm]
    most, latest = int(1.0 + 16.0 * logarithm), state.scratch
    if latest.most_blocks[arm] == most or state.kept[arm] < 2:
        return latest.estimates[arm] + bonus
    blocks = min(most, state.kept[arm] // 2)
    length = state.kept[arm] // blocks
    if blocks != latest.blocks[arm] or length != latest.lengths[arm]:
        latest.estimates[arm] = _median_of_means(state, arm, blocks, length)
    latest.blocks[arm] = blocks
    latest.lengths[arm] = length
    latest.most_blocks[arm] = most
    return latest.estimates[arm] + bonus


@inlined
def _sum_of_first(state: MediansOfMeans, arm: int, count: int) -> float:
    if count == 0:
        return 0.0
    place = count - 1
    return state.sums.pool[page_start(state.sums, arm, place // PAGE) + place % PAGE]


@inlined
def _median_of_means(state: MediansOfMeans, arm: int, blocks: int, length: int) -> float:
    """Return the median of the means of an arm's first blocks."""
    means = np.empty(blocks)
    before = 0.0
    for block in range(blocks):
        total = _sum_of_first(state, arm, (block + 1) * length)
        means[block] = (total - before) / length
        before = total
    _sort(means)
    # The two places are the same if the number of blocks is odd.
    return 0.5 * (means[(blocks - 1) // 2] + means[blocks // 2])


@inlined
def _sort(numbers: npt.NDArray[np.float64]) -> None:
    """Shell's sort: short, in place, and quick for a few hundred numbers."""
    for gap in _GAPS:
        for last in range(gap, numbers.size):
            number, place = numbers[last], last
            while place >= gap and numbers[place - gap] > number:
                numbers[place] = numbers[place - gap]
                place -= gap
            numbers[place] = number


_arm_of_largest_index = make_argmax(median_of_means_index, least_plays=2)


@plays_next_arm(MediansOfMeans)
@inlined
def _next_arm(state: MediansOfMeans, eligible: Eligible) -> int:
    return _arm_of_largest_index(state, math.log(state.counts.rounds[0] + 1), eligible)


@implement(assign, MediansOfMeans)
def medians_assign(state: MediansOfMeans, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.spread[ticket.arm] = 1.0 / math.sqrt(state.counts.assigned[ticket.arm])
    return ticket


@implement(learn, MediansOfMeans)
def medians_learn(state: MediansOfMeans, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    place = state.kept[arm]
    number = place // PAGE
    if number < state.sums.length[arm] or insert_page(state.sums, arm, number):
        total = _sum_of_first(state, arm, place) + reward
        state.sums.pool[page_start(state.sums, arm, number) + place % PAGE] = total
        state.kept[arm] = place + 1
        # The blocks may have changed; the index looks whether they have before it sorts.
        state.scratch.most_blocks[arm] = 0
