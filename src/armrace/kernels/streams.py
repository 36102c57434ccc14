"""Random numbers: a counter-based generator, streams of uniform numbers, and variates.

The generator is Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011). A key
and a 128-bit counter give four independent 32-bit words. As the words are a pure function of
the counter, the reward of any arm in any round can be computed without drawing earlier ones.

The counter is laid out so that no two uses of randomness under one seed can share a counter::

    word 0   low 32 bits of the round (or of a stream's block number)
    word 1   high 20 bits of the same, then 12 bits: which further draw of this round
    word 2   28 bits: the group of four arms, then 4 bits: the purpose
    word 3   the replication

Values are held in 64-bit integers and never leave 32 bits, so that the same source runs
interpreted without overflow.

A stream is a place in Philox's counter space and a position in it. Its buffer is refilled by a loop
that the compiler vectorises. The buffer is a function of the position, so a snapshot needs only
place and position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

_BLOCKS = 32
_SIZE = 2 * _BLOCKS
_NONE = np.uint64(0)
_MANTISSA_SHIFT = np.uint64(11)
_HALF_WORD = np.uint64(32)
_UNIT = 2.0**-53


class Stream(NamedTuple):
    """The place of a stream in the counter space, the position in it, and buffered numbers."""

    place: npt.NDArray[np.uint64]
    position: npt.NDArray[np.int64]
    buffer: npt.NDArray[np.float64]


def make_stream(key: tuple[int, int], purpose: int, replication: int) -> Stream:
    """A stream at its beginning."""
    lane = counter_lane(_NONE, np.uint64(purpose))
    place = np.array([key[0], key[1], int(lane), replication], dtype=np.uint64)
    position = np.array([0, _SIZE], dtype=np.int64)
    return Stream(place, position, np.empty(_SIZE, dtype=np.float64))


@inlined
def uniform(stream: Stream) -> float:
    """The next number of the stream, uniform on [0, 1) with 53 random bits.

    Args:
        stream: the stream, which moves on by one number.
    """
    used = stream.position[1]
    if used == _SIZE:
        _refill(stream)
        used = 0
    stream.position[1] = used + 1
    return stream.buffer[np.uint64(used)]


@inlined
def _refill(stream: Stream) -> None:
    """Draw the next numbers into the buffer."""
    k0, k1, lane, replication = stream.place[0], stream.place[1], stream.place[2], stream.place[3]
    first = stream.position[0]
    for i in range(_BLOCKS):
        block = np.uint64(first + i)
        a, b, c, d = philox(block & MASK, counter_high(block, _NONE), lane, replication, k0, k1)
        # Two 32-bit words make one double, whose mantissa has 53 bits.
        stream.buffer[i] = np.float64(((a << _HALF_WORD) | b) >> _MANTISSA_SHIFT) * _UNIT
        stream.buffer[_BLOCKS + i] = np.float64(((c << _HALF_WORD) | d) >> _MANTISSA_SHIFT) * _UNIT
    stream.position[0] = first + _BLOCKS


@inlined
def tell(stream: Stream) -> int:
    """Return how many numbers have been taken."""
    # ``position`` is the next block of Philox, of two numbers each, and how many numbers of the
    # buffer are used; the rest of the buffer has been drawn but not taken.
    return stream.position[0] * 2 - _SIZE + stream.position[1]


def seek(stream: Stream, taken: int) -> None:
    """Move the stream to the position after ``taken`` numbers."""
    full, used = divmod(taken, _SIZE)
    # A short move ahead ends within the numbers that are in the buffer: nothing is drawn again.
    is_buffered = used and taken >= tell(stream) and stream.position[0] == (full + 1) * _BLOCKS
    if not is_buffered:
        stream.position[0] = full * _BLOCKS
        if used:
            _fill_at_once(stream)
    # At the end of a buffer it counts as used up, so that the next number refills it.
    stream.position[1] = used or _SIZE


def _fill_at_once(stream: Stream) -> None:
    """As :func:`_refill`, for Python: whole arrays instead of a loop that would not be compiled."""
    k0, k1, lane, replication = stream.place
    first = int(stream.position[0])
    blocks = np.arange(first, first + _BLOCKS, dtype=np.uint64)
    a, b, c, d = philox(blocks & MASK, counter_high(blocks, _NONE), lane, replication, k0, k1)  # type: ignore[arg-type]
    stream.buffer[:_BLOCKS] = (((a << _HALF_WORD) | b) >> _MANTISSA_SHIFT) * _UNIT
    stream.buffer[_BLOCKS:] = (((c << _HALF_WORD) | d) >> _MANTISSA_SHIFT) * _UNIT
    stream.position[0] = first + _BLOCKS


MASK = np.uint64(0xFFFFFFFF)
WORD = np.uint64(32)

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_ROUNDS = 10
_FURTHER_SHIFT = np.uint64(20)
_PURPOSE_SHIFT = np.uint64(28)


@inlined
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Four random words for a counter ``c0..c3`` under a key ``k0, k1``.

    >>> zero = np.uint64(0)
    >>> [f"{int(word):08x}" for word in philox(zero, zero, zero, zero, zero, zero)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    for _ in range(_ROUNDS):
        # A product of two 32-bit words has 64 bits, and both of its halves go on.
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0 = (product_1 >> WORD) ^ c1 ^ k0
        c1 = product_1 & MASK
        c2 = (product_0 >> WORD) ^ c3 ^ k1
        c3 = product_0 & MASK
        k0 = (k0 + _WEYL_0) & MASK
        k1 = (k1 + _WEYL_1) & MASK
    return c0, c1, c2, c3


@inlined
def counter_high(position: np.uint64, further: np.uint64) -> np.uint64:
    """Word 1 of the counter: the high bits of a position and the number of a further draw."""
    return (position >> WORD) | (further << _FURTHER_SHIFT)


@inlined
def counter_lane(group: np.uint64, purpose: np.uint64) -> np.uint64:
    """Word 2 of the counter: a group of four arms and what the words are for."""
    return group | (purpose << _PURPOSE_SHIFT)


_FEW = 24
"""Up to this many coins are tossed one by one."""

_THIRD = 1.0 / 3.0
_TWO_PI = 2.0 * math.pi


@inlined
def normal(stream: Stream) -> float:
    """Draw a standard normal variate, by the polar method of Marsaglia."""
    x, square = 0.0, 2.0
    while square >= 1.0 or square == 0.0:
        x = 2.0 * uniform(stream) - 1.0
        y = 2.0 * uniform(stream) - 1.0
        square = x * x + y * y
    return x * math.sqrt(-2.0 * math.log(square) / square)


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
