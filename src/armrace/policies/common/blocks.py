"""Blocks of an arm's rewards, each compared with all before it, to see whether the mean changed.

An audit looks at them at any time, and a policy that starts afresh at an alarm after each block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.common.divergence import kl

SMALLEST_BLOCK = 16
"""Fewer rewards than these cannot raise an alarm at any useful level."""


class Blocks(NamedTuple):
    """The current and the most striking block of each arm (row) and size (column)."""

    sums: npt.NDArray[np.float64]
    """The arm's sum at the beginning of the current block."""
    rounds: npt.NDArray[np.int64]
    outstanding: npt.NDArray[np.int64]
    """Plays of the arm without a reward at the beginning of the current block."""
    evidence: npt.NDArray[np.float64]
    """Of the most striking block against all before it, with the weight of its place."""
    ends: npt.NDArray[np.int64]
    """The arm's rewards at the end of the most striking block."""
    before: npt.NDArray[np.float64]
    """Sum of the rewards before it."""
    within: npt.NDArray[np.float64]
    first_rounds: npt.NDArray[np.int64]
    last_rounds: npt.NDArray[np.int64]
    first_outstanding: npt.NDArray[np.int64]
    """Plays without a reward at its beginning."""
    last_outstanding: npt.NDArray[np.int64]


def make_blocks(arms: int, horizon: int) -> Blocks:
    """Make empty blocks, of each size that fits into the horizon twice, and of at least one."""
    shape = (arms, max(1, int(math.log2(max(2, horizon // SMALLEST_BLOCK)))))
    return Blocks(
        sums=np.zeros(shape),
        rounds=np.zeros(shape, dtype=np.int64),
        outstanding=np.zeros(shape, dtype=np.int64),
        evidence=np.full(shape, -np.inf),
        ends=np.zeros(shape, dtype=np.int64),
        before=np.zeros(shape),
        within=np.zeros(shape),
        first_rounds=np.zeros(shape, dtype=np.int64),
        last_rounds=np.zeros(shape, dtype=np.int64),
        first_outstanding=np.zeros(shape, dtype=np.int64),
        last_outstanding=np.zeros(shape, dtype=np.int64),
    )


@inlined
def block_size(scale: int) -> int:
    """Return the number of pulls in a block of this scale."""
    return SMALLEST_BLOCK << scale


@inlined
def log_block_weight(position: float) -> float:
    """Logarithm of ``1 / (2 i ln(i+2)^2)``, whose sum over the blocks ``i = 1, 2, ...`` is below 1.

    With these weights, early blocks lose little, and late ones hardly more than with a union bound
    over a known number of blocks.
    """
    return -math.log(2.0 * position * math.log(position + 2.0) ** 2)


@inlined
def end_blocks(
    blocks: Blocks, arm: int, pulls: int, total: float, outstanding: int, round: int
) -> None:
    """Compare each block that ends here with all rewards before it, and begin the next block."""
    scale, size = 0, SMALLEST_BLOCK
    while scale < blocks.sums.shape[1] and pulls % size == 0:
        earlier, before = blocks.sums[arm, scale], pulls - size
        lacking = blocks.outstanding[arm, scale]
        # Rewards that came within the block may belong to plays made before it (up to
        # ``lacking``), and some plays made within it have had no reward yet (``outstanding``).
        plays = size + outstanding - lacking
        if before > 0 and plays > 0:
            # differences of long sums may leave the range by a rounding error
            within = min(max(total - earlier, 0.0), float(size))
            low, high = max(within - lacking, 0.0), min(within + outstanding, float(plays))
            first, second = nearest_sums(
                before + lacking, earlier, earlier + lacking, plays, low, high
            )
            evidence = log_evidence(before + lacking, first, plays, second)
            evidence += log_block_weight(before // size)
            if evidence > blocks.evidence[arm, scale]:
                blocks.evidence[arm, scale] = evidence
                blocks.ends[arm, scale] = pulls
                blocks.before[arm, scale] = earlier
                blocks.within[arm, scale] = within
                blocks.first_rounds[arm, scale] = blocks.rounds[arm, scale]
                blocks.last_rounds[arm, scale] = round
                blocks.first_outstanding[arm, scale] = lacking
                blocks.last_outstanding[arm, scale] = outstanding
        blocks.sums[arm, scale] = total
        blocks.rounds[arm, scale] = round
        blocks.outstanding[arm, scale] = outstanding
        scale += 1
        size *= 2


@inlined
def log_evidence(pulls: float, total: float, other_pulls: float, other_total: float) -> float:
    """Logarithm of the e-value of two samples of one arm, given by size and sum.

    It is ``n kl(x, z) + m kl(y, z) - ln(pi (n + 1/2))/2 - ln(pi (m + 1/2))/2`` for samples of
    sizes ``n`` and ``m`` with means ``x`` and ``y``, where ``z`` is the mean of all.
    """
    common = (total + other_total) / (pulls + other_pulls)
    divergence = 0.0
    if 0.0 < common < 1.0:  # else all rewards are equal, up to rounding errors
        divergence = pulls * kl(total / pulls, common)
        divergence += other_pulls * kl(other_total / other_pulls, common)
    return divergence - 0.5 * math.log(math.pi**2 * (pulls + 0.5) * (other_pulls + 0.5))


@inlined
def nearest_sums(
    pulls: float,
    low: float,
    high: float,
    other_pulls: float,
    other_low: float,
    other_high: float,
) -> tuple[float, float]:
    """Return the sums of two samples, each known up to an interval, that differ least.

    These are the ends that face each other, or sums with equal means if there are any.
    """
    if high * other_pulls <= other_low * pulls:
        return high, other_low
    if low * other_pulls >= other_high * pulls:
        return low, other_high
    common = max(low / pulls, other_low / other_pulls)
    return common * pulls, common * other_pulls
