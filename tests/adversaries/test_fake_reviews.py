"""Fake reviews: a decoy is praised, nobody else is touched."""

from armrace.adversaries.daily_life import FakeReviews
from armrace.randomness import Purpose, stream_for
from proposals import SETTING, WORST, strike

REWARDS = [0.5, 1.0, 0.25]


def test_the_worst_arm_gets_full_marks():
    state = FakeReviews(rate=1).start(SETTING)
    assert state.decoy == WORST
    assert strike(state, REWARDS) == [1.0, 1.0, 0.25]
    assert strike(FakeReviews(decoy=2, rate=1).start(SETTING), REWARDS) == [0.5, 1.0, 1.0]
    assert strike(FakeReviews(rate=0).start(SETTING), REWARDS) == REWARDS


def test_as_often_as_it_says():
    """A binomial of 4,000 fair coins is within 200 of 2,000 but for 3e-10."""
    state, stream = FakeReviews().start(SETTING), stream_for(2, Purpose.ADVERSARY, 0)
    struck = sum(strike(state, REWARDS, stream=stream) != REWARDS for _ in range(4000))
    assert abs(struck - 2000) < 200
