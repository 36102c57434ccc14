"""Arms that come and go while an experiment runs."""

import msgspec
import pytest

from armrace.errors import AlreadyExists, InvalidParameter, NotRunning, UnknownName
from armrace.service.log.chain import LogRecord
from armrace.service.model.events import ArmChanged, Created
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.settings import make_settings
from armrace_client.operations import Create
from serving import is_replay, live


def rewarded(service, clock, count=30):
    for decision in service.decide_many("ads", count):
        service.reward(decision, 1.0)
    clock.move(10)
    service.describe("ads")


def test_a_policy_that_can_takes_an_arm_on(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=1000)
    rewarded(service, clock)
    answer = service.add_arm("ads", "c")
    assert (answer.new_generation, answer.generation) == (False, 0)
    assert service.decide("ads").arm == "c"
    assert [arm.arm for arm in service.describe("ads").arms] == ["a", "b", "c"]
    assert is_replay(service)


def test_a_policy_that_cannot_starts_a_new_generation(service, clock):
    service.create("ads", ["a", "b"], 0, policy="sharp-race", window=10, horizon=1000)
    rewarded(service, clock)
    open_decision = service.decide("ads")
    answer = service.add_arm("ads", "c")
    assert (answer.new_generation, answer.generation) == (True, 1)
    assert "from now on" in answer.guarantee
    assert service.reward(open_decision, 1.0) == "accepted"
    clock.move(10)
    view = service.describe("ads")
    assert sum(layer.pulls for layer in view.layers) == 0
    assert sum(arm.rewarded for arm in view.arms) == 31
    assert service.add_arm("ads", "c").new_generation is False
    assert is_replay(service)


def test_a_paused_arm_is_not_chosen_and_comes_back(service):
    service.create("ads", ["a", "b", "c"], 0, policy="tsallis-inf")
    service.pause_arm("ads", "b")
    assert {decision.arm for decision in service.decide_many("ads", 50)} == {"a", "c"}
    answer = service.resume_arm("ads", "b")
    assert "may choose the arm again and has kept what it knows of it" in answer.guarantee
    assert {decision.arm for decision in service.decide_many("ads", 50)} == {"a", "b", "c"}
    assert is_replay(service)


def test_a_retired_arm_stays_away(service):
    service.create("ads", ["a", "b", "c"], 0, policy="tsallis-inf")
    assert "remaining arms" in service.retire_arm("ads", "b").guarantee
    assert {decision.arm for decision in service.decide_many("ads", 50)} == {"a", "c"}
    with pytest.raises(InvalidParameter, match="retired and stays so"):
        service.resume_arm("ads", "b")
    with pytest.raises(AlreadyExists, match="another name"):
        service.add_arm("ads", "b")
    service.retire_arm("ads", "a")
    with pytest.raises(InvalidParameter, match="at least 1 arms must stay active"):
        service.pause_arm("ads", "c")
    assert is_replay(service)


def test_a_retired_arm_is_not_part_of_a_new_generation(service):
    service.create("ads", ["a", "b", "c"], 0, policy="sharp-race", horizon=1000)
    service.retire_arm("ads", "a")
    service.add_arm("ads", "d")
    assert {decision.arm for decision in service.decide_many("ads", 60)} == {"b", "c", "d"}
    assert {layer.arm for layer in service.describe("ads").layers} == {"b", "c", "d"}
    assert is_replay(service)


def test_an_unknown_arm_is_named(service):
    service.create("ads", ["red", "green"], 0)
    with pytest.raises(UnknownName, match="did you mean 'red'"):
        service.pause_arm("ads", "rad")


@pytest.fixture
def short_horizon(monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)


@pytest.mark.parametrize("policy", ["optimistic-log-barrier", "tsallis-inf", "ucb1"])
def test_the_last_arm_is_chosen_for_as_long_as_it_is_the_last(
    service, clock, short_horizon, policy
):
    service.create("ads", ["a", "b"], 0, policy=policy, window=10)
    service.retire_arm("ads", "b")
    rewarded(service, clock, 45)
    assert {decision.arm for decision in service.decide_many("ads", 5)} == {"a"}
    assert service.describe("ads").generation == 0
    service.add_arm("ads", "c")
    assert {decision.arm for decision in service.decide_many("ads", 50)} == {"a", "c"}
    assert service.describe("ads").generation > 0
    service.create("others", ["a", "b"], 0)
    service.decide("others")
    assert is_replay(service)


def test_many_decisions_for_the_last_arm_are_replayed(service, clock, short_horizon):
    service.create("ads", ["a", "b"], 0, window=10)
    service.retire_arm("ads", "b")
    for _ in range(3):
        rewarded(service, clock, 400)
    assert is_replay(service)


@pytest.mark.parametrize("policy", ["sharp-race", "optimistic-log-barrier"])
def test_a_floor_does_not_bring_a_retired_arm_back(service, short_horizon, policy):
    """A new generation knows the remaining arms alone, and so must its floors."""
    service.create("ads", ["a", "b", "c"], 0, policy=policy, floors={"a": 0.5, "b": 0.2})
    service.retire_arm("ads", "a")
    decisions = service.decide_many("ads", 50)
    assert service.describe("ads").generation > 0
    assert {decision.arm for decision in decisions} == {"b", "c"}
    assert is_replay(service)


def test_a_unit_is_not_shown_an_arm_that_may_not_be_chosen(service, clock):
    service.create("ads", ["a", "b", "c"], 0, policy="tsallis-inf", window=10)
    first = service.decide("ads", unit="u", request="r")
    others = [arm for arm in "abc" if arm != first.arm]
    assert service.decide("ads", eligible=[first.arm], unit="u").repeated
    second = service.decide("ads", eligible=others, unit="u")
    assert second.arm in others
    assert not second.repeated
    assert service.decide("ads", unit="u").decision == second.decision
    service.pause_arm("ads", second.arm)
    third = service.decide("ads", unit="u")
    assert third.arm != second.arm
    service.retire_arm("ads", third.arm)
    fourth = service.decide("ads", unit="u")
    assert fourth.arm not in (second.arm, third.arm)
    assert service.decide("ads", unit="u", request="r").decision == first.decision
    assert is_replay(service)


def test_arms_of_a_finished_experiment_stay_as_they_are(service, clock):
    """A policy that cannot take on an arm would start afresh and forget what it has found."""
    service.create("done", ["a", "b", "c"], 0, policy="multi-layer-race", horizon=10_000, seed=1)
    service.decide_many("done", 10)
    service.finish("done")
    before = service.describe("done")
    for change in (service.pause_arm, service.retire_arm, service.add_arm):
        arm = "d" if change == service.add_arm else "a"
        with pytest.raises(NotRunning, match="the experiment done is finished"):
            change("done", arm)
    assert service.add_arm("done", "a").status == "active"  # it is there: nothing changes
    assert service.describe("done") == before


def test_a_leader_is_told_of_the_arms_that_it_loses(service, clock, short_horizon):
    service.create("ads", ["a", "b", "c", "d"], 0, policy="tsallis-inf", window=10)
    rewarded(service, clock, 5)
    service.pause_arm("ads", "b")
    service.retire_arm("ads", "c")
    experiment = live(service)
    assert experiment.generation.learner.paused == [1, 2]
    assert service.describe("ads").arms[1].probability == 0
    rewarded(service, clock, 20)
    assert experiment.generation.number == 1
    assert experiment.generation.learner.paused == [1]  # the retired arm is not among its arms
    service.resume_arm("ads", "b")
    assert experiment.generation.learner.paused == []
    assert {decision.arm for decision in service.decide_many("ads", 50)} == {"a", "b", "d"}
    assert is_replay(service)


def test_a_race_starts_afresh_without_a_retired_arm_and_cannot_be_paused(service, clock):
    """The arm that goes may have deleted the others from every layer."""
    service.create("ads", ["a", "b", "c"], 0, policy="sharp-race", window=10, horizon=1000)
    rewarded(service, clock)
    with pytest.raises(InvalidParameter, match="sharp-race cannot go on without an arm; retire"):
        service.pause_arm("ads", "b")
    answer = service.retire_arm("ads", "b")
    assert (answer.new_generation, answer.generation) == (True, 1)
    assert {layer.arm for layer in service.describe("ads").layers} == {"a", "c"}
    rewarded(service, clock)
    assert not service.retire_arm("ads", "a").new_generation  # with one arm there is no choice
    assert {decision.arm for decision in service.decide_many("ads", 5)} == {"c"}
    assert is_replay(service)


@pytest.mark.parametrize("policy", ["tsallis-inf", "sharp-race"])
def test_logs_of_versions_that_told_no_policy_are_replayed_as_they_were(policy):
    """Their decisions were drawn by a policy that knew nothing of the change."""
    settings = make_settings(Create("ads", ["a", "b", "c"], 0, policy), seed=1)
    experiment = ExperimentState(Created(0, "", "ads", msgspec.to_builtins(settings)))

    def apply(event):
        experiment.apply(LogRecord(experiment.head.sequence + 1, b"", b""), event)

    apply(ArmChanged(1, 1, "retired", told=False))
    assert experiment.generation.number == 0
    assert experiment.generation.learner.paused == []
    assert experiment.eligible_indices(None) == [0, 2]
    apply(ArmChanged(2, 0, "paused", told=False))
    apply(ArmChanged(3, 0, "active"))
    assert experiment.eligible_indices(None) == [0, 2]
