"""BARBAR: epochs that reconsider every arm, so that corruption is forgotten."""

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
