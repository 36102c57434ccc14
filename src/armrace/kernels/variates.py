"""Geometric and binomial variates, in time that hardly depends on their size.

Both are exact in distribution, up to the resolution of the uniforms that they use.
"""

from __future__ import annotations

import math

from armrace.kernels.compiling import inlined
from armrace.kernels.streams import Stream, uniform

_FEW = 24
"""Up to this many coins are tossed one by one."""

_THIRD = 1.0 / 3.0
_TWO_PI = 2.0 * math.pi


@inlined
def geometric(stream: Stream, chance: float, most: int) -> int:
    """Draw the number of failures before the first success, truncated at ``most``."""
    if chance >= 1.0:
        return 0
    if chance <= 0.0:
        return most
    # Inversion. The uniform may be 0 but not 1, so that the logarithm is finite; log1p keeps tiny
    # chances accurate. Compared before rounding, since the quotient may exceed any integer.
    failures = math.log(1.0 - uniform(stream)) / math.log1p(-chance)
    return most if failures >= most else int(failures)


@inlined
def binomial(stream: Stream, coins: int, chance: float) -> int:
    """Draw the number of successes among ``coins`` coins, each with probability ``chance``.

    Think of the coins as uniforms of which those below ``chance`` succeed. Their median has a Beta
    law. If it is below ``chance``, the lower half succeeds, otherwise the upper half fails. The
    other half consists of independent uniforms on its side of the median, so that the number of
    coins is halved in each step (Devroye 1986, section X.4.4).
    """
    successes = 0
    while coins > _FEW and 0.0 < chance < 1.0:
        rank = coins // 2 + 1
        middle = _beta(stream, float(rank), float(coins + 1 - rank))
        if middle >= chance:
            coins = rank - 1
            chance /= middle
        else:
            successes += rank
            coins -= rank
            chance = (chance - middle) / (1.0 - middle)
    if chance >= 1.0:
        return successes + coins
    if chance > 0.0:
        for _ in range(coins):
            if uniform(stream) < chance:
                successes += 1
    return successes


@inlined
def _beta(stream: Stream, first: float, second: float) -> float:
    x = _gamma(stream, first)
    return x / (x + _gamma(stream, second))


@inlined
def _gamma(stream: Stream, shape: float) -> float:
    """Draw a gamma variate with a shape of at least 1 (Marsaglia and Tsang 2000)."""
    d = shape - _THIRD
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(stream)))
        normal = radius * math.cos(_TWO_PI * uniform(stream))
        cube = 1.0 + c * normal
        if cube <= 0.0:
            continue
        v = cube * cube * cube
        if math.log(1.0 - uniform(stream)) < 0.5 * normal * normal + d * (1.0 - v + math.log(v)):
            return d * v
