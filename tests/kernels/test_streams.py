"""Philox, streams of uniforms, variates and arms drawn from them."""

import math
import random

import numba
import numpy as np
import pytest
from scipy import stats

from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import (
    binomial,
    counter_high,
    counter_lane,
    geometric,
    make_stream,
    philox,
    seek,
    tell,
    uniform,
)
from armrace.randomness import Purpose, reward_place, stream_for

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


ERROR_PROBABILITY = 1e-6
"""With which a correct stream would fail one of the statistical tests for a fresh seed."""

BUFFER = 64


@numba.njit
def take(stream, count):
    numbers = np.empty(count)
    for i in range(count):
        numbers[i] = uniform(stream)
    return numbers


def a_stream(seed=5, purpose=Purpose.LEARNER, replication=0):
    return stream_for(seed, purpose, replication)


def test_interpreted_and_compiled_streams_agree():
    interpreted = a_stream()
    expected = [uniform(interpreted) for _ in range(3 * BUFFER + 1)]
    assert take(a_stream(), 3 * BUFFER + 1).tolist() == expected


def test_numbers_lie_in_the_half_open_unit_interval_and_have_53_random_bits():
    scaled = take(a_stream(), 10_000) * 2.0**53
    assert 0 <= scaled.min() <= scaled.max() < 2.0**53
    assert np.array_equal(scaled, np.floor(scaled))
    odd = (scaled.astype(np.int64) & 1).sum()
    assert stats.binomtest(int(odd), 10_000, 0.5).pvalue > ERROR_PROBABILITY


def test_numbers_are_uniform():
    assert stats.kstest(take(a_stream(), 100_000), "uniform").pvalue > ERROR_PROBABILITY


def test_seek_goes_backwards_too():
    stream = a_stream()
    first = take(stream, 10).tolist()
    take(stream, 500)
    seek(stream, 0)
    assert take(stream, 10).tolist() == first


def test_a_stream_goes_on_beyond_32_bits_of_blocks():
    far, near = a_stream(), a_stream()
    seek(far, 2**33)
    assert tell(far) == 2**33
    assert take(far, BUFFER).tolist() != take(near, BUFFER).tolist()


def test_streams_of_different_uses_share_no_number():
    uses = {}, {"seed": 6}, {"purpose": Purpose.ADVERSARY}, {"replication": 1}
    streams = [a_stream(**use) for use in (*uses, {"replication": 2**32 - 2})]
    assert np.unique([take(stream, 10_000) for stream in streams]).size == 50_000


def test_rewards_and_streams_lie_in_different_lanes():
    lanes = {int(a_stream(purpose=purpose).place[2]) >> 28 for purpose in Purpose}
    assert len(lanes) == len(Purpose)
    assert int(reward_place(5, 3)[2]) == Purpose.REWARDS


def test_rewards_have_the_key_of_the_seed_and_the_number_of_the_replication():
    place = reward_place(5, 3)
    assert place[:2].tolist() == a_stream().place[:2].tolist()
    assert int(place[3]) == 3


def test_a_stream_starts_with_the_first_block_of_its_lane():
    stream = make_stream((0, 0), purpose=0, replication=0)
    expected = (0x6627E8D5E169C58D >> 11) / 2**53
    assert uniform(stream) == expected


def test_seek_within_and_beyond_the_numbers_at_hand_goes_on_as_if_they_had_been_taken():
    rng = random.Random(7)
    taken, jumping = make_stream((1, 2), 3, 4), make_stream((1, 2), 3, 4)
    for _ in range(40):
        ahead = tell(taken) + rng.choice([0, 1, 5, 30, 63, 64, 65, 200])
        while tell(taken) < ahead:
            uniform(taken)
        seek(jumping, ahead)
        assert tell(jumping) == ahead
        assert [uniform(jumping) for _ in range(3)] == [uniform(taken) for _ in range(3)]


SIGNIFICANCE = 1e-4
"""Each test errs with this probability for a fresh seed; seeds are fixed."""


def stream(number=0):
    return stream_for(11, Purpose.SKIPPED_ROUNDS, number)


@numba.njit
def binomials(source, coins, chance, count):
    return np.array([binomial(source, coins, chance) for _ in range(count)])


@numba.njit
def geometrics(source, chance, most, count):
    return np.array([geometric(source, chance, most) for _ in range(count)])


def test_interpreted_they_draw_the_same():
    """So that what is said of the compiled functions below is said of both."""
    for coins, chance in ((20, 0.3), (300, 0.4), (10**12, 0.37)):
        source = stream()
        drawn = [binomial(source, coins, chance) for _ in range(20)]
        assert drawn == binomials(stream(), coins, chance, 20).tolist()
    source = stream()
    drawn = [geometric(source, 0.01, 10**9) for _ in range(20)]
    assert drawn == geometrics(stream(), 0.01, 10**9, 20).tolist()


@pytest.mark.parametrize(
    ("coins", "chance"),
    [(1, 0.3), (24, 0.5), (25, 0.5), (100, 0.03), (1000, 0.97), (5000, 0.4), (300, 1e-3)],
)
def test_binomials_have_their_law(coins, chance):
    drawn = binomials(stream(), coins, chance, 3000)
    low, high = stats.binom.ppf([1e-9, 1 - 1e-9], coins, chance)
    values = np.arange(low, high + 1)
    expected = stats.binom.pmf(values, coins, chance) * drawn.size
    cells = np.cumsum(expected) // 60  # so that every cell expects some sixty
    observed = np.bincount(
        cells[np.clip(drawn - int(low), 0, values.size - 1)].astype(int),
        minlength=int(cells[-1]) + 1,
    )
    means = np.bincount(cells.astype(int), weights=expected)
    kept = means > 5
    statistic = ((observed - means)[kept] ** 2 / means[kept]).sum()
    assert stats.chi2.sf(statistic, max(1, kept.sum() - 1)) > SIGNIFICANCE


@pytest.mark.parametrize("coins", [10**9, 10**12, 10**15])
def test_binomials_of_many_coins_have_the_right_mean_and_spread(coins):
    chance = 0.37
    deviation = math.sqrt(coins * chance * (1 - chance))
    scores = (binomials(stream(1), coins, chance, 2000) - coins * chance) / deviation
    assert stats.kstest(scores, "norm").pvalue > SIGNIFICANCE


@pytest.mark.parametrize("chance", [0.9, 0.3, 0.01])
def test_geometrics_have_their_law(chance):
    drawn = geometrics(stream(3), chance, 10**9, 4000)
    expected_mean = (1 - chance) / chance
    error = math.sqrt(1 - chance) / chance / math.sqrt(drawn.size)
    assert abs(drawn.mean() - expected_mean) < 4 * error
    share_at_zero = (drawn == 0).mean()
    assert abs(share_at_zero - chance) < 4 * math.sqrt(chance * (1 - chance) / drawn.size)


def stream_with(number):
    """A stream whose next number is given."""
    stream = make_stream((0, 0), 0, 0)
    uniform(stream)
    stream.buffer[stream.position[1]] = number
    return stream


@pytest.mark.parametrize(
    ("level", "arm"),
    [(0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (1 - 2**-53, 4)],
)
def test_a_level_falls_to_the_arm_whose_share_it_is_in(level, arm):
    weights = np.array([0.0, 0.5, 0.0, 1.0, 0.5, 0.0])
    assert draw_arm(weights, 2.0, stream_with(level)) == arm


@pytest.mark.parametrize(("weights", "arm"), [([0.5, 0.25, 0.0], 1), ([0.0, 0.0], 0)])
def test_a_level_that_rounding_took_to_the_end_falls_to_the_last_possible_arm(weights, arm):
    weights = np.array(weights)
    assert draw_arm(weights, weights.sum() * (1 + 2**-40), stream_with(1 - 2**-53)) == arm
