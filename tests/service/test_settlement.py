"""Settlement in the order of decisions: the state depends on what was said, not on when."""

import random
from copy import deepcopy

import pytest

from serving import is_replay, learned, live, live_bytes, log_of, said_of_visits

POLICIES = ["tsallis-inf", "sharp-race", "ucb1"]


def run(make_service, clock, order, policy="tsallis-inf", settle="window", missing=0, seed=3):
    """Make 40 decisions, say rewards in some order within the window, and let it close."""
    began = clock.now
    service = make_service()
    service.create(
        "ads",
        ["a", "b", "c"],
        missing,
        policy=policy,
        window=100,
        settle=settle,
        horizon=1000,
        seed=seed,
    )
    decisions = service.decide_many("ads", 40)
    rng = random.Random(5)
    said = [(each, float(rng.random() < 0.5)) for each in decisions if rng.random() < 0.7]
    for decision, reward in order(said):
        clock.move(0.5)
        service.reward(decision, reward)
    clock.now = began + 100_000
    service.describe("ads")
    clock.now = began
    return service


def in_order(said):
    return said


def shuffled_and_repeated(said):
    return random.Random(8).sample([*said, *said], 2 * len(said))


@pytest.mark.parametrize("policy", POLICIES)
def test_late_repeated_and_reordered_rewards_give_the_same_state(make_service, clock, policy):
    one = run(make_service, clock, in_order, policy)
    other = run(make_service, clock, shuffled_and_repeated, policy)
    assert said_of_visits(one) == said_of_visits(other)


def test_immediate_settlement_does_depend_on_the_order(make_service, clock):
    one = run(make_service, clock, in_order, settle="immediate")
    other = run(make_service, clock, lambda said: said[::-1], settle="immediate")
    assert learned(one) != learned(other)
    assert one.describe("ads").notes


def test_a_decision_is_learned_when_its_window_closes_and_not_before(service, clock):
    service.create("ads", ["a", "b"], missing=0, policy="ucb1", window=10, horizon=100)
    service.reward(service.decide("ads"), 1.0)
    before = [view.pulls for view in service.describe("ads").layers]
    clock.move(10)
    after = [view.pulls for view in service.describe("ads").layers]
    assert sum(before) == 0
    assert sum(after) == 1


def test_immediate_settlement_learns_at_once(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1", settle="immediate", horizon=100)
    service.reward(service.decide("ads"), 1.0)
    assert sum(view.pulls for view in service.describe("ads").layers) == 1


@pytest.mark.parametrize(("missing", "pulls", "mean"), [(0, 2, 0.5), (1, 2, 1.0), ("drop", 1, 1.0)])
def test_missing_rewards_count_as_declared(service, clock, missing, pulls, mean):
    service.create("ads", ["a", "b"], missing, policy="ucb1", window=10, horizon=100)
    first = service.decide("ads", unit="x")
    clock.move(1)
    service.reward(first, 1.0)
    service.decide("ads", eligible=[first.arm])
    clock.move(10)
    views = [view for view in service.describe("ads").layers if view.arm == first.arm]
    assert sum(view.pulls for view in views) == pulls
    assert views[0].mean == mean


@pytest.mark.parametrize("settle", ["window", "immediate"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_replayed_log_is_the_live_state(make_service, clock, policy, settle):
    service = run(make_service, clock, shuffled_and_repeated, policy, settle)
    assert is_replay(service)


def test_decisions_go_on_alike_after_a_restart(make_service, clock):
    service = run(make_service, clock, in_order)
    clock.now = live(service).time
    store = service.engine.store
    before = deepcopy(store._logs[log_of(service)])
    again = make_service(store, service.keyring)
    assert live_bytes(again) == live_bytes(service)
    first = [decision.arm for decision in again.decide_many("ads", 20)]
    store._logs[log_of(service)] = before
    assert [decision.arm for decision in service.decide_many("ads", 20)] == first
    later = make_service(store, service.keyring)
    assert live_bytes(later) == live_bytes(service)


def test_an_unknown_horizon_doubles_and_starts_afresh(make_service, monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)
    service = make_service()
    service.create("ads", ["a", "b"], 0, policy="sharp-race")
    service.decide_many("ads", 9)
    assert service.describe("ads").generation == 0
    service.decide_many("ads", 25)
    view = service.describe("ads")
    assert (view.generation, view.horizon, view.decisions) == (2, 40, 34)
    assert is_replay(service)


def test_a_decision_is_drawn_from_all_that_is_settled_by_then(make_service, clock):
    """The first decision after a quiet night knows what was settled during the night."""

    def probability(look_first):
        service = make_service()
        service.create("ads", ["a", "b"], 0, window=10, horizon=1000, seed=4)
        for decision in service.decide_many("ads", 30):
            service.reward(decision, float(decision.arm == "a"))
        clock.move(10)
        if look_first:
            service.describe("ads")
        return service.decide("ads").probability

    assert probability(look_first=False) == probability(look_first=True)


@pytest.mark.parametrize(("missing", "mean"), [(0, 0.25), (1, 1.0), ("drop", 1.0)])
def test_the_mean_of_an_arm_counts_missing_rewards_as_what_they_count(
    service, clock, missing, mean
):
    service.create("ads", ["a", "b"], missing, policy="ucb1", window=60, horizon=1000)
    for decision in [service.decide("ads", eligible=["a"]) for _ in range(4)][:1]:
        service.reward(decision, 1.0)
    clock.move(61)
    found = {arm.arm: arm.mean for arm in service.describe("ads").arms}
    assert found == {"a": mean, "b": None}
