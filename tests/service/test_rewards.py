"""Rewards: the grid, the range, repetitions, conflicts and the closing of windows."""

import math
import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armrace.errors import DecisionExpired, ForeignTicket, InvalidParameter, RewardConflict
from armrace.service import MemoryStore, Service
from armrace.service.log.memory import _MemoryTransaction
from armrace.service.model.settings import GRID, RewardScale
from armrace.service.work import Principal
from armrace_client.operations import Reward
from serving import is_replay, live, log_of, records


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_a_reward_comes_back_from_the_grid_within_half_a_step(low, width, share):
    scale = RewardScale(low, low + width)
    reward = min(low + share * width, low + width)
    steps = scale.steps(reward)
    assert 0 <= steps <= GRID
    assert abs(scale.reward(steps) - reward) <= 0.5 * width / GRID + 1e-9 * abs(low)


def test_sums_of_rewards_do_not_depend_on_their_order():
    rng = random.Random(1)
    values = [RewardScale.learned(RewardScale().steps(rng.random())) for _ in range(10_000)]
    shuffled = rng.sample(values, len(values))
    assert sum(values) == sum(shuffled) == math.fsum(values)
    plain = [rng.random() for _ in range(10_000)]
    assert sum(plain) != math.fsum(plain)  # so the grid is what does it


NO_REWARDS = [math.nan, math.inf, -math.inf, 1.1, -0.001, "1", None, [1], 1j, np.zeros(3)]
NO_REWARDS += [10**400, -(10**5000), Fraction(10**400)]


@pytest.mark.parametrize("value", NO_REWARDS, ids=range(len(NO_REWARDS)))
def test_a_reward_outside_the_range_is_refused_and_changes_nothing(service, value):
    service.create("ads", ["a", "b"], missing=0)
    decision = service.decide("ads")
    with pytest.raises(InvalidParameter, match="reward must be"):
        service.reward(decision, value)
    assert service.reward(decision, 1) == "accepted"


def test_the_range_of_rewards_is_mapped(service, clock):
    service.create("ads", ["a", "b"], missing="drop", rewards=(-10, 30), window=1)
    for _ in range(4):
        service.reward(service.decide("ads"), 20)
    clock.move(1)
    view = service.describe("ads")
    assert [arm.mean for arm in view.arms if arm.rewarded] == pytest.approx(
        [20] * sum(arm.rewarded > 0 for arm in view.arms)
    )
    with pytest.raises(InvalidParameter, match=r"reward must be in \[-10, 30\]; got 31"):
        service.reward(service.decide("ads"), 31)


def test_the_same_reward_again_is_a_duplicate_and_another_one_a_conflict(service):
    service.create("ads", ["a", "b"], missing=0)
    decision = service.decide("ads")
    assert service.reward(decision, 1.0) == "accepted"
    count = len(records(service))
    assert service.reward(decision, 1.0) == "duplicate"
    assert len(records(service)) == count
    with pytest.raises(RewardConflict, match="has had the reward 1; got 0"):
        service.reward(decision, 0.0)
    assert service.reward(decision, 1.0) == "duplicate"


def test_a_late_repetition_is_answered_from_the_log(service, clock):
    service.create("ads", ["a", "b"], missing=0, window=10)
    rewarded, silent = service.decide("ads"), service.decide("ads")
    service.reward(rewarded, 1.0)
    clock.move(10)
    service.decide("ads")
    assert service.reward(rewarded, 1.0) == "duplicate"
    with pytest.raises(RewardConflict):
        service.reward(rewarded, 0.5)
    with pytest.raises(DecisionExpired, match="for 10 seconds, which are over"):
        service.reward(silent, 1.0)


def test_a_window_closes_on_time_even_if_nothing_else_happens(service, clock):
    service.create("ads", ["a", "b"], missing=0, window=10)
    first, second = service.decide("ads"), service.decide("ads")
    clock.move(9.999)
    assert service.reward(first, 1.0) == "accepted"
    clock.move(0.001)
    with pytest.raises(DecisionExpired):
        service.reward(second, 1.0)


def test_each_reward_of_a_batch_has_its_own_answer(service, clock):
    service.create("ads", ["a", "b"], missing=0, window=10)
    late = service.decide("ads")
    clock.move(10)
    one, two = service.decide_many("ads", 2)
    answers = service.reward_many(
        [(one, 1), (one, 1), (one, 0), (two, 7), ("forged", 1), (late, 1), (two, 0)]
    )
    assert [answer.status for answer in answers] == [
        "accepted",
        "duplicate",
        "conflict",
        "invalid",
        "unknown",
        "expired",
        "accepted",
    ]
    assert all(answer.detail for answer in answers[2:-1])


def test_a_clock_that_goes_back_closes_no_window_and_stops_nothing(service, clock):
    service.create("ads", ["a", "b"], missing=0, window=3600)
    first = service.decide("ads")
    clock.move(-86400)
    second = service.decide("ads")
    assert service.reward(first, 1) == service.reward(second, 1) == "accepted"


def test_a_decision_of_another_tenant_is_unknown(service):
    service.create("ads", ["a", "b"], missing=0)
    decision = service.decide("ads")
    other = Service(service.engine.store, service.keyring, tenant="other")
    with other, pytest.raises(ForeignTicket):
        other.reward(decision, 1.0)


def test_a_decision_that_a_restore_has_undone_is_not_taken_for_another(
    service, make_service, clock
):
    """After a restore from an older backup, sequence numbers are given out again."""
    service.create("ads", ["a", "b"], 0)
    store, log = service.engine.store, log_of(service)
    count = len(records(service))
    lost, later = service.decide_many("ads", 2)
    del store._logs[log].records[count:]
    store._logs[log].snapshots.clear()
    clock.move(1)
    restored = make_service(store, service.keyring)
    given = restored.decide("ads")
    restored.reward(given, 1.0)
    for _ in range(2):
        for token in (lost, later):
            with pytest.raises(ForeignTicket, match="restored from an older backup"):
                restored.reward(token, 1.0)
        clock.move(3600)
        restored.describe("ads")
    assert restored.reward(given, 1.0) == "duplicate"


def test_a_decision_of_another_log_with_the_same_keys_is_unknown(service):
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    with (
        Service(MemoryStore(), service.keyring) as empty,
        pytest.raises(ForeignTicket, match="of another log"),
    ):
        empty.reward(decision, 1.0)


def test_conflicts_are_counted_in_the_log(service, make_service, clock):
    """They survive a restart, whether the window is open or has closed."""
    service.create("ads", ["a", "b"], missing=0, window=10)
    decision = service.decide("ads")
    service.reward(decision, 1)
    for _ in range(2):
        with pytest.raises(RewardConflict):
            service.reward(decision, 0)
    clock.move(100)
    assert [each.status for each in service.reward_many([(decision, 0), (decision, 1)])] == [
        "conflict",
        "duplicate",
    ]
    assert service.describe("ads").conflicts == 3
    assert is_replay(service)
    again = make_service(service.engine.store, service.keyring)
    assert again.describe("ads").conflicts == 3


HALF = "\ud800"
"""Half of a surrogate pair, which is no character."""


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("unit", lambda service: service.decide("ads", unit=HALF)),
        ("request", lambda service: service.decide("ads", request=HALF)),
        ("source", lambda service: service.reward(service.decide("ads"), 1.0, source=HALF)),
        ("sources", lambda service: service.retract("ads", sources=HALF)),
        ("sources", lambda service: service.retract("ads", sources=5)),
        ("units", lambda service: service.void("ads", units=[HALF])),
        ("requests", lambda service: service.hold("ads", requests=[HALF])),
        ("labels", lambda service: service.decide("ads", labels={"a": HALF})),
        ("labels", lambda service: service.void("ads", labels={HALF: "a"})),
        ("reason", lambda service: service.retract("ads", sources="x", reason=HALF)),
        ("since", lambda service: service.retract("ads", since="x")),
        ("until", lambda service: service.release("ads", until=1.5)),
        ("until", lambda service: service.release("ads", until=10**30)),
        ("arm", lambda service: service.add_arm("ads", HALF)),
        ("name", lambda service: service.create(HALF, ["a", "b"], 0)),
        ("names of arms", lambda service: service.create("mails", ["a", HALF], 0)),
        ("missing", lambda service: service.create("mails", ["a", "b"], 10**400)),
        ("rewards", lambda service: service.create("mails", ["a", "b"], 0, rewards=(0, 10**400))),
        ("level", lambda service: service.audit("ads", level=10**400)),
    ],
)
def test_what_a_log_cannot_hold_is_refused_in_one_sentence(service, name, ask):
    service.create("ads", ["a", "b"], 0)
    state = live(service)
    before = state.head.sequence
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        ask(service)
    assert live(service) is state
    assert state.head.sequence - before == (name == "source")  # the decision that was made before


def test_many_late_rewards_ask_the_store_once(service, clock, monkeypatch):
    """A question takes a round trip where the store is a database, while others wait."""
    monkeypatch.setattr("armrace.service.engine._COST", 1e-9)  # in one transaction
    service.create("ads", ["a", "b"], missing=0, window=10)
    made = service.decide_many("ads", 6)
    service.reward_many([(decision, 1.0) for decision in made[:3]])
    clock.move(10)
    fresh = service.decide_many("ads", 2)
    asked = []
    for name in ("read_many", "find_many"):
        original = getattr(_MemoryTransaction, name)

        def count(transaction, *arguments, original=original, name=name):
            asked.append(name)
            return original(transaction, *arguments)

        monkeypatch.setattr(_MemoryTransaction, name, count)
    rewards = [*((decision, 1.0) for decision in [*made, "forged", *fresh]), (made[0], 0.0)]
    statuses = [each.status for each in service.reward_many(rewards)]
    expected = ["duplicate"] * 3 + ["expired"] * 3 + ["unknown"] + ["accepted"] * 2 + ["conflict"]
    assert statuses == expected
    assert asked == ["read_many", "find_many"]


@pytest.mark.parametrize("rewards", [(0, 5e-324), (-1e-300, 1e-300), (1, 1 + 1e-12), (-5e-324, 0)])
def test_a_range_too_narrow_for_its_grid_is_refused(service, rewards):
    with pytest.raises(InvalidParameter, match=r"^rewards must be a range at least .* wide; got"):
        service.create("ads", ["a", "b"], 0, rewards=rewards)


@pytest.mark.parametrize("rewards", [(0, 1e-280), (1e9, 1e9 + 1), (-1e308, 1e308)])
def test_narrow_and_wide_ranges_have_a_grid(service, rewards):
    service.create("ads", ["a", "b"], "drop", rewards=rewards, settle="immediate")
    for reward in rewards:
        assert service.reward(service.decide("ads"), reward) == "accepted"


@pytest.mark.parametrize("first", ["-0.0", "1e-400", "-1e-400", "0", "4e-7"])
def test_numbers_too_small_for_the_grid_are_zero_and_duplicates(service, clock, first):
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1, window=10)
    decision = service.decide("ads").decision

    def reward(value: str) -> str:
        body = f'{{"decision": "{decision}", "value": {value}}}'
        asked = msgspec.json.decode(body, type=Reward)
        return service.engine.perform(asked, Principal(service.tenant)).status

    assert reward(first) == "accepted"
    for again in ("-0.0", "1e-400", "0.0"):
        assert reward(again) == "duplicate"
    with pytest.raises(RewardConflict):
        reward("1")
    clock.move(10)
    (row,) = service.rows("ads")
    assert (row.reward, math.copysign(1.0, row.reward)) == (0.0, 1.0)
    assert sum(arm.mean or 0.0 for arm in service.describe("ads").arms) == 0.0
    assert is_replay(service)
