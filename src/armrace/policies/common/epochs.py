"""Epochs of fixed probabilities, shared by BARBAR and its successors.

An epoch plans a number of plays for each arm, draws arms in proportion to the plan for as many
rounds as it has plays in total, and estimates the means from its own rewards alone. It ends with
its last *decision*. Rewards that are outstanding at that time do not count: their plays are
subtracted from the plan in proportion. If none is outstanding, the estimates are the published
ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Eligible, Ticket, distribution, stamped
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import Counts, count_play


class Epochs(NamedTuple):
    """The current epoch; ``number`` counts from 1, ``gaps`` are those it was planned with."""

    gaps: npt.NDArray[np.float64]
    planned: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    """Sum of ``planned``."""
    number: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    played: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    """How many rewards of this epoch have come."""
    scratch: npt.NDArray[np.float64]
    """Probabilities of the next epoch, before its first decision is assigned."""


def make_epochs(arms: int) -> Epochs:
    """Make the state before the first epoch: an epoch of no rounds."""
    return Epochs(
        gaps=np.ones(arms),
        planned=np.zeros(arms),
        sums=np.zeros(arms),
        total=np.zeros(1),
        number=np.zeros(1, dtype=np.int64),
        length=np.zeros(1, dtype=np.int64),
        played=np.zeros(1, dtype=np.int64),
        seen=np.zeros(1, dtype=np.int64),
        scratch=np.zeros(arms),
    )


@inlined
def epoch_is_over(epochs: Epochs) -> bool:
    """Whether the next decision belongs to another epoch."""
    return epochs.played[0] >= epochs.length[0]


@inlined
def next_epoch(epochs: Epochs, total: float, length: int) -> None:
    """Begin an epoch of ``length`` rounds; its gaps and plan have been filled in already."""
    epochs.total[0] = total
    epochs.number[0] += 1
    epochs.length[0] = length
    epochs.played[0] = 0
    epochs.seen[0] = 0
    for arm in range(epochs.sums.size):
        epochs.sums[arm] = 0.0


@inlined
def fill_shares_of_plan(epochs: Epochs, out: npt.NDArray[np.float64]) -> None:
    """Write into ``out`` the probabilities of the present epoch."""
    for arm in range(out.size):
        out[arm] = epochs.planned[arm] / epochs.total[0]


@inlined
def choose_in_epoch(state: Any, stream: Stream, eligible: Eligible) -> Ticket:
    """Draw an arm by the plan of the epoch to which the next decision belongs."""
    epochs = state.epochs
    if epoch_is_over(epochs):  # the next epoch begins when a decision is assigned to it
        distribution(state, epochs.scratch)
        return choose_by_weights(epochs.scratch, 1.0, stream, eligible)
    return choose_by_weights(epochs.planned, epochs.total[0], stream, eligible)


@inlined
def assign_in_epoch(epochs: Epochs, counts: Counts, ticket: Ticket) -> Ticket:
    """Count a decision of the present epoch, and record the epoch in its ticket."""
    count_play(counts, ticket.arm)
    epochs.played[0] += 1
    return stamped(ticket, epochs.number[0], 0.0)


@inlined
def add_to_epoch(epochs: Epochs, number: int, arm: int, reward: float) -> None:
    """Count the reward of a decision in the epoch ``number``, unless that epoch is over."""
    # The plan of an epoch that is over has already been judged without this reward.
    if number == epochs.number[0]:
        epochs.sums[arm] += reward
        epochs.seen[0] += 1


@inlined
def epoch_plays(epochs: Epochs, arm: int) -> float:
    """Planned plays of an arm, less the share whose rewards have not come."""
    # At least one, so that an epoch without any reward does not lead to a division by 0.
    return epochs.planned[arm] * (max(epochs.seen[0], 1) / epochs.length[0])


@inlined
def epoch_mean(epochs: Epochs, arm: int) -> float:
    """The arm's rewards over its planned, not its actual, plays; it may exceed 1."""
    return epochs.sums[arm] / epoch_plays(epochs, arm)
