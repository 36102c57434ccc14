"""The holdout: visits that are not left to the policy, and what they say of it."""

import random
from collections import Counter

import numpy as np
import pytest

from armrace.errors import AlreadyExists, InvalidParameter
from armrace.service.model.events import Decided
from armrace.service.model.settings import GRID
from armrace.service.model.visits import HoldoutComparison
from armrace.statistics.best_arm import Evidence, best_arm, level_of
from armrace.statistics.bounded_means import bernstein_for_all_times, bernstein_interval
from armrace_client import Client
from armrace_client.leases import Draws
from armrace_client.operations import LeasedVisit
from serving import events, is_replay, learned, live

ARMS = ["a", "b", "c"]
MEANS = {"a": 0.6, "b": 0.3, "c": 0.2}


def create(service, policy="tsallis-inf", arms=ARMS, missing=0, **settings):
    defaults = {"window": 10, "horizon": 20_000, "seed": 3, "holdout": 0.2}
    service.create("ads", arms, missing, policy=policy, **{**defaults, **settings})


def play(service, clock, rounds, at_once=50):
    """Rewards of their means; of every fifth visit none comes."""
    rng, decisions = random.Random(rounds), []
    for _ in range(rounds):
        made = service.decide_many("ads", at_once)
        paid = [
            (each, float(rng.random() < MEANS[each.arm])) for each in made if rng.random() < 0.8
        ]
        service.reward_many(paid)
        decisions += made
        clock.move(10)
    return decisions


def decided(service):
    return [event for _, event in events(service) if isinstance(event, Decided)]


def held_out(service):
    return [event for event in decided(service) if event.by == "holdout"]


def check_shares(made):
    """A fifth of 2,000, arms alike; each misses its bounds with a probability below 0.1%."""
    assert abs(len(made) - 400) < 3.3 * (2000 * 0.2 * 0.8) ** 0.5
    chosen, spread = Counter(event.arm for event in made), (len(made) * 2 / 9) ** 0.5
    assert all(abs(chosen[arm] - len(made) / 3) < 3.3 * spread for arm in range(3))


def test_a_share_is_decided_at_random_and_the_odds_are_published(service, clock):
    create(service, floors={"c": 0.3})
    play(service, clock, 40)
    made = held_out(service)
    check_shares(made)
    assert Counter(event.by for event in decided(service))["floor"] > 0.8 * 0.3 * 2000 * 0.8
    check = service.check_ratio("ads")
    assert check.left_out == 0
    assert check.p_value > 0.001
    first = decided(service)[0]
    # A holdout of 20% shows each of three arms alike, the floor has 30% of the rest.
    assert np.frombuffer(first.shares, "<f4") == pytest.approx(
        [0.2 / 3 + 0.8 * 0.7 / 3] * 2 + [0.2 / 3 + 0.8 * (0.3 + 0.7 / 3)]
    )
    assert is_replay(service)


def test_the_same_log_is_decided_by_the_same_coins(make_service, clock):
    services = [make_service(), make_service()]
    for each in services:
        create(each)
        each.decide_many("ads", 200)
    one, other = ([(e.arm, e.by) for e in decided(each)] for each in services)
    assert one == other
    assert {by for _, by in one} == {"policy", "holdout"}


def test_an_arm_can_be_the_holdout(service, clock):
    create(service, holdout_arm="b")
    play(service, clock, 6)
    assert {event.arm for event in held_out(service)} == {1}
    before = len(held_out(service))
    # Where it may not be shown, the holdout shows the others alike.
    for _ in range(200):
        service.decide("ads", eligible=["a", "c"])
    assert {event.arm for event in held_out(service)[before:]} == {0, 2}
    assert service.describe("ads").holdout.arm == "b"


@pytest.mark.parametrize(("policy", "learns"), [("tsallis-inf", False), ("ucb1", True)])
def test_a_policy_learns_from_the_holdout_what_it_can(service, clock, policy, learns):
    create(service, policy)
    made = service.decide_many("ads", 60)
    by = [event.by for event in decided(service)]
    clock.move(5)
    before = learned(service)
    paid = [each for each, who in zip(made, by, strict=True) if who == "holdout"]
    service.reward_many([(each, 1.0) for each in paid])
    assert all((event.ticket is not None) == learns for event in held_out(service))
    clock.move(4.9)
    service.describe("ads")
    assert learned(service) == before  # only visits whose windows have closed are learned
    create(service, policy)  # the same settings
    with pytest.raises(AlreadyExists, match="other settings"):
        create(service, policy, holdout=0.1)


def _by_hand(rows, share):
    """What the comparison must be, from an export, by its formula."""
    total = squares = earned = seen = 0.0
    for row in rows:
        if row.void or row.by == "editor":
            continue
        value = row.reward if row.counts else 0.0
        beyond = value - (earned + 0.5) / (seen + 1)
        term = -beyond / share if row.by == "holdout" else beyond / (1 - share)
        total, squares, earned, seen = total + term, squares + term**2, earned + value, seen + 1
    return total, squares, int(seen)


def test_the_report_counts_what_counts(service, clock):
    create(service)
    made = play(service, clock, 10)
    for each in service.decide_many("ads", 5):
        service.reward(each, 1.0, suspicion=0.9)
    recorded = [service.record("ads", "a") for _ in range(5)]
    service.reward_many([(each, 1.0) for each in recorded])
    clock.move(10)
    service.void("ads", made[:100])
    service.retract("ads", made[100:300])
    view, rows = service.describe("ads").holdout, service.rows("ads")
    total, squares, seen = _by_hand(rows, 0.2)
    assert seen == 500 - 100 + 5
    low, high = bernstein_for_all_times(total, squares, seen, 5.0, 0.05)
    assert (view.difference, view.lower, view.upper) == pytest.approx((total / seen, low, high))
    held = [row for row in rows if row.by == "holdout" and not row.void]
    assert view.visits == len(held)
    assert view.mean == pytest.approx(sum(row.reward for row in held if row.counts) / len(held))
    assert view.visits + view.policy_visits == seen
    assert is_replay(service)


def test_leased_visits_have_their_part_of_the_holdout(service, clock):
    create(service)
    play(service, clock, 20)
    before = Counter(row.by for row in service.rows("ads"))
    lease = service.lease("ads", visits=2000)
    service.report("ads", lease.lease, [LeasedVisit(number) for number in range(2000)])
    reported = decided(service)[-2000:]
    draws = Draws(bytes.fromhex(lease.seed), lease.stream, lease.weights)
    assert [event.arm for event in reported] == list(map(draws.arm, range(2000)))
    made = [event for event in reported if event.by == "holdout"]
    check_shares(made)
    assert Counter(event.by for event in reported)["lease"] == 2000 - len(made)
    clock.move(10)
    view = service.describe("ads").holdout
    assert view.visits == before["holdout"] + len(made)
    assert view.visits + view.policy_visits == 3000
    service.report("ads", lease.lease, [LeasedVisit(0)])
    assert is_replay(service)


def test_leases_with_an_arm_as_the_holdout(service, clock):
    create(service, holdout_arm="b", arms=["a", "b"])
    service.pause_arm("ads", "a")
    service.resume_arm("ads", "a")
    lease = service.lease("ads", visits=200)
    service.report("ads", lease.lease, [LeasedVisit(number) for number in range(200)])
    assert {event.arm for event in held_out(service)} == {1}
    assert 20 < len(held_out(service)) < 60  # else with a probability below 0.1%


def test_the_interval_holds_while_visitors_and_policy_change():
    """What visitors earn drifts, and the policy gets better: the truth is its mean gain."""
    share, level, runs, wrong, narrow = 0.2, 0.2, 150, 0, 0
    rng = np.random.default_rng(5)
    for _ in range(runs):
        found, gains, missed = HoldoutComparison(), 0.0, False
        for number in range(800):
            base, gain = 0.25 + 0.15 * np.sin(number / 60), 0.6 * number / 800
            held = bool(rng.random() < share)
            reward = float(rng.random() < base + (0.0 if held else gain))
            found.count(held, int(reward * GRID), share)
            gains += gain
            if number % 100 == 99:
                sums = found.difference, found.squares, number + 1
                low, high = bernstein_for_all_times(*sums, 1 / share, level)
                missed = missed or not low <= gains / (number + 1) <= high
        wrong += missed
        narrow += low > 0
    assert wrong <= 48  # more have a probability below 0.1% at a level of 20%
    assert narrow >= runs / 3  # it says something


def test_intervals_for_all_times_are_wider_than_for_one():
    one = bernstein_interval(50.0, 47.5, 1000, 1.0, 1.0, 0.05)
    all_times = bernstein_for_all_times(50.0, 47.5, 1000, 1.0, 0.05)
    assert all_times.low < one.low < one.high < all_times.high


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"holdout": 0.6}, r"holdout must be in \[0, 0.5\]; got 0.6"),
        ({"holdout": "much"}, "holdout must be a number; got 'much'"),
        ({"holdout_arm": "x"}, "holdout_arm must be an arm of the experiment; got 'x'"),
        ({"holdout": 0, "holdout_arm": "a"}, "holdout_arm needs a holdout"),
    ],
)
def test_what_cannot_be_a_holdout_is_refused(service, settings, words):
    with pytest.raises(InvalidParameter, match=words):
        create(service, **settings)


# --- a number to stop by -----------------------------------------------------------------------


def _expected(service, held=0):
    """The statement by hand, from an export; ``held`` rewards of closed visits may be honest."""
    sums = {arm: [0.0, 0, 0] for arm in ARMS}
    for row in service.rows("ads"):
        if not row.void:
            sums[row.arm][0] += row.reward if row.counts else 0.0
            sums[row.arm][1] += 1
            sums[row.arm][2] += row.counts is False
    arms = [Evidence(t, t + min(held, away), n) for t, n, away in sums.values()]
    return best_arm(arms, [level_of(place, 3, 0.05) for place in range(3)])


def test_the_statement_counts_what_counts(service, clock):
    create(service, quarantine=0.5)
    assert service.describe("ads").best is None
    made = play(service, clock, 60)
    said = service.describe("ads").best
    assert (said.arm, said.visits) == ("a", 3000)
    assert _expected(service) == (0, said.forged)
    assert said.forged > 0
    assert said.words == (
        f"a is the best arm with 95% confidence, even if up to {said.forged} of the 3,000 counted "
        "visits were forged."
    )
    # Held rewards may be honest: what they would count as is left open.
    b = [each for each in made if each.arm == "b"][:30]
    held = service.hold("ads", b).changed
    doubtful = service.describe("ads").best
    assert _expected(service, held) == (0, doubtful.forged)
    service.retract("ads", b)
    retracted = service.describe("ads").best
    assert _expected(service) == (0, retracted.forged)
    service.void("ads", [each for each in made if each.arm == "a"][:100])
    voided = service.describe("ads").best
    assert _expected(service) == (0, voided.forged)
    assert voided.visits == 2900
    assert doubtful.forged < retracted.forged
    assert voided.forged <= retracted.forged
    preview = service.void("ads", made[:1000], preview=True)
    assert preview.before.best == voided
    assert preview.after.best.forged < voided.forged


def test_retired_arms_are_no_rivals_and_contexts_have_no_statement(service, clock):
    create(service, policy="ucb1", holdout=0.0)
    play(service, clock, 10)
    service.retire_arm("ads", "c")
    service.retire_arm("ads", "b")
    assert service.describe("ads").best is None  # nothing to compare with
    service.create("shop", ARMS, 0, context={"age": {"type": "number", "low": 0, "high": 9}})
    assert service.describe("shop").best is None


def test_the_state_travels(address, service):
    with Client("http://{}:{}".format(*address)) as client:
        client.create("shop", ["a", "b"], 0, policy="ucb1", holdout=0.05, holdout_arm="a")
        client.decide_many("shop", 10)
        found = client.describe("shop")
    assert (found.holdout.share, found.holdout.arm, found.best) == (0.05, "a", None)
    assert live(service, "shop").settings.holdout == 0.05
