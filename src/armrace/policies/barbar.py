"""BARBAR and BARBAT: epochs whose plays follow the estimated gaps."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.sampling import total_weight
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, make_counts
from armrace.policies.common.epochs import (
    Epochs,
    epoch_mean,
    epoch_plays,
    make_epochs,
    plays_in_epochs,
)
from armrace.specification import Confidence


class BarbarState(NamedTuple):
    """The epoch, and ``least_plays``: the planned plays of an arm with the gap 1."""

    counts: Counts
    epochs: Epochs
    least_plays: float


class Barbar(CountingPolicy, frozen=True, tag="barbar"):
    """Plays in epochs of fixed probabilities, arms of estimated gap ``d`` about ``1/d^2`` often.

    Epoch ``m`` plans ``n[i] = lambda/d[i]^2`` plays of each arm, where
    ``lambda = 1024 ln((8K/delta) lg T)`` and all ``d`` are 1 at first. It lasts for
    ``ceil(sum n)`` rounds and draws arms in proportion to ``n``. Its rewards over *planned*
    plays, ``r[i]``, alone give the next gaps ``max(2^-m, r* - r[i])`` with
    ``r* = max(r[i] - d[i]/16)``: a corrupted epoch misleads the next one only. With
    probability ``1 - delta`` and whatever the corruption ``C``, the regret is of order
    ``KC + sum (ln T/gap) ln((K/delta) ln T)``; with ``delta = 1/T`` the expected regret is of
    order ``K E[C] + sum ln^2(KT)/gap``. The authors give an example in which the regret is indeed
    of order ``KC``. Constants and bound are checked against the paper (Algorithm 1, Theorem 1).

    The published constant is large: until ``T`` exceeds ``K lambda``, some 10^5 for ten arms, play
    is uniform. ``scale`` multiplies it; the proof covers a ``scale`` of 1 only. An epoch ends with
    its last decision: rewards that come later do not count, and their share is taken off the plan.

    >>> state = Barbar(delta=0.1).start(arms=2, horizon=1000)
    >>> f"{state.least_plays:.1f}", state.epochs.length[0]
    ('7551.3', np.int64(15103))
    """

    family: ClassVar[str] = "robust"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Gupta, Koren and Talwar (2019), Better algorithms for stochastic bandits with "
        "adversarial corruptions"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 1 and Theorem 1 of the COLT paper, page 5, agree with the code, up to "
        "rounding an epoch's length up."
    )

    delta: Confidence = 0.05
    scale: Annotated[
        float, Limits("factor of the published constant; the proof covers 1 alone", 1e-4, 100)
    ] = 1.0

    def start(self, arms: int, horizon: int) -> BarbarState:
        # lg 1 = 0 has no logarithm.
        log_term = math.log(8 * arms / self.delta * math.log2(max(horizon, 2)))
        state = BarbarState(make_counts(arms), make_epochs(arms), self.scale * 1024 * log_term)
        _begin_epoch(state, 0)
        return state


@inlined
def _estimate_gaps(epochs: Epochs, out: npt.NDArray[np.float64]) -> int:
    """Write the gaps that follow from the epoch's rewards into ``out``, which may alias them.

    No arm leads: all are planned alike.
    """
    best = -np.inf
    for arm in range(out.size):
        best = max(best, epoch_mean(epochs, arm) - epochs.gaps[arm] / 16.0)
    # From here on gaps are only written, so that ``out`` may be the array that they were read from.
    floor = 0.5 ** epochs.number[0]
    for arm in range(out.size):
        out[arm] = max(floor, best - epoch_mean(epochs, arm))
    return 0


@inlined
def _plan(
    state: BarbarState,
    epoch: int,
    leader: int,
    gaps: npt.NDArray[np.float64],
    out: npt.NDArray[np.float64],
) -> float:
    """Write into ``out`` how often to play arms with these gaps; returns the total."""
    for arm in range(out.size):
        out[arm] = state.least_plays / (gaps[arm] * gaps[arm])
    return total_weight(out)


_begin_epoch = plays_in_epochs(BarbarState, _estimate_gaps, _plan)


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
        _begin_barbat_epoch(state, 0)
        return state


@inlined
def log_term(arms: int, epoch: int) -> float:
    """Return ``L = ln(4 K^2 (m+4) 4^(m+4) ln K)`` for ``K`` arms and the epoch ``m``."""
    last = epoch + 4
    return math.log(4.0 * arms * arms * last * math.log(arms)) + 2.0 * last * math.log(2.0)


@inlined
def _estimate_barbat_gaps(epochs: Epochs, out: npt.NDArray[np.float64]) -> int:
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
def _plan_barbat(
    state: BarbatState,
    epoch: int,
    best: int,
    gaps: npt.NDArray[np.float64],
    out: npt.NDArray[np.float64],
) -> float:
    """Write into ``out`` how often to play arms with these gaps; returns the epoch's length.

    The best arm gets all rounds that the plays of the others leave.
    """
    least_plays = state.scale * 256.0 * log_term(out.size, epoch)
    length = float(math.ceil(out.size * least_plays * 4.0 ** (epoch - 1)))
    left = length
    for arm in range(out.size):
        if arm != best:
            out[arm] = least_plays / (gaps[arm] * gaps[arm])
            left -= out[arm]
    # Positive: gaps are at least 2^-(m-1), so that no other arm takes more than a K-th of the
    # epoch.
    out[best] = left
    return length


_begin_barbat_epoch = plays_in_epochs(BarbatState, _estimate_barbat_gaps, _plan_barbat)
