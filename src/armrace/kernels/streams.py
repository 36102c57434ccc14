"""Random numbers: a counter-based generator, streams of uniform numbers, variates, and coins.

The generator is Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011). A key and a 128-bit counter give four independent 32-bit words. As the words are
a pure function of the counter, the reward of any arm in any round can be computed without drawing
earlier ones.

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

Biased coins for Bernoulli rewards are flipped 64 at a time, in a machine word. A coin of
probability ``p`` shows heads if a uniform number is below ``p``. The two are compared bit by bit
from the most significant one: where they first differ, the coin is decided. Each bit decides half
of the remaining coins. So 64 coins at once, with the first bits of all uniforms in one word and the
second bits in the next, need about eight words instead of 64 numbers. The result is exact for every
``p`` that is a multiple of 2^-64. The coins of an arm come in *blocks* of 64 rounds, each of which
is a function of its place in the counter space.
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


BLOCK = 64
"""Coins in a word."""
BLOCKS = 4
"""Blocks that are flipped together."""

_CALLS = 5
"""Calls of Philox that every block begins with; one block in sixteen needs more."""
_LANES = _CALLS * BLOCKS
SCRATCH = 2 * _LANES + BLOCKS
"""Words of scratch space: the first random ones, and which coins of a block are undecided."""
_FIRST_CALL = np.uint64(2**11)
"""Calls for coins are numbered from here, beyond all further draws of a round."""

_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)
_TOP = np.uint64(BLOCK - 1)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _BYTE = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0xFF)


@inlined
def flip_coins(
    place: npt.NDArray[np.uint64],
    arm: int,
    probability: float,
    first_block: int,
    scratch: npt.NDArray[np.uint64],
    heads: npt.NDArray[np.uint64],
) -> None:
    """Flip an arm's coins: ``heads`` has one word per block and one bit per round."""
    if probability >= 1.0:
        for block in range(BLOCKS):
            heads[block] = _ALL
        return
    # Ten words decide all 64 coins of a block in most cases. They are drawn before it is known
    # whether all are needed: a loop without a condition vectorises.
    _draw_first_words(place, arm, first_block, scratch)
    undecided = scratch[2 * _LANES :]
    for block in range(BLOCKS):
        heads[block] = _NONE
        undecided[block] = _ALL
    bits = np.uint64(probability * 2.0**BLOCK)
    for word in range(2 * _CALLS):
        for block in range(BLOCKS):
            random = scratch[word * BLOCKS + block]
            heads[block], undecided[block] = _compare(bits, random, heads[block], undecided[block])
        bits = bits << _ONE
    # Once no bit of the probability is left, a coin that equals it so far is not below it: tails.
    for block in range(BLOCKS):
        if undecided[block] and bits:
            heads[block] |= _decide(place, arm, first_block + block, undecided[block], bits)


@inlined
def _compare(
    bits: np.uint64, random: np.uint64, heads: np.uint64, undecided: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Compare the top bit of ``bits`` with one bit of each coin; a coin that differs is decided."""
    # A coin is heads if its random binary fraction is below the probability. The first bit in which
    # the two differ decides: heads if the probability has the 1 there, else tails.
    if bits >> _TOP:
        return heads | (undecided & ~random), undecided & random
    return heads, undecided & ~random


@inlined
def _draw_first_words(
    place: npt.NDArray[np.uint64], arm: int, first_block: int, words: npt.NDArray[np.uint64]
) -> None:
    """Fill in the first words of all blocks, one row of blocks per bit, in a loop that vectorises.

    The first halves of all calls come first, then the second halves.
    """
    k0, k1, replication = place[0], place[1], place[3]
    lane = counter_lane(np.uint64(arm), place[2])
    for i in range(_LANES):
        block = np.uint64(first_block + i % BLOCKS)
        call = _FIRST_CALL + np.uint64(i // BLOCKS)
        a, b, c, d = philox(block & MASK, counter_high(block, call), lane, replication, k0, k1)
        words[i] = (a << WORD) | b
        words[_LANES + i] = (c << WORD) | d


@inlined
def _decide(
    place: npt.NDArray[np.uint64], arm: int, block: int, undecided: np.uint64, bits: np.uint64
) -> np.uint64:
    """Return the heads among the coins that the first words have left undecided."""
    heads = _NONE
    position = np.uint64(block)
    lane = counter_lane(np.uint64(arm), place[2])
    call = _FIRST_CALL + np.uint64(_CALLS)
    while undecided and bits:
        a, b, c, d = philox(
            position & MASK, counter_high(position, call), lane, place[3], place[0], place[1]
        )
        for random in ((a << WORD) | b, (c << WORD) | d):
            heads, undecided = _compare(bits, random, heads, undecided)
            bits = bits << _ONE
        call += _ONE
    return heads


@inlined
def spread_heads(heads: npt.NDArray[np.uint64], rewards: npt.NDArray[np.float64]) -> None:
    """Write one number per coin into ``rewards``: 1 for heads, else 0."""
    for block in range(heads.size):
        word = heads[block]
        for i in range(BLOCK):
            rewards[block * BLOCK + i] = np.float64(np.int64((word >> np.uint64(i)) & _ONE))


@inlined
def count_heads(heads: npt.NDArray[np.uint64], begin: int, end: int) -> int:
    """Count the heads among the coins from ``begin`` up to, not including, ``end``."""
    total = 0
    for block in range(heads.size):
        first, last = begin - block * BLOCK, end - block * BLOCK
        if first < BLOCK and last > 0:
            word = heads[block]
            if last < BLOCK:
                word = word & ((_ONE << np.uint64(last)) - _ONE)
            total += _count_ones(word >> np.uint64(max(first, 0)))
    return total


@inlined
def _count_ones(word: np.uint64) -> int:
    """Count the set bits of a word: in pairs of bits, then in fours, and so on up to all 64."""
    word = (word & _PAIRS) + ((word >> np.uint64(1)) & _PAIRS)
    word = (word & _FOURS) + ((word >> np.uint64(2)) & _FOURS)
    word = (word & _BYTES) + ((word >> np.uint64(4)) & _BYTES)
    word = word + (word >> np.uint64(8))
    word = word + (word >> np.uint64(16))
    word = word + (word >> np.uint64(32))
    return int(np.int64(word & _BYTE))
