"""Draws are the same everywhere; leased visits are all reported, each with its reward."""

import hashlib
import threading
import time
from fractions import Fraction

import pytest

from armrace_client import LeasedExperiment, leases
from armrace_client import queue as queue_module
from armrace_client.answers import Lease, RewardAnswer, RewardList, VisitAnswer, VisitList
from armrace_client.calls import Calls
from armrace_client.errors import (
    InvalidParameter,
    NotRunning,
    RewardConflict,
    ServiceUnreachable,
    TooManyOpen,
)
from armrace_client.leases import TOTAL, Draws, integer_weights
from armrace_client.operations import LeasedVisit, Report, RewardBatch, TakeLease

COUNTING = bytes(range(32))
FOUR = [1717986918, 1288490189, 858993459, 429496730]
VECTORS = [
    (
        (bytes(32), 0, [2147483648, 2147483648]),
        0,
        "1 1 1 1 0 1 0 1 1 0 1 1 1 0 0 1 0 0 1 1 1 0 0 0 1 1 0 1 1 1 0 1",
    ),
    (
        (COUNTING, 1, FOUR),
        0,
        "0 0 1 0 0 0 2 1 0 0 0 1 1 0 2 0 2 1 1 0 3 0 0 3 2 2 1 3 3 0 0 0",
    ),
    (
        (bytes([255] * 32), 2**53 - 1, [1431655766, 1431655765, 1431655765]),
        1000003,
        "1 1 2 2 2 0 2 0 1 0 0 0 1 1 1 0 0 0 1 1 2 2 2 1 0 0 0 0 1 2 2 2",
    ),
]


# --- draws ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lease", "first", "arms"), VECTORS)
def test_draws_are_those_of_the_definition(lease, first, arms):
    expected = [int(arm) for arm in arms.split()]
    draws = Draws(*lease)
    assert [draws.arm(first + n) for n in range(32)] == expected
    assert [Draws(*lease).arm(first + n) for n in range(32)] == expected
    assert [draws.arm(first + n) for n in reversed(range(32))] == expected[::-1]


def test_a_hundred_thousand_draws_have_the_digest_of_the_definition():
    draws = Draws(COUNTING, 1, FOUR)
    found = bytes(draws.arm(n) for n in range(100_000))
    digest = hashlib.sha256(found).hexdigest()
    assert digest == "fb98cf2a8821d62e34160177f85db4f74b68e81ffe17b352869e03137081f5a1"


def test_arms_without_weight_are_never_drawn():
    draws = Draws(COUNTING, 7, [0, TOTAL // 2, 0, TOTAL // 2, 0])
    assert {draws.arm(n) for n in range(1000)} == {1, 3}


@pytest.mark.parametrize(
    ("seed", "weights"), [(bytes(31), FOUR), (COUNTING, FOUR[1:]), (COUNTING, [TOTAL + 1, -1])]
)
def test_leases_that_make_no_sense_are_refused(seed, weights):
    with pytest.raises(InvalidParameter, match="must"):
        Draws(seed, 0, weights)


# --- weights ----------------------------------------------------------------------------------


def test_weights_of_the_vectors():
    assert integer_weights([0.4, 0.3, 0.2, 0.1]) == FOUR
    assert integer_weights([1, 1, 1]) == [1431655766, 1431655765, 1431655765]


@pytest.mark.parametrize(
    "probabilities",
    [
        [1.0],
        [0.0, 1.0, 0.0],
        [1.0, 1e-300, 5e-324, 0.0],
        [0.1] * 10,
        [1 / (arm + 1) for arm in range(1000)],
        [1e-12] * 5000 + [1.0],
        [1e300, 1e-300],
    ],
)
def test_weights_are_exact_and_nearest(probabilities):
    weights = integer_weights(probabilities)
    assert sum(weights) == TOTAL
    total = sum(map(Fraction, probabilities))
    exact = [Fraction(each) * TOTAL / total for each in probabilities]
    assert all((weight > 0) == (share > 0) for weight, share in zip(weights, exact, strict=True))
    raised = sum(0 < share < 1 for share in exact)
    for weight, share in zip(weights, exact, strict=True):
        assert abs(weight - share) <= (1 if weight < max(weights) else 1 + raised)


def test_the_rest_goes_to_the_largest_remainders_and_ties_to_the_lower_place():
    assert integer_weights([3, 3, 1]) == [1840700270, 1840700270, 613566756]
    assert integer_weights([2, 2, 2, 1]) == [1227133513, 1227133513, 1227133513, 613566757]
    assert integer_weights([0, 1, 1, 1]) == [0, 1431655766, 1431655765, 1431655765]


# --- a leased experiment ----------------------------------------------------------------------


class Service(Calls):
    """Lends weights and keeps what is reported; refuses or is away as told."""

    def __init__(self):
        self.leases, self.reports, self.rewards = [], [], []
        self.trouble = None
        self.gate = threading.Event()
        self.gate.set()

    def _send(self, operation, pick):
        if isinstance(operation, TakeLease):
            return self.lend(operation)
        assert self.gate.wait(30)
        if self.trouble:
            raise self.trouble
        if isinstance(operation, Report):
            self.reports.append(operation)
            found = [VisitAnswer("accepted", self.token(operation, v)) for v in operation.visits]
            return pick(VisitList(found))
        assert isinstance(operation, RewardBatch)
        self.rewards.extend(operation.rewards)
        return pick(RewardList([RewardAnswer("accepted")] * len(operation.rewards)))

    def lend(self, operation):
        if self.trouble:
            raise self.trouble
        number = len(self.leases)
        lease = Lease(
            f"lease {number}", operation.name, ["a", "b", "c", "d"], FOUR, COUNTING.hex(), number,
            operation.visits, 0,
        )  # fmt: skip
        self.leases.append(lease)
        return lease

    @staticmethod
    def token(operation, visit):
        return f"{operation.lease} {visit.draw}"

    @property
    def visits(self):
        return [(each.lease, visit) for each in self.reports for visit in each.visits]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(leases, "monotonic", clock)
    return clock


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(queue_module, "PAUSE_SECONDS", 0.01)


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_arms_are_drawn_in_order_and_every_visit_is_reported_once(service):
    with LeasedExperiment(service, "ads", visits=10_000) as ads:
        made = [ads.decide(unit=f"visitor {n}", source="web") for n in range(2500)]
    draws = Draws(COUNTING, 0, FOUR)
    assert [each.arm for each in made] == ["abcd"[draws.arm(n)] for n in range(2500)]
    assert made[0].probability == FOUR[draws.arm(0)] / TOTAL
    assert [visit.draw for _, visit in service.visits] == list(range(2500))
    assert service.visits[7][1] == LeasedVisit(7, unit="visitor 7", source="web")
    assert max(len(each.visits) for each in service.reports) <= 1000
    assert made[7].decision == "lease 0 7"


def test_a_reward_that_comes_soon_is_reported_with_its_visit(service):
    with LeasedExperiment(service, "ads", linger=30) as ads:
        ads.decide()
        ads.decide(source="web").reward(1, suspicion=0.25)
    assert service.visits == [
        ("lease 0", LeasedVisit(0)),
        ("lease 0", LeasedVisit(1, 1.0, source="web", suspicion=0.25)),
    ]
    assert service.rewards == []


def test_a_reward_that_comes_late_is_sent_for_the_decision(service):
    with LeasedExperiment(service, "ads", linger=0) as ads:
        decision = ads.decide(source="web", labels={"campaign": "7"})
        wait_for(lambda: decision.decision)
        decision.reward(0.5)
    (reward,) = service.rewards
    assert (reward.decision, reward.experiment, reward.value) == ("lease 0 0", "ads", 0.5)
    assert (reward.source, reward.labels) == ("web", {"campaign": "7"})
    assert len(service.visits) == 1


def test_a_reward_that_comes_while_its_visit_is_on_the_way_is_not_lost(service):
    service.gate.clear()
    with LeasedExperiment(service, "ads", linger=0) as ads:
        decision = ads.decide()
        wait_for(lambda: not ads._outbox._waiting)
        time.sleep(0.02)
        decision.reward(1.0)
        service.gate.set()
    assert [visit.value for _, visit in service.visits] == [None]
    assert [each.value for each in service.rewards] == [1.0]


def test_a_decision_has_one_reward(service):
    with LeasedExperiment(service, "ads") as ads:
        decision = ads.decide()
        decision.reward(1.0)
        decision.reward(1.0)
        with pytest.raises(RewardConflict, match="has had the reward 1; got 0"):
            decision.reward(0)
        with pytest.raises(RewardConflict, match="has had its reward with other metrics"):
            decision.reward(1.0, metrics={"latency": 2.0})
        with pytest.raises(InvalidParameter, match="reward must be a finite number"):
            decision.reward(float("nan"))
    assert [visit.value for _, visit in service.visits] == [1.0]


def test_a_lease_that_is_used_up_is_replaced(service):
    with LeasedExperiment(service, "ads", visits=10) as ads:
        for _ in range(35):
            ads.decide()
    drawn = [(lease, visit.draw) for lease, visit in service.visits]
    assert len(drawn) == len(set(drawn)) == 35
    assert all(number < 10 for _, number in drawn)
    assert len(service.leases) >= 4


def test_a_lease_that_is_old_is_replaced_in_the_background(service, clock):
    with LeasedExperiment(service, "ads", refresh=10, seconds=60) as ads:
        ads.decide()
        clock.now += 9.9
        ads.decide()
        assert len(service.leases) == 1
        clock.now += 0.1
        assert ads.decide().lease.lease == "lease 0"
        wait_for(lambda: len(service.leases) == 2 and not ads._asking)
        assert ads.decide().lease.lease == "lease 1"


def test_a_lease_that_has_nearly_expired_is_not_used(service, clock):
    with LeasedExperiment(service, "ads", refresh=1000, seconds=60) as ads:
        ads.decide()
        clock.now += 54
        assert ads.decide().lease.lease == "lease 1"


def test_a_shop_decides_on_while_the_service_is_away_and_is_told_at_once_when_it_cannot(
    service, clock
):
    with LeasedExperiment(service, "ads", refresh=10, seconds=60, linger=0) as ads:
        ads.decide()
        service.trouble = ServiceUnreachable("away.")
        clock.now += 20
        for _ in range(5):
            assert ads.decide().lease.lease == "lease 0"
        wait_for(lambda: not ads._asking)
        clock.now += 40
        for _ in range(3):
            with pytest.raises(ServiceUnreachable, match="away"):
                ads.decide()
        tried = ads._next_try
        with pytest.raises(ServiceUnreachable, match="away"):
            ads.decide()
        assert ads._next_try == tried
        service.trouble = None
        clock.now += 2
        assert ads.decide().lease.lease == "lease 1"
    assert len(service.visits) == 7


def test_an_experiment_that_does_not_run_says_so(service):
    service.trouble = NotRunning("the experiment is paused.")
    with LeasedExperiment(service, "ads") as ads:
        for _ in range(2):
            with pytest.raises(NotRunning, match="paused"):
                ads.decide()


def test_reports_for_which_there_is_no_room_are_refused_at_once(service):
    service.gate.clear()
    ads = LeasedExperiment(service, "ads", room=3, linger=0)
    first = ads.decide()
    wait_for(lambda: not ads._outbox._waiting)
    for _ in range(3):
        ads.decide()
    with pytest.raises(TooManyOpen, match="reports that wait must be at most 3"):
        ads.decide()
    with pytest.raises(TooManyOpen):
        first.reward(1.0)
    service.gate.set()
    wait_for(lambda: not ads._outbox._waiting)
    first.reward(0.5)
    ads.close()
    assert [each.value for each in service.rewards] == [0.5]
    assert [visit.draw for _, visit in service.visits] == [0, 1, 2, 3]


def test_what_cannot_be_reported_is_refused_at_once(service):
    with LeasedExperiment(service, "ads") as ads:
        with pytest.raises(InvalidParameter, match="unit"):
            ads.decide(unit=7)
        with pytest.raises(InvalidParameter, match="source"):
            ads.decide(source="x" * 201)
        ads.decide()
    assert [visit.draw for _, visit in service.visits] == [0]


def test_reports_that_the_service_refuses_are_told(service):
    service.token = lambda operation, visit: None
    ads = LeasedExperiment(service, "ads", linger=30)
    ads.decide()
    service.trouble = InvalidParameter("the lease has expired.")
    with pytest.raises(InvalidParameter, match="1 reports could not be delivered"):
        ads.close()
    ((decision, answer),) = ads.refused
    assert (decision.visit.draw, answer.detail) == (0, "the lease has expired.")


def test_threads_never_share_a_draw(service):
    with LeasedExperiment(service, "ads", visits=700) as ads:
        threads = [
            threading.Thread(target=lambda: [ads.decide() for _ in range(1000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    drawn = [(lease, visit.draw) for lease, visit in service.visits]
    assert len(drawn) == len(set(drawn)) == 4000
