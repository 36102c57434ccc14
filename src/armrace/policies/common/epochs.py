"""Epochs of fixed probabilities, shared by BARBAR and its successors.

An epoch plans a number of plays for each arm, draws arms in proportion to the plan for as many
rounds as it has plays in total, and estimates the means from its own rewards alone. It ends with
its last *decision*. Rewards that are outstanding at that time do not count: their plays are
subtracted from the plan in proportion. If none is outstanding, the estimates are the published
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn, stamped
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import count_play, record

Floats = npt.NDArray[np.float64]


class Epochs(NamedTuple):
    """The current epoch; ``number`` counts from 1, ``gaps`` are those it was planned with."""

    gaps: Floats
    planned: Floats
    sums: Floats
    total: Floats
    """Sum of ``planned``."""
    number: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    played: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    """How many rewards of this epoch have come."""
    scratch: Floats
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
def epoch_plays(epochs: Epochs, arm: int) -> float:
    """Planned plays of an arm, less the share whose rewards have not come."""
    # At least one, so that an epoch without any reward does not lead to a division by 0.
    return epochs.planned[arm] * (max(epochs.seen[0], 1) / epochs.length[0])


@inlined
def epoch_mean(epochs: Epochs, arm: int) -> float:
    """The arm's rewards over its planned, not its actual, plays; it may exceed 1."""
    return epochs.sums[arm] / epoch_plays(epochs, arm)


def plays_in_epochs(
    state_class: type,
    estimate_gaps: Callable[[Epochs, Floats], int],
    plan: Callable[[Any, int, int, Floats, Floats], float],
) -> Callable[[Any, int], None]:
    """Register the generic functions of states with ``counts`` and ``epochs``.

    ``estimate_gaps(epochs, out)`` writes the gaps that follow from the epoch's rewards into
    ``out``, and returns the arm that leads. ``plan(state, number, leader, gaps, out)`` writes into
    ``out``, which may be ``gaps``, how often an epoch plays each arm, and returns the total.

    Returns:
        The function that begins an epoch, given the leader.
    """

    @inlined
    def begin_epoch(state: Any, leader: int) -> None:
        epochs = state.epochs
        total = plan(state, epochs.number[0] + 1, leader, epochs.gaps, epochs.planned)
        next_epoch(epochs, total, math.ceil(total))

    @implement(distribution, state_class)
    def epoch_distribution(state: Any, out: Floats) -> None:
        epochs = state.epochs
        if epoch_is_over(epochs):
            # Without touching the state: a look at the distribution must not begin an epoch.
            leader = estimate_gaps(epochs, out)
            total = plan(state, epochs.number[0] + 1, leader, out, out)
            for arm in range(out.size):
                out[arm] /= total
        else:
            for arm in range(out.size):
                out[arm] = epochs.planned[arm] / epochs.total[0]

    @implement(choose, state_class)
    def epoch_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
        epochs = state.epochs
        if epoch_is_over(epochs):  # the next epoch begins when a decision is assigned to it
            distribution(state, epochs.scratch)
            return choose_by_weights(epochs.scratch, 1.0, stream, eligible)
        return choose_by_weights(epochs.planned, epochs.total[0], stream, eligible)

    @implement(assign, state_class)
    def epoch_assign(state: Any, ticket: Ticket) -> Ticket:
        epochs = state.epochs
        if epoch_is_over(epochs):
            begin_epoch(state, estimate_gaps(epochs, epochs.gaps))
        count_play(state.counts, ticket.arm)
        epochs.played[0] += 1
        return stamped(ticket, epochs.number[0], 0.0)

    @implement(learn, state_class)
    def epoch_learn(state: Any, ticket: Ticket, reward: float) -> None:
        epochs = state.epochs
        record(state.counts, ticket.arm, reward)
        # The plan of an epoch that is over has already been judged without this reward.
        if ticket.phase == epochs.number[0]:
            epochs.sums[ticket.arm] += reward
            epochs.seen[0] += 1

    return begin_epoch
