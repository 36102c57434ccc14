"""Streams of uniforms: uniform, seekable, and never the same for two uses."""

import random

import numba
import numpy as np
import pytest
from scipy import stats

from armrace.kernels.streams import make_stream, seek, tell, uniform
from armrace.randomness import Purpose, reward_place, stream_for

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


@pytest.mark.parametrize("lag", [1, 2, BUFFER // 2, BUFFER])
def test_numbers_a_lag_apart_are_independent(lag):
    numbers = (take(a_stream(), 100_000 + lag) * 10).astype(int)
    pairs = np.bincount(numbers[:-lag] * 10 + numbers[lag:], minlength=100)
    assert stats.chisquare(pairs).pvalue > ERROR_PROBABILITY


def test_no_number_repeats_within_a_stream():
    numbers = take(a_stream(), 20 * BUFFER)
    assert np.unique(numbers).size == numbers.size


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


def test_nearby_seeds_have_unrelated_keys():
    keys = {tuple(stream_for(seed, Purpose.LEARNER, 0).place[:2].tolist()) for seed in range(500)}
    assert len(keys) == 500


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
