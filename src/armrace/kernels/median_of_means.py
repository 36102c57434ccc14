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
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.pages import PAGE, Pages, insert_page, make_pages, page_start
from armrace.kernels.streams import Stream

__all__ = ["MediansOfMeans", "make_medians_of_means", "median_of_means_index"]

_VARIANCE = 0.25
_GAPS = np.array([301, 132, 57, 23, 10, 4, 1])


class MediansOfMeans(NamedTuple):
    """Counts, running sums, and the last estimates with what they were made for."""

    counts: Counts
    sums: Pages
    kept: npt.NDArray[np.int64]
    """Rewards in the running sums."""
    estimates: npt.NDArray[np.float64]
    blocks: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    most_blocks: npt.NDArray[np.int64]
    """``floor(1 + 16 ln t)`` when the arm was last looked at."""
    spread: npt.NDArray[np.float64]


def make_medians_of_means(arms: int, capacity: int) -> MediansOfMeans:
    """The state before the first round, with room for ``capacity`` rewards."""
    return MediansOfMeans(
        counts=make_counts(arms),
        sums=make_pages(arms, capacity),
        kept=np.zeros(arms, dtype=np.int64),
        estimates=np.ones(arms),
        blocks=np.zeros(arms, dtype=np.int64),
        lengths=np.zeros(arms, dtype=np.int64),
        most_blocks=np.zeros(arms, dtype=np.int64),
        spread=np.zeros(arms),
    )


@inlined
def median_of_means_index(state: MediansOfMeans, arm: int, logarithm: float, keep: bool) -> float:
    """Median of means plus ``sqrt(12 v 16 (1/8 + 2 ln t) / n)``, given ``ln t``."""
    bonus = math.sqrt(12.0 * _VARIANCE * (2.0 + 32.0 * logarithm)) * state.spread[arm]
    most = int(1.0 + 16.0 * logarithm)
    if state.most_blocks[arm] == most or state.kept[arm] < 2:
        return state.estimates[arm] + bonus
    estimate = state.estimates[arm]
    blocks = min(most, state.kept[arm] // 2)
    length = state.kept[arm] // blocks
    if blocks != state.blocks[arm] or length != state.lengths[arm]:
        estimate = _median_of_means(state, arm, blocks, length)
    if keep:
        state.estimates[arm] = estimate
        state.blocks[arm] = blocks
        state.lengths[arm] = length
        state.most_blocks[arm] = most
    return estimate + bonus


@inlined
def _sum_of_first(state: MediansOfMeans, arm: int, count: int) -> float:
    if count == 0:
        return 0.0
    place = count - 1
    return state.sums.pool[page_start(state.sums, arm, place // PAGE) + place % PAGE]


@inlined
def _median_of_means(state: MediansOfMeans, arm: int, blocks: int, length: int) -> float:
    means = np.empty(blocks)
    before = 0.0
    for block in range(blocks):
        total = _sum_of_first(state, arm, (block + 1) * length)
        means[block] = (total - before) / length
        before = total
    _sort(means)
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


@inlined
def _next_arm(state: MediansOfMeans, keep: bool) -> int:
    """Each arm is played twice first."""
    played = state.counts.rounds[0]
    arms = state.estimates.size
    if played < 2 * arms:
        return played // 2
    logarithm = math.log(played + 1)
    best, best_index = 0, -np.inf
    for arm in range(arms):
        index = median_of_means_index(state, arm, logarithm, keep)
        if index > best_index:
            best, best_index = arm, index
    return best


@implement(distribution, MediansOfMeans)
def medians_distribution(state: MediansOfMeans, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state, False)] = 1.0


@implement(decide, MediansOfMeans)
def medians_decide(state: MediansOfMeans, stream: Stream) -> Ticket:
    arm = _next_arm(state, True)
    assign(state.counts, arm)
    state.spread[arm] = 1.0 / math.sqrt(state.counts.assigned[arm])
    return Ticket(arm, 0, 1.0, 0)


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
        state.most_blocks[arm] = 0
