"""BARBAT: epochs whose length is fixed beforehand; what they save goes to the leading arm."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, make_counts, record
from armrace.policies.common.epochs import (
    Epochs,
    add_to_epoch,
    assign_in_epoch,
    choose_in_epoch,
    epoch_is_over,
    epoch_mean,
    epoch_plays,
    fill_shares_of_plan,
    make_epochs,
    next_epoch,
)


class BarbatState(NamedTuple):
    """The epoch, and the factor of the published constant."""

    counts: Counts
    epochs: Epochs
    scale: float


class Barbat(CountingPolicy, frozen=True, tag="barbat"):
    """Plays in epochs, arms of estimated gap ``d`` about ``1/d^2`` often and the leader otherwise.

    Epoch ``m`` has ``N = ceil(K lambda 4^(m-1))`` rounds, in which an arm with the gap
    ``d[i]`` is drawn with probability ``lambda/(d[i]^2 N)`` and the arm with the best mean of
    the epoch before with what remains. Its means ``r``, rewards over *planned* plays ``n`` and
    at most 1, give the next gaps ``max(2^-m, r* - r[i])``, where
    ``r* = max(r[i] - sqrt(4 L/n[i]))``, ``lambda = 256 L`` and
    ``L = ln(4 K^2 (m+4) 4^(m+4) ln K)``. The expected regret is of order
    ``C + sum ln(T) ln(KT)/gap + K ln(1/D) ln(K/D)/D``, where ``D`` is the least gap: corruption
    costs no more than itself, and no horizon is needed.

    The epochs' length, the leader's surplus, the confidence of one over ``K`` times a growing
    sequence, and the bound are as restated by others from the paper; that sequence, the 256 in
    ``lambda`` and the width ``sqrt(4 L/n)`` are from memory. ``scale`` multiplies ``lambda``; the
    proof covers a ``scale`` of 1 only. An epoch ends with its last decision: rewards that come
    later do not count, and their share is taken off the plan.

    >>> state = Barbat().start(arms=2, horizon=1000)
    >>> f"{256 * log_term(arms=2, epoch=1):.3f}", state.epochs.length[0]
    ('2802.428', np.int64(5605))
    """

    family: ClassVar[str] = "robust"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Hu and Chen (2025), A near-optimal, scalable and parallelizable framework for stochastic "
        "bandits robust to adversarial corruptions and beyond"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = (
        "The lengths of epochs and the surplus for the leader agree with a restatement; the "
        "sequence of confidences, the factor 256 and the width could not be found in print."
    )

    scale: Annotated[
        float, Limits("factor of the published constant; the proof covers 1 alone", 1e-4, 100)
    ] = 1.0

    def start(self, arms: int, horizon: int) -> BarbatState:
        state = BarbatState(make_counts(arms), make_epochs(arms), float(self.scale))
        _begin_epoch(state, 0)
        return state


@inlined
def log_term(arms: int, epoch: int) -> float:
    """Return ``L = ln(4 K^2 (m+4) 4^(m+4) ln K)`` for ``K`` arms and the epoch ``m``."""
    last = epoch + 4
    return math.log(4.0 * arms * arms * last * math.log(arms)) + 2.0 * last * math.log(2.0)


@inlined
def _estimate_gaps(epochs: Epochs, out: npt.NDArray[np.float64]) -> int:
    """Write the gaps that follow from the epoch's rewards into ``out``; return the best arm."""
    width_term = 4.0 * log_term(out.size, epochs.number[0])
    best, best_mean, reference = 0, -np.inf, -np.inf
    for arm in range(out.size):
        mean = min(1.0, epoch_mean(epochs, arm))
        reference = max(reference, mean - math.sqrt(width_term / epoch_plays(epochs, arm)))
        if mean > best_mean:
            best, best_mean = arm, mean
    floor = 0.5 ** epochs.number[0]
    for arm in range(out.size):
        out[arm] = max(floor, reference - min(1.0, epoch_mean(epochs, arm)))
    return best


@inlined
def _plan(
    scale: float,
    epoch: int,
    best: int,
    gaps: npt.NDArray[np.float64],
    out: npt.NDArray[np.float64],
) -> int:
    """Write into ``out`` how often to play arms with these gaps; returns the epoch's length.

    The best arm gets all rounds that the plays of the others leave.
    """
    least_plays = scale * 256.0 * log_term(out.size, epoch)
    length = math.ceil(out.size * least_plays * 4.0 ** (epoch - 1))
    left = float(length)
    for arm in range(out.size):
        if arm != best:
            out[arm] = least_plays / (gaps[arm] * gaps[arm])
            left -= out[arm]
    # Positive: gaps are at least 2^-(m-1), so that no other arm takes more than a K-th of the
    # epoch.
    out[best] = left
    return length


@inlined
def _begin_epoch(state: BarbatState, best: int) -> None:
    epochs = state.epochs
    length = _plan(state.scale, epochs.number[0] + 1, best, epochs.gaps, epochs.planned)
    next_epoch(epochs, float(length), length)


@implement(distribution, BarbatState)
def barbat_distribution(state: BarbatState, out: npt.NDArray[np.float64]) -> None:
    epochs = state.epochs
    if epoch_is_over(epochs):
        best = _estimate_gaps(epochs, out)
        # In place: every gap is read before its plan is written over it.
        length = _plan(state.scale, epochs.number[0] + 1, best, out, out)
        for arm in range(out.size):
            out[arm] /= length
    else:
        fill_shares_of_plan(epochs, out)


@implement(choose, BarbatState)
def barbat_choose(state: BarbatState, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose_in_epoch(state, stream, eligible)


@implement(assign, BarbatState)
def barbat_assign(state: BarbatState, ticket: Ticket) -> Ticket:
    epochs = state.epochs
    if epoch_is_over(epochs):
        _begin_epoch(state, _estimate_gaps(epochs, epochs.gaps))
    return assign_in_epoch(epochs, state.counts, ticket)


@implement(learn, BarbatState)
def barbat_learn(state: BarbatState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    add_to_epoch(state.epochs, ticket.phase, ticket.arm, reward)
