"""Coins flipped 64 at a time, against the comparison of each coin's own number with its bias."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armrace.kernels.streams import (
    _CALLS,
    _FIRST_CALL,
    BLOCK,
    BLOCKS,
    MASK,
    SCRATCH,
    count_heads,
    counter_high,
    counter_lane,
    flip_coins,
    philox,
    spread_heads,
)
from armrace.randomness import reward_place

PLACE = reward_place(seed=5, replication=2)
BIASES = [0.0, 2.0**-60, 1e-4, 0.03, 0.25, 0.4, 0.5, 0.75, 1 - 2.0**-53, 1.0]


@numba.njit
def compiled_flip(place, arm, probability, first_block, scratch, heads):
    flip_coins(place, arm, probability, first_block, scratch, heads)


def flip(probability, arm=3, first_block=0, by=compiled_flip):
    heads = np.zeros(BLOCKS, dtype=np.uint64)
    by(PLACE, arm, probability, first_block, np.zeros(SCRATCH, dtype=np.uint64), heads)
    return heads


def numbers_of(arm, block):
    """The number of 64 bits that each coin of a block is decided by, a word a bit."""
    halves = []
    position, lane = np.uint64(block), counter_lane(np.uint64(arm), PLACE[2])
    for call in range(BLOCK // 2):
        high = counter_high(position, _FIRST_CALL + np.uint64(call))
        a, b, c, d = map(int, philox(position & MASK, high, lane, PLACE[3], PLACE[0], PLACE[1]))
        halves.append(((a << 32) | b, (c << 32) | d))
    first, rest = halves[:_CALLS], halves[_CALLS:]
    words = [one for one, _ in first] + [other for _, other in first]
    words += [word for both in rest for word in both]
    return [
        sum((word >> coin & 1) << (BLOCK - 1 - i) for i, word in enumerate(words))
        for coin in range(BLOCK)
    ]


@pytest.mark.parametrize("by", [compiled_flip, flip_coins], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("probability", BIASES)
@pytest.mark.parametrize("first_block", [0, 2**32 - 2])
def test_a_coin_shows_heads_where_its_number_is_below_its_bias(by, probability, first_block):
    undecided = check(probability, first_block, by)
    if probability == 0.4 and by is compiled_flip:  # the next words decide where the first do not
        undecided += sum(check(probability, first, by) for first in range(BLOCKS, 160, BLOCKS))
        assert undecided > 3


def check(probability, first_block, by):
    """Compare all coins; return how many of them the first ten bits leave undecided."""
    heads = flip(probability, first_block=first_block, by=by)
    bound, undecided = int(probability * 2**64), 0
    for block in range(BLOCKS):
        numbers = numbers_of(3, first_block + block)
        undecided += sum(number >> 54 == int(probability * 2**10) for number in numbers)
        expected = sum((number < bound) << coin for coin, number in enumerate(numbers))
        assert int(heads[block]) == expected
    return undecided


def test_arms_and_blocks_have_coins_of_their_own():
    flips = [tuple(flip(0.5, arm, block)) for arm in range(5) for block in (0, 4, 2**32)]
    assert len({word for words in flips for word in words}) == 5 * 3 * BLOCKS


def test_blocks_do_not_depend_on_which_others_are_flipped_with_them():
    assert flip(0.3, first_block=0)[2:].tolist() == flip(0.3, first_block=2)[:2].tolist()


words = st.lists(st.integers(0, 2**64 - 1), min_size=BLOCKS, max_size=BLOCKS)
columns = st.integers(0, BLOCK * BLOCKS)


@settings(max_examples=200, deadline=None)
@given(words, columns, columns)
def test_heads_are_counted_and_spread_alike(given_words, one, other):
    heads = np.array(given_words, dtype=np.uint64)
    rewards = np.full(BLOCK * BLOCKS, np.nan)
    spread_heads(heads, rewards)
    begin, end = min(one, other), max(one, other)
    assert count_heads(heads, begin, end) == rewards[begin:end].sum()
    assert set(np.unique(rewards)) <= {0.0, 1.0}
    assert rewards[:BLOCK].tolist() == [given_words[0] >> i & 1 for i in range(BLOCK)]
