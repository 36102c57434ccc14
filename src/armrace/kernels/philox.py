"""Philox4x32-10, the counter-based generator behind every random number of the package.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A key
and a 128-bit counter give four independent 32-bit words. As the words are a pure function of
the counter, the reward of any arm in any round can be computed without drawing earlier ones.

The counter is laid out so that no two uses of randomness under one seed can share a counter::

    word 0   low 32 bits of the round (or of a stream's block number)
    word 1   high 20 bits of the same, then 12 bits: which further draw of this round
    word 2   28 bits: the group of four arms, then 4 bits: the purpose
    word 3   the replication

Values are held in 64-bit integers and never leave 32 bits, so that the same source runs
interpreted without overflow.
"""

from __future__ import annotations

import numpy as np

from armrace.kernels.compiling import inlined

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
