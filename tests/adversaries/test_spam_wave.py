"""Spam waves: calm, then a stretch of opposites, then calm."""

import numpy as np

from armrace.adversaries.daily_life import SpamWave
from armrace.randomness import Purpose, stream_for
from proposals import SETTING, strike

REWARDS = [0.5, 1.0, 0.25]


def struck(attack, rounds, seed=1):
    state, stream = attack.start(SETTING), stream_for(seed, Purpose.ADVERSARY, 0)
    return np.array(
        [strike(state, REWARDS, round=t, stream=stream) != REWARDS for t in range(rounds)]
    )


def test_spam_is_the_opposite_of_every_reward():
    assert strike(SpamWave(waves=1000, rate=1).start(SETTING), REWARDS) == [0.5, 0.0, 0.75]


def test_no_waves_no_spam():
    assert not struck(SpamWave(waves=0), 1000).any()


def test_waves_last_as_long_as_they_should_and_come_as_often():
    """Waves of 20 in 20,000 rounds, begun at 1/100 in calm: 167 +- 12; six deviations allowed."""
    hits = struck(SpamWave(waves=10, length=20, rate=1), 20_000)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hits.astype(int), [0]])))
    lengths = edges[1::2] - edges[::2]
    assert (lengths % 20 == 0)[:-1].all()
    assert abs(hits.sum() / 20 - 167) < 72


def test_within_a_wave_a_share_of_the_rounds_is_spam():
    """One endless wave of 2,000 rounds at 0.8 has 1,600 +- 18 hits; six deviations allowed."""
    hits = struck(SpamWave(waves=1000, length=2000), 2000)
    assert abs(hits.sum() - 1600) < 108
