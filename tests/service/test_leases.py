"""Leases: decisions that are drawn elsewhere, reported later, and counted once."""

import random

import msgspec
import pytest

from armrace.errors import ForeignTicket, InvalidParameter, TooManyOpen
from armrace.policies import POLICIES
from armrace.service import MemoryStore, Service
from armrace.service.log.memory import _MemoryTransaction
from armrace.service.model.events import Decided
from armrace_client.leases import Draws, integer_weights
from armrace_client.operations import LeasedVisit
from serving import a_few, events, is_replay, learned, live, live_bytes, sequence_of

ARMS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def _seeds(monkeypatch):
    """The same leases in every run."""
    seeds = random.Random(1)
    monkeypatch.setattr("armrace.service.operations.deciding.secrets.token_bytes", seeds.randbytes)


def create(service, policy="tsallis-inf", **settings):
    defaults = {"window": 100, "horizon": 1000, "seed": 1}
    service.create("ads", ARMS, 0, policy=policy, **{**defaults, **settings})


def arms_of(lease, count):
    seed = bytes.fromhex(lease.seed)
    return [Draws(seed, lease.stream, lease.weights).arm(number) for number in range(count)]


def report(service, lease, numbers, value=None):
    return service.report("ads", lease.lease, [LeasedVisit(each, value) for each in numbers])


def teach(service, count):
    """Let arm a earn 1 and the others nothing."""
    service.reward_many([(d, float(d.arm == "a")) for d in service.decide_many("ads", count)])


def decided(service):
    return [event for _, event in events(service) if isinstance(event, Decided)]


def test_the_service_draws_what_the_holder_has_drawn(service, clock):
    create(service)
    teach(service, 20)
    clock.move(100)
    lease = service.lease("ads", visits=50)
    assert sum(lease.weights) == 2**32
    weights = live(service).generation.learner.weights()
    assert len(set(lease.weights)) > 1
    assert [each / 2**32 for each in lease.weights] == pytest.approx(weights.tolist(), abs=1e-9)
    expected = arms_of(lease, 50)
    assert len(set(expected)) > 1
    answers = report(service, lease, range(50), 1.0)
    assert {each.status for each in answers} == {"accepted"}
    made = decided(service)[20:]
    assert [each.arm for each in made] == expected
    assert [each.probability for each in made] == [lease.weights[arm] / 2**32 for arm in expected]
    assert [each.draw for each in made] == list(range(50))
    assert {each.by for each in made} == {"lease"}
    assert [row.by for row in service.rows("ads")[20:]] == ["lease"] * 50
    clock.move(100)
    assert service.describe("ads").decisions == 70
    assert is_replay(service)


def test_a_draw_depends_on_nothing_but_its_number(service, clock):
    """Reported in any order, beside other decisions, each draw has its arm."""
    create(service)
    lease = service.lease("ads", visits=30)
    expected = arms_of(lease, 30)
    for number in [29, 3, *range(10, 20), 0]:
        service.reward(service.decide("ads"), 1.0)
        report(service, lease, [number], 1.0)
        clock.move(1)
    found = {each.draw: each.arm for each in decided(service) if each.lease}
    assert found == {number: expected[number] for number in found}
    assert len(found) == 13
    assert is_replay(service)


@pytest.mark.parametrize("settle", ["window", "immediate"])
def test_a_visit_counts_once_however_often_it_is_reported(service, clock, settle):
    create(service, settle=settle)
    lease = service.lease("ads")
    first = report(service, lease, [0, 1, 0])
    assert [each.status for each in first] == ["accepted", "accepted", "duplicate"]
    assert first[0].decision == first[2].decision
    assert report(service, lease, [0], 1.0)[0].status == "accepted"
    assert report(service, lease, [0], 1.0)[0].status == "duplicate"
    conflict = report(service, lease, [0], 0.5)[0]
    assert (conflict.status, conflict.decision) == ("conflict", first[0].decision)
    assert "has had the reward 1" in conflict.detail
    assert service.reward(first[0].decision, 1.0) == "duplicate"
    assert service.reward(first[1].decision, 0.0) == "accepted"
    view = service.describe("ads")
    assert (view.decisions, view.conflicts) == (2, 1)
    assert is_replay(service)


def test_the_policy_learns_with_the_probability_of_the_lease(make_service, clock):
    """As from its own decisions with these tickets, whatever its weights are by then."""
    service = make_service()
    create(service, settle="immediate")
    lease = service.lease("ads")
    teach(service, 30)
    moved = integer_weights(live(service).generation.learner.weights().tolist())
    assert moved != lease.weights
    report(service, lease, range(10), 1.0)
    tickets = [each.ticket for each in decided(service)[30:]]
    arms = arms_of(lease, 10)
    assert [ticket.arm for ticket in tickets] == arms
    assert [ticket.probability for ticket in tickets] == [lease.weights[a] / 2**32 for a in arms]
    assert is_replay(service)


def test_expired_leases_take_no_reports(service, clock):
    create(service)
    lease = service.lease("ads", seconds=30)
    (first,) = report(service, lease, [0])
    clock.move(29.999)
    assert report(service, lease, [1])[0].status == "accepted"
    clock.move(0.001)
    answers = report(service, lease, [0, 2], 1.0)
    assert [each.status for each in answers] == ["expired", "expired"]
    assert "take another one" in answers[1].detail
    assert service.reward(first.decision, 1.0) == "accepted"  # as any open decision
    service.lease("ads")
    assert report(service, lease, [3])[0].status == "expired"
    assert service.describe("ads").decisions == 2
    assert is_replay(service)


def test_a_visit_whose_window_has_closed_is_not_reported_again(service, clock):
    create(service, window=5)
    lease = service.lease("ads", seconds=60)
    report(service, lease, [0])
    clock.move(5)
    service.describe("ads")
    assert report(service, lease, [0], 1.0)[0].status == "expired"
    assert report(service, lease, [1], 1.0)[0].status == "accepted"
    assert service.describe("ads").decisions == 2


def test_draws_beyond_the_lease_and_bad_rewards_are_refused_one_by_one(service):
    create(service)
    lease = service.lease("ads", visits=5)
    visits = [
        LeasedVisit(5),
        LeasedVisit(0, 7.0),
        LeasedVisit(1, 1.0, suspicion=5.0),
        LeasedVisit(2, source=""),
        LeasedVisit(3, unit="x" * 300),
        LeasedVisit(4, labels={"a": ""}),
        LeasedVisit(4, 1.0),
    ]
    state = live(service)
    answers = service.report("ads", lease.lease, visits)
    assert [each.status for each in answers] == ["invalid"] * 6 + ["accepted"]
    assert "draw must be below 5; got 5" in answers[0].detail
    assert "suspicion" in answers[2].detail
    assert live(service) is state  # refused before anything was added, so that nothing is reloaded
    assert service.describe("ads").decisions == 1
    assert is_replay(service)


@pytest.mark.parametrize("name", ["forged", "decision", "other tenant", "other experiment"])
def test_forged_and_foreign_leases_are_refused(service, name):
    create(service)
    service.create("mails", ARMS, 0, policy="tsallis-inf", horizon=1000)
    lease = service.lease("ads")
    if name == "other experiment":
        (answer,) = service.report("mails", lease.lease, [LeasedVisit(0)])
        assert answer.status == "unknown"
        assert service.describe("ads").decisions == service.describe("mails").decisions == 0
        return
    asked, text = service, lease.lease
    if name == "forged":
        text = text[:20] + ("A" if text[20] != "A" else "B") + text[21:]
    elif name == "decision":
        text = service.decide("ads").decision
    else:
        asked = Service(service.engine.store, service.keyring, tenant="other")
    with pytest.raises(ForeignTicket, match="no lease of this service has this name"):
        asked.report("ads", text, [LeasedVisit(0)])
    with pytest.raises(ForeignTicket):
        service.reward(lease.lease, 1.0)  # a lease is no decision
    if asked is not service:
        asked.close()


def test_an_arm_that_was_retired_after_the_lease_is_recorded(service, clock):
    create(service)
    lease = service.lease("ads", visits=40)
    expected = arms_of(lease, 40)
    report(service, lease, range(10), 1.0)
    gone = ARMS[expected[12]]
    service.retire_arm("ads", gone)
    answers = report(service, lease, range(10, 40), 1.0)
    assert {each.status for each in answers} == {"accepted"}
    assert [each.arm for each in decided(service)] == expected
    clock.move(100)
    assert service.describe("ads").decisions == 40
    later = service.lease("ads")
    assert later.weights[expected[12]] == 0
    assert gone not in {ARMS[arm] for arm in arms_of(later, 200)}
    assert is_replay(service)


def test_a_new_generation_learns_nothing_from_an_earlier_lease(service, clock):
    create(service, settle="immediate")
    lease = service.lease("ads")
    report(service, lease, range(5), 1.0)
    service.start_afresh("ads")
    fresh = learned(service)
    assert {each.status for each in report(service, lease, range(5, 10), 1.0)} == {"accepted"}
    assert [each.ticket is None for each in decided(service)] == [False] * 5 + [True] * 5
    assert learned(service) == fresh
    view = service.describe("ads")
    assert view.decisions == 10
    report(service, service.lease("ads"), [0], 1.0)
    assert learned(service) != fresh
    assert is_replay(service)


def test_a_guessed_horizon_ends_among_leased_visits(service, monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)
    create(service, horizon=None)
    lease = service.lease("ads")
    report(service, lease, range(15), 1.0)
    assert service.describe("ads").generation == 1
    assert [each.ticket is None for each in decided(service)] == [False] * 10 + [True] * 5
    assert is_replay(service)


@pytest.mark.parametrize("settle", ["window", "immediate"])
def test_a_leased_visit_can_be_voided(service, clock, settle):
    create(service, settle=settle)
    lease = service.lease("ads")
    answers = report(service, lease, range(10), 1.0)
    service.void("ads", [each.decision for each in answers[:4]])
    assert service.describe("ads").decisions == 6
    again = report(service, lease, [0], 1.0)[0]
    assert (again.status, again.decision) == ("duplicate", answers[0].decision)
    assert service.describe("ads").decisions == 6  # a draw counts once, also if it was voided
    report(service, lease, [10], 1.0)
    assert is_replay(service)
    service.release("ads", [each.decision for each in answers[:4]])
    assert service.describe("ads").decisions == 11
    assert is_replay(service)


def test_leases_survive_a_restart_and_reach_other_servers(make_service, clock):
    service = make_service(MemoryStore())
    create(service)
    lease = service.lease("ads")
    report(service, lease, range(5), 1.0)
    other = make_service(service.engine.store, service.keyring)
    assert [each.status for each in report(other, lease, [4, 5], 1.0)] == ["duplicate", "accepted"]
    assert report(service, lease, [5], 1.0)[0].status == "duplicate"
    service.close()
    again = make_service(service.engine.store, service.keyring)
    assert [each.status for each in report(again, lease, [5, 6], 1.0)] == ["duplicate", "accepted"]
    assert live_bytes(again) == live_bytes(other)
    assert again.describe("ads").decisions == 7
    assert is_replay(again)


@pytest.mark.parametrize("policy", a_few(POLICIES))
def test_policies_that_do_not_draw_by_weights_refuse(service, policy):
    """Races, posteriors and indices; those that draw by weights grant a lease."""
    create(service, policy)
    kind = POLICIES.make(policy)
    draws = kind.draws_by_weights and not kind.learns_from_others
    if draws and kind.layer_count(3, 1000) == 1:
        assert sum(service.lease("ads").weights) == 2**32
        return
    with pytest.raises(InvalidParameter, match=f"^{kind.tag()} cannot be leased: .*; use decide.$"):
        service.lease("ads")


def test_named_policies_are_on_the_right_side(service):
    """The rule of the test above would pass if all refused."""
    for number, policy in enumerate(["optimistic-log-barrier", "tsallis-inf", "exp3", "lb-inf"]):
        service.create(f"yes {number}", ARMS, 0, policy=policy, horizon=1000)
        assert service.lease(f"yes {number}").visits == 1000
    for number, policy in enumerate(["sharp-race", "ucb1", "thompson", "multi-layer-race"]):
        service.create(f"no {number}", ARMS, 0, policy=policy, horizon=1000)
        with pytest.raises(InvalidParameter, match="cannot be leased"):
            service.lease(f"no {number}")


def test_floors_are_part_of_the_weights(service, clock):
    create(service, floors={"a": 0.3, "b": 0.2})
    lease = service.lease("ads")
    shares = [each / 2**32 for each in lease.weights]
    assert shares == pytest.approx([0.3 + 0.5 / 3, 0.2 + 0.5 / 3, 0.5 / 3], abs=1e-9)
    report(service, lease, range(5), 1.0)
    assert {row.probability for row in service.rows("ads")} <= set(shares)
    service.retire_arm("ads", "a")
    assert service.lease("ads").weights[0] == 0
    assert sum(service.lease("ads").weights) == 2**32


def test_leases_are_limited(service, clock, monkeypatch):
    monkeypatch.setattr("armrace.service.operations.deciding._MOST_LEASES", 3)
    create(service)
    for _ in range(3):
        service.lease("ads", seconds=10)
    with pytest.raises(InvalidParameter, match="leases that have not expired must be at most 3"):
        service.lease("ads")
    clock.move(10)
    service.lease("ads")
    assert len(live(service).leases) == 1  # the others have left the state
    assert is_replay(service)


def test_a_report_waits_while_there_is_no_room_for_open_visits(service, clock):
    create(service, most_open=3, window=10)
    lease = service.lease("ads")
    report(service, lease, range(3))
    with pytest.raises(TooManyOpen):  # for now: not refused as invalid, so that it is sent again
        report(service, lease, [3])
    clock.move(10)
    assert report(service, lease, [3])[0].status == "accepted"


def test_units_and_requests_of_leased_visits_are_hashed(service):
    create(service)
    lease = service.lease("ads")
    visit = LeasedVisit(0, unit="somebody", request="r1", source="web", labels={"x": "y"})
    service.report("ads", lease.lease, [visit])
    (row,) = service.rows("ads")
    assert (row.source, row.labels) == ("web", {"x": "y"})
    assert row.unit not in (None, "somebody")
    assert service.void("ads", units=["somebody"]).changed == 1


def test_the_seed_is_not_shown_elsewhere(service):
    create(service)
    lease = service.lease("ads")
    shown = [service.describe("ads"), service.actions("ads"), service.rows("ads")]
    assert lease.seed.encode() not in msgspec.json.encode(shown)
    assert service.lease("ads").seed != lease.seed


def test_visits_of_a_report_are_added_without_asking_the_store(service, monkeypatch):
    create(service)
    lease = service.lease("ads")
    monkeypatch.setattr(_MemoryTransaction, "read_many", lambda *given: pytest.fail("it was asked"))
    assert sequence_of(service, report(service, lease, [0], 1.0)[0]) == 3
