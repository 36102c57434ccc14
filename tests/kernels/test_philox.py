"""The generator against the known answers of its authors' distribution (Random123)."""

import numba
import numpy as np
import pytest

from armrace.kernels.streams import counter_high, counter_lane, philox

ONES = 0xFFFFFFFF
KNOWN_ANSWERS = [
    pytest.param((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8", id="zeros"),
    pytest.param((ONES,) * 4, (ONES,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd", id="ones"),
    pytest.param(
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
        id="digits of pi",
    ),
]


@numba.njit
def compiled_philox(c0, c1, c2, c3, k0, k1):
    return philox(c0, c1, c2, c3, k0, k1)


def hexadecimal(words):
    return " ".join(f"{int(word):08x}" for word in words)


@pytest.mark.parametrize("generator", [philox, compiled_philox], ids=["interpreted", "compiled"])
@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_words(generator, counter, key, expected):
    words = generator(*(np.uint64(word) for word in (*counter, *key)))
    assert hexadecimal(words) == expected


def test_interpreted_and_compiled_philox_agree_on_arbitrary_counters():
    source = np.random.default_rng(1)
    for _ in range(50):
        arguments = [np.uint64(word) for word in source.integers(0, 2**32, size=6)]
        words = philox(*arguments)
        assert hexadecimal(words) == hexadecimal(compiled_philox(*arguments))
        assert max(map(int, words)) <= ONES


def test_a_round_and_a_further_draw_share_word_one_without_overlap():
    largest_round, largest_draw = np.uint64(2**52 - 1), np.uint64(2**12 - 1)
    of_round = int(counter_high(largest_round, np.uint64(0)))
    of_draw = int(counter_high(np.uint64(0), largest_draw))
    assert of_round & of_draw == 0
    assert of_round | of_draw == ONES


def test_arms_and_purpose_share_word_two_without_overlap():
    of_arms = int(counter_lane(np.uint64(2**28 - 1), np.uint64(0)))
    of_purpose = int(counter_lane(np.uint64(0), np.uint64(15)))
    assert of_arms & of_purpose == 0
    assert of_arms | of_purpose == ONES
