"""Skipping in the random stream: once at the end leads where skipping each time does."""

from armrace.learner import Assigned, Learner


def test_skipping_once_is_skipping_each_time():
    original = Learner("tsallis-inf", 3, horizon=1000, seed=2)
    original.decide_many(50)
    each, once = (Learner("tsallis-inf", 3, horizon=1000, seed=2) for _ in range(2))
    for event in original.log:
        each.apply(event)
        made = once.apply(Assigned(event.number, event.ticket))
        assert made.number == event.number
    assert once.taken == 0
    once.skip_to(original.taken)
    once.skip_to(3)  # never back
    assert each.taken == once.taken == original.taken
    assert each.decide() == once.decide() == original.decide()
