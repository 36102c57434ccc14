"""Biased coins for Bernoulli rewards, 64 of them in a machine word.

A coin of probability ``p`` shows heads if a uniform number is below ``p``. The two are compared bit
by bit from the most significant one: where they first differ, the coin is decided. Each bit decides
half of the remaining coins. So 64 coins at once, with the first bits of all uniforms in one word
and the second bits in the next, need about eight words instead of 64 numbers. The result is exact
for every ``p`` that is a multiple of 2^-64.

The coins of an arm come in *blocks* of 64 rounds; a block is a pure function of its place in
Philox's counter space. One call of Philox gives two words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.streams import MASK, WORD, counter_high, counter_lane, philox

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

_NONE, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
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
