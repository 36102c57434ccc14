"""Track-and-stop against hand-computed values, a search of all shares, and a plain loop."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, assign, learn
from armrace.policies.races.race import NEVER
from armrace.policies.track_and_stop import ANSWER, WHEN, TrackAndStop, best_shares, evidence
from playing import make_table, play


def kl(p, q):
    return sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0)


def told_apart(shares, means, best):
    """The least divergence, over the other arms, from means in which one of them is as good."""
    least = math.inf
    for arm, mean in enumerate(means):
        if arm != best:
            own, other = shares[best], shares[arm]
            middle = (own * means[best] + other * mean) / (own + other)
            least = min(least, own * kl(means[best], middle) + other * kl(mean, middle))
    return least


@pytest.mark.parametrize("means", [(0.5, 0.4), (0.2, 0.9), (0.6, 0.5, 0.4), (0.05, 0.03, 0.04)])
def test_no_other_shares_tell_the_best_arm_sooner(means):
    means, best = np.array(means), int(np.argmax(means))
    shares = np.empty(means.size)
    best_shares(means, best, shares)
    assert shares.sum() == pytest.approx(1)
    found = told_apart(shares, means, best)
    others = np.random.default_rng(1).dirichlet(np.ones(means.size), 2000)
    near = 0.9 * shares + 0.1 * others
    assert max(told_apart(each, means, best) for each in (*others, *near)) <= found * (1 + 1e-6)


def test_two_arms_as_the_theory_has_them():
    """With two arms both divergences from the middle are equal at the best shares."""
    shares = np.empty(2)
    best_shares(np.array([0.5, 0.4]), 0, shares)
    middle = float(shares @ np.array([0.5, 0.4]))
    assert kl(0.5, middle) == pytest.approx(kl(0.4, middle), rel=1e-6)


def test_a_tie_has_equal_shares():
    shares = np.empty(3)
    best_shares(np.array([0.5, 0.5, 0.2]), 0, shares)
    assert shares == pytest.approx([1 / 3] * 3)


def state_after(pulls, sums, **told):
    state = TrackAndStop(**told).start(len(pulls), 10_000)
    state.counts.pulls[:] = state.counts.assigned[:] = pulls
    state.counts.sums[:] = sums
    state.counts.rounds[0] = sum(pulls)
    return state


def test_the_evidence_as_computed_by_hand():
    """Means 0.8 and 0.6 of 100 plays each, both against 0.7: 100 (0.025732 + 0.022583)."""
    found = 100 * (kl(0.8, 0.7) + kl(0.6, 0.7))
    assert found == pytest.approx(4.8315, abs=1e-4)
    needed = math.log(1 / 0.05) + math.log(math.pi * 100.5)
    assert needed == pytest.approx(2.99573 + 5.75496, abs=1e-4)
    assert evidence(state_after((100, 100), (80, 60)), 0, 1) == pytest.approx(found - needed)


def test_the_allowance_moves_both_means():
    """With C = 10 the means are 0.7 and 0.7: nothing speaks for the one; with 5, 0.75 and 0.65."""
    assert evidence(state_after((100, 100), (80, 60), corruption=10), 0, 1) == -math.inf
    needed = math.log(1 / 0.05) + math.log(math.pi * 100.5)
    known = 100 * (kl(0.75, 0.7) + kl(0.65, 0.7))
    state = state_after((100, 100), (80, 60), corruption=5)
    assert evidence(state, 0, 1) == pytest.approx(known - needed)


class Plain:
    """The same algorithm without anything of the library's but the shares."""

    def __init__(self, arms, delta):
        self.pulls, self.sums = np.zeros(arms, int), np.zeros(arms)
        self.shares, self.due, self.delta = np.full(arms, 1 / arms), arms, delta
        self.answer, self.when = None, None

    def next_arm(self):
        if self.answer is not None:
            return self.answer
        fewest, played = int(self.pulls.argmin()), self.pulls.sum()
        least = self.pulls[fewest]
        if least == 0 or least < math.sqrt(played) - self.pulls.size / 2:
            return fewest
        return int(((played + 1) * self.shares - self.pulls).argmax())

    def learn(self, arm, reward):
        self.pulls[arm] += 1
        self.sums[arm] += reward
        if self.answer is not None or self.pulls.min() == 0:
            return
        means, played = self.sums / self.pulls, int(self.pulls.sum())
        best = int(means.argmax())

        def enough(arm):
            own, other = self.pulls[best], self.pulls[arm]
            both = means[best], means[arm]
            middle = (own * both[0] + other * both[1]) / (own + other)
            known = own * kl(both[0], middle) + other * kl(both[1], middle)
            terms = sum(math.log(math.pi * (n + 0.5)) / 2 for n in (own, other))
            return both[0] > both[1] and known >= terms + math.log((means.size - 1) / self.delta)

        if all(enough(arm) for arm in range(means.size) if arm != best):
            self.answer, self.when = best, played
        elif played >= self.due:
            self.due = played + max(1, played // 32)
            best_shares((self.sums + 0.5) / (self.pulls + 1), best, self.shares)


def test_plays_as_a_plain_loop_does():
    table = make_table(3000, means=(0.2, 0.6, 0.4, 0.3))
    arms, state = play(TrackAndStop(), table)
    plain, expected = Plain(4, 0.05), []
    for row in table:
        expected.append(plain.next_arm())
        plain.learn(expected[-1], row[expected[-1]])
    assert arms == expected
    assert state.stopped.tolist() == [plain.answer, plain.when] == [1, plain.when]


def test_views_say_when_it_stopped():
    policy = TrackAndStop()
    state = policy.start(2, 1000)
    assert all(view.active for view in policy.inspect(state))
    for number in range(60):
        ticket = assign(state, Ticket(number % 2))
        learn(state, ticket, float(ticket.arm))
        if state.stopped[ANSWER] != NEVER:
            break
    views = policy.inspect(state)
    assert [view.active for view in views] == [False, True]
    assert views[0].eliminated_at == state.stopped[WHEN] == number + 1 < 30
