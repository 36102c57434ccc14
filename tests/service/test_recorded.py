"""Decisions that somebody else made: kept, rewarded, and learned from without bias."""

from __future__ import annotations

import random

import pytest

from armrace.errors import NotRunning, UnknownName
from armrace.policies import POLICIES
from serving import is_replay, learned, live

LEADERS = ["tsallis-inf", "exp3", "log-barrier", "optimistic-log-barrier"]


def best_share(service):
    return live(service).generation.learner.weights()[0]


@pytest.mark.parametrize("policy", LEADERS)
def test_an_editor_who_shows_the_best_arm_does_no_harm(service, policy):
    """With probability 1 on such tickets, these leaders turned away from the best arm (0.94 to
    0.005 for tsallis-inf)."""
    service.create(
        "ads", ["a", "b"], 0, policy=policy, settle="immediate", horizon=40_000, seed=3, window=1e6
    )
    rng = random.Random(1)

    def earn(made):
        return made, float(rng.random() < (0.3 if made.arm == "a" else 0.1))

    for _ in range(100):
        service.reward_many([earn(each) for each in service.decide_many("ads", 50)])
    before, state = best_share(service), learned(service)
    assert before > 0.85
    for _ in range(2000):
        service.reward(*earn(service.record("ads", "a")))
    assert best_share(service) >= before
    assert learned(service) == state  # it teaches nothing at all
    view = service.describe("ads")
    assert view.decisions == 7000
    assert is_replay(service)


@pytest.mark.parametrize("policy", ["ucb1", "thompson", "kl-ucb"])
def test_policies_of_means_learn_from_an_editor(service, clock, policy):
    service.create("ads", ["a", "b"], 0, policy=policy, horizon=10_000, seed=3, window=10)
    for _ in range(20):
        service.reward(service.record("ads", "b"), 1.0)
    clock.move(10)
    view = service.describe("ads")
    assert {layer.arm: layer.pulls for layer in view.layers}["b"] == 20
    assert is_replay(service)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_takes_decisions_of_others(service, clock, policy):
    service.create("ads", ["a", "b", "c"], 0, policy=policy, horizon=1000, seed=3, window=10)
    service.reward_many([(d, float(d.arm == "a")) for d in service.decide_many("ads", 30)])
    for arm in "abcab":
        service.reward(service.record("ads", arm), 0.25)
    clock.move(10)
    assert sum(arm.rewarded for arm in service.describe("ads").arms) == 35
    service.decide_many("ads", 5)
    assert is_replay(service)


def test_a_record_can_be_sent_again_and_rewarded(service, clock):
    service.create("ads", ["a", "b"], 0, window=10, policy="tsallis-inf", horizon=1000)
    made = service.record("ads", "b", unit="u", request="r", source="editor", labels={"x": "y"})
    assert (made.arm, made.probability, made.repeated) == ("b", None, False)
    again = service.record("ads", "b", request="r")
    assert (again.decision, again.repeated) == (made.decision, True)
    assert service.decide("ads", unit="u").decision == made.decision  # a unit sees one arm
    assert service.reward(made, 1.0) == "accepted"
    (row,) = service.rows("ads")
    assert (row.by, row.arm, row.source, row.labels) == ("editor", "b", "editor", {"x": "y"})
    clock.move(10)
    assert not service.record("ads", "b", request="r").repeated


def test_what_cannot_be_recorded_is_refused(service):
    service.create("ads", ["red", "green"], 0)
    with pytest.raises(UnknownName, match="did you mean 'red'"):
        service.record("ads", "rad")
    service.pause("ads")
    with pytest.raises(NotRunning):
        service.record("ads", "red")


def test_a_retired_arm_may_have_been_shown(service):
    """An editor is not bound by the service; the visit happened."""
    service.create("ads", ["a", "b", "c"], 0, policy="sharp-race", horizon=1000)
    service.retire_arm("ads", "b")
    service.reward(service.record("ads", "b"), 1.0)
    assert service.describe("ads").arms[1].decisions == 1
    assert is_replay(service)
