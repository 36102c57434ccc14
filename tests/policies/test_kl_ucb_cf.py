"""KL-UCB-CF against hand-computed values, its textbook form, and KL-UCB."""

import math

import pytest

from armrace.kernels.generics import decide, learn
from armrace.policies.common.divergence import lower_kl, upper_kl
from armrace.policies.ucb import KlUcb, KlUcbCf
from armrace.randomness import Purpose, stream_for
from playing import make_table, play, play_indices


def textbook_arms(table, p00, p11, c):
    slope = p00 + p11 - 1

    def index(seen, number):
        before = number - 1
        threshold = math.log(before)
        if before > math.e:
            threshold += c * math.log(math.log(before))
        bound = upper_kl if slope > 0 else lower_kl
        shown = bound(sum(seen) / len(seen), threshold / len(seen))
        return min(1, max(0, (shown - (1 - p00)) / slope))

    return play_indices(index, table)


def test_what_is_seen_is_taken_back():
    assert KlUcbCf(p00=0.9, p11=0.9).undo(0.5) == 0.5
    assert KlUcbCf(p00=0.9, p11=0.8).undo(0.1 + 0.7 * 0.25) == pytest.approx(0.25)
    assert KlUcbCf(p00=0.2, p11=0.1).undo(0.8 - 0.7 * 0.25) == pytest.approx(0.25)
    assert KlUcbCf(p00=0.9, p11=0.9).undo(0.95) == 1
    assert KlUcbCf(p00=0.9, p11=0.9).undo(0.05) == 0


def test_without_flips_it_is_kl_ucb_with_the_time_of_a_round_before():
    """KL-UCB's own state, with rounds counted one behind, makes the same decisions."""
    stream = stream_for(0, Purpose.LEARNER, 0)
    ours, theirs = KlUcbCf(p00=1, p11=1, c=3).start(4, 1000), KlUcb(c=3).start(4, 1000)
    for number, row in enumerate(make_table(1000)):
        theirs.counts.rounds[0] = max(0, number - 1)
        first, second = decide(ours, stream), decide(theirs, stream)
        assert first.arm == second.arm
        learn(ours, first, row[first.arm])
        learn(theirs, second, row[second.arm])


@pytest.mark.parametrize(("p00", "p11"), [(0.9, 0.9), (0.7, 0.95), (0.1, 0.2), (0.3, 0.0)])
def test_plays_as_printed(p00, p11):
    table = make_table(1500, means=(0.35, 0.6, 0.5, 0.3))
    assert play(KlUcbCf(p00=p00, p11=p11), table)[0] == textbook_arms(table, p00, p11, 3)


def test_late_feedback():
    state = KlUcbCf(p00=0.1, p11=0.1, c=0).start(arms=2, horizon=100)
    stream = stream_for(0, Purpose.LEARNER, 0)
    tickets = [decide(state, stream) for _ in range(40)]
    for ticket in reversed(tickets):
        learn(state, ticket, 0.9 if ticket.arm == 0 else 0.1)
    assert decide(state, stream).arm == 1
