"""The relaxed mode: two servers on one store, with a clock that the test moves.

What another server does between a draw and its turn is done in ``Shared.between``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager

import pytest

import armrace
from armrace.errors import DamagedFile, DecisionExpired, InvalidParameter, NotRunning, TooManyOpen
from armrace.kernels.streams import uniform
from armrace.online import Learner
from armrace.online.followers import Follower
from armrace.service import MemoryStore, Service
from armrace.service.events import Decided, DecidedAhead, decode
from armrace.service.folding import load_state
from armrace.service.relaxed.books import Lag
from armrace.service.relaxed.drafts import Drafter
from armrace.service.requests.decisions import Decide
from serving import folded_bytes, live_bytes


class Shared(MemoryStore):
    """A store on which a test can let something happen before a server's next turn."""

    relaxes = True
    between: Callable[[], object] | None = None

    @contextmanager
    def turn(self):
        act, self.between = self.between, None
        if act is not None:
            act()
        with super().turn() as turn:
            yield turn


@pytest.fixture
def store():
    return Shared()


@pytest.fixture
def pair(store, clock):
    """Two relaxed servers."""
    one = Service(store, clock=clock, mode="relaxed")
    return one, Service(store, one.keyring, clock=clock, mode="relaxed")


def begin(pair, arms=("a", "b", "c"), missing=0, **settings):
    """Create an experiment, and let both servers have a random stream."""
    settings = {"policy": "exp3", "horizon": 1000, "seed": 4, **settings}
    pair[0].create("ads", list(arms), missing, **settings)
    for service in pair:
        service.decide("ads")
        service.decide("ads")


def made(store: MemoryStore) -> list[Decided]:
    events = [decode(record.payload) for record in store.records]
    return [event for event in events if isinstance(event, Decided)]


def check_fold(store, *services: Service) -> None:
    """Both servers, once they have read the log, have the state that the log yields."""
    folded = folded_bytes(store, snapshots=False)
    for service in services:
        service.names()
        assert live_bytes(service) == folded


def mix(pair, clock, rounds: int, seed: int = 1) -> None:
    """Let both servers decide and reward in a random order."""
    rng, waiting = random.Random(seed), []
    for _ in range(rounds):
        service = rng.choice(pair)
        clock.move(rng.random() / 10)
        waiting += service.decide_many("ads", rng.randint(1, 5))
        for _ in range(rng.randint(0, 4)):
            token = waiting.pop(rng.randrange(len(waiting))) if waiting else None
            if token is not None:
                service.reward_many([(token, rng.choice([0.0, 1.0]))])


@pytest.mark.parametrize("settle", ["window", "immediate"])
@pytest.mark.parametrize("policy", ["multi-layer-race", "ucb1"])
def test_the_log_yields_the_state_of_both_servers(pair, store, clock, policy, settle):
    begin(pair, policy=policy, window=2, settle=settle, floors={"c": 0.1})
    mix(pair, clock, rounds=150)
    check_fold(store, *pair)
    ahead = [event for event in made(store) if isinstance(event, DecidedAhead)]
    assert len(ahead) > 0.9 * len(made(store)) > 200
    assert {event.stream for event in ahead} == {1, 2}


def test_the_log_says_how_a_decision_was_drawn(pair, store, clock):
    """Worked out again from the log: the state at the record that a decision names, the server's
    own decisions since, and the next number of its stream (exp3 takes one for a decision)."""
    begin(pair, settle="immediate")
    mix(pair, clock, rounds=25)
    own: dict[tuple[int, int], Learner] = {}
    events = [event for event in made(store) if isinstance(event, DecidedAhead)]
    for event in events:
        stream, known = event.stream, event.known
        if (stream, known) not in own:
            known_log = MemoryStore()
            known_log.records = store.records[:known]
            with known_log.turn() as turn:
                found = load_state(turn).find("main", "ads")
            own[stream, known] = found.generation.learner
        learner = own[stream, known]
        assert learner.weights()[event.arm] == event.probability
        again = Follower(learner, stream, taken=event.stream_taken - 1)
        assert again.choose() == event.ticket
        learner.assign(event.ticket)
    assert len({event.probability for event in events}) > 10


def test_streams_have_no_number_in_common():
    leader = Learner("exp3", 3, 100, seed=7, log=False)
    followers = [Follower(leader, stream) for stream in (1, 2, 2**32 - 1)]
    drawn = [{uniform(each._stream) for _ in range(2000)} for each in (leader, *followers)]
    assert len(set.union(*drawn)) == 4 * 2000
    later = Follower(leader, 1, taken=1000)
    assert uniform(later._stream) in drawn[1]
    with pytest.raises(InvalidParameter, match="stream must be in"):
        Follower(leader, 0)


def test_a_follower_knows_what_its_leader_knows():
    leader = Learner("multi-layer-race", 3, 1000, seed=7, log=False)
    follower = Follower(leader, 1)
    for number in range(60):
        leader.learn(leader.decide(), float(number % 2))
        follower.decide()
        if number % 7 == 0:
            follower.follow()
            assert follower.snapshot().state == leader.snapshot().state
            assert follower.distribution() == leader.distribution()
    assert follower.taken > 50


def test_no_server_takes_a_number_twice_or_one_of_another(pair, store, clock):
    """Neither after a restart, nor in a new generation, nor after a ruling about the past."""
    begin(pair, window=1, horizon=None)
    mix(pair, clock, rounds=30)
    decision = pair[0].decide("ads")
    pair[0].reward(decision, 1.0)
    clock.move(1)
    pair[0].retract("ads", [decision])
    pair[0].add_arm("ads", "d")
    restarted = Service(store, pair[0].keyring, clock=clock, mode="relaxed")
    mix((*pair, restarted), clock, rounds=30, seed=2)
    check_fold(store, *pair, restarted)
    numbers = [
        (event.stream, event.stream_taken)
        for event in made(store)
        if isinstance(event, DecidedAhead)
    ]
    assert {stream for stream, _ in numbers} == {1, 2, 3}
    assert len(set(numbers)) == len(numbers)
    for stream in (1, 2, 3):
        taken = [taken for each, taken in numbers if each == stream]
        assert taken == sorted(taken)


def test_lots_of_floors_differ_between_servers(pair):
    begin(pair, floors={"c": 0.5}, missing="drop")
    experiment = pair[0].ledger._state.find("main", "ads")

    def drawn_by_floor(stream: int) -> list[bool]:
        drafter = Drafter(stream, most_records=1000)
        drafter.follow(experiment, head=1, time=0)
        return [drafter.draw(experiment, None).drawn.ticket is None for _ in range(60)]

    assert drawn_by_floor(1) == drawn_by_floor(1) != drawn_by_floor(2)
    for service in pair:
        service.decide_many("ads", 60)
    assert pair[0].check_ratio("ads").p_value > 1e-4  # fails by chance with probability 1e-4


def test_a_request_that_another_server_has_answered_gets_that_decision(pair, store):
    begin(pair)
    for names in ({"request": "r"}, {"unit": "u"}, {"unit": "v", "request": "s"}):
        first = pair[0].decide("ads", **names)
        count = len(made(store))
        again = pair[1].decide("ads", **names)  # has not heard of it, and has drawn an arm
        assert (again.decision, again.arm) == (first.decision, first.arm)
        assert again.repeated
        assert len(made(store)) == count
    outcome = []
    store.between = lambda: outcome.append(pair[1].decide("ads", request="t"))
    assert pair[0].decide("ads", request="t").decision == outcome[0].decision
    twice = pair[0].ledger.submit([pair[0]._decide("ads", request="w")] * 2)
    assert [each.repeated for each in twice] == [False, True]
    check_fold(store, *pair)


def test_a_unit_whose_decision_has_closed_keeps_its_later_one(pair, clock):
    begin(pair, window=10)
    pair[0].decide("ads", request="r", unit="u")
    clock.move(9.5)
    pair[1].decide("ads")
    pair[0].decide("ads")
    clock.move(0.5)
    later = pair[1].decide("ads", request="s", unit="u")
    assert not later.repeated
    assert pair[0].decide("ads", request="r", unit="u").decision == later.decision


@pytest.mark.parametrize("change", ["pause_arm", "retire_arm"])
def test_an_arm_that_another_server_takes_away_is_not_chosen(pair, store, change):
    begin(pair, policy="tsallis-inf")
    for _ in range(10):
        store.between = lambda: getattr(pair[1], change)("ads", "a")
        assert pair[0].decide("ads").arm != "a"
        assert not isinstance(made(store)[-1], DecidedAhead)  # drawn again, from the true state
        assert "a" not in {each.arm for each in pair[0].decide_many("ads", 5)}
        assert isinstance(made(store)[-1], DecidedAhead)
        if change == "retire_arm":
            break
        pair[1].resume_arm("ads", "a")
        pair[0].decide("ads")
    check_fold(store, *pair)


def test_a_pause_of_the_experiment_and_new_arms_are_noticed(pair, store):
    begin(pair)
    store.between = lambda: pair[1].pause("ads")
    with pytest.raises(NotRunning):
        pair[0].decide("ads")
    pair[1].resume("ads")
    store.between = lambda: pair[1].add_arm("ads", "d")
    pair[0].decide("ads")
    arms = {each.arm for each in pair[0].decide_many("ads", 100)}
    assert arms == {"a", "b", "c", "d"}
    assert isinstance(made(store)[-1], DecidedAhead)
    assert pair[0].decide("ads", eligible=["d"]).arm == "d"
    check_fold(store, *pair)


def test_a_guessed_horizon_doubles_where_the_log_says(pair, store, monkeypatch):
    monkeypatch.setattr("armrace.service.experiment.FIRST_HORIZON", 20)
    begin(pair, horizon=None, policy="ucb1", arms="ab")
    for _ in range(8):
        for service in pair:
            service.decide_many("ads", 7)
    check_fold(store, *pair)
    assert pair[0].describe("ads").generation == 2
    logged = [(record.sequence, decode(record.payload)) for record in store.records]
    decided = [sequence for sequence, event in logged if isinstance(event, Decided)]
    ends = [decided[19], decided[59]]  # of generations of 20 and 40 decisions
    for sequence, event in zip(decided, made(store), strict=True):
        if isinstance(event, DecidedAhead):
            assert not any(event.known < end < sequence for end in ends)
    assert sum(isinstance(event, DecidedAhead) for event in made(store)) > 60


def test_no_more_decisions_are_open_than_allowed(pair, store, clock):
    begin(pair, most_open=10, window=60)
    pair[0].decide_many("ads", 3)
    pair[1].decide_many("ads", 3)
    for service in pair:
        with pytest.raises(TooManyOpen):
            service.decide("ads")
    assert len(made(store)) == 10
    clock.move(60)
    pair[0].decide_many("ads", 10)
    with pytest.raises(TooManyOpen):
        pair[1].decide("ads")  # knows of ten that have closed, and not of ten others yet
    check_fold(store, *pair)


def test_rewards_of_another_servers_decisions(pair, store, clock):
    begin(pair, window=10)
    decision = pair[0].decide("ads")
    assert pair[1].reward(decision, 1.0) == "accepted"
    answers = pair[0].reward_many([(decision, 1.0), (decision, 0.0)])
    assert [each.status for each in answers] == ["duplicate", "conflict"]
    other = pair[0].decide("ads")
    answers = pair[1].reward_many([(other, 0.0), (other, 0.0), (other, 1.0)])
    assert [each.status for each in answers] == ["accepted", "duplicate", "conflict"]
    late = pair[0].decide("ads")
    clock.move(10)
    with pytest.raises(DecisionExpired):
        pair[1].reward(late, 1.0)
    assert pair[1].reward(decision, 1.0) == "duplicate"
    assert pair[0].ledger.turns["relaxed"] > 3
    check_fold(store, *pair)
    assert pair[0].describe("ads").conflicts == 2


@pytest.mark.parametrize(
    ("lag", "records", "seconds", "is_ahead"),
    [
        (Lag(5, 1000), 5, 0, True),
        (Lag(5, 1000), 6, 0, False),
        (Lag(5, 1000), 0, 1.0, True),
        (Lag(5, 1000), 0, 1.001, False),
    ],
)
def test_what_lags_too_far_behind_is_drawn_again(
    pair, store, clock, lag, records, seconds, is_ahead
):
    begin(pair)
    pair[0].decide("ads")
    pair[0].ledger.lag = lag
    known = len(store.records)
    if records:
        pair[1].decide_many("ads", records)
    clock.move(seconds)
    pair[0].decide("ads")
    last = made(store)[-1]
    assert isinstance(last, DecidedAhead) == is_ahead
    if is_ahead:
        assert last.known == known
    check_fold(store, *pair)


def test_a_large_state_is_copied_now_and_then_and_lags_no_further(pair, store, monkeypatch):
    monkeypatch.setattr("armrace.service.relaxed.drafts._BYTES_A_RECORD", 1)
    begin(pair)
    pair[0].decide("ads")  # reads that the other one has been given a stream
    pair[0].decide("ads")
    known = made(store)[-1].known
    for _ in range(4):
        pair[0].decide("ads")
        assert made(store)[-1].known == known
    pair[0].ledger.lag = Lag(10, 1000)
    room = 10 - (len(store.records) - known)
    pair[1].decide_many("ads", room)
    pair[0].decide("ads")
    assert made(store)[-1].known == known
    pair[1].decide("ads")
    pair[0].decide("ads")
    assert not isinstance(made(store)[-1], DecidedAhead)
    pair[0].decide("ads")
    assert made(store)[-1].known == len(store.records) - 1
    check_fold(store, *pair)


def test_decisions_of_one_turn_know_of_each_other(pair, store):
    """ucb1 plays every arm once first."""
    begin(pair, arms="abcdefghij", policy="ucb1")
    pair[0].decide("ads")
    assert len({each.arm for each in pair[0].decide_many("ads", 5)}) == 5
    assert isinstance(made(store)[-1], DecidedAhead)


def test_decisions_of_several_clients_in_one_turn_have_names_of_their_own(pair, store):
    begin(pair)
    pair[0].decide("ads")  # learns that the other server has opened a stream
    ledger = pair[0].ledger
    before = ledger.turns["relaxed"]
    first, second = ledger._take_turn([[Decide("main", "ads")] * 3, [Decide("main", "ads")] * 2])
    assert ledger.turns["relaxed"] == before + 1
    answers = [*first, *second]
    places = [pair[0].keyring.signing_keys().read("main", each.decision) for each in answers]
    decided = {
        record.sequence: decode(record.payload).arm
        for record in store.records
        if isinstance(decode(record.payload), Decided)
    }
    assert ["abc"[decided[place.sequence]] for place in places] == [a.arm for a in answers]
    assert len({place.sequence for place in places}) == 5


def test_an_exact_server_shares_the_log_with_a_relaxed_one(pair, store, clock):
    begin(pair, policy="multi-layer-race", window=2)
    exact = Service(store, pair[0].keyring, clock=clock)
    mix((pair[0], exact), clock, rounds=60)
    check_fold(store, *pair, exact)
    assert exact.ledger.mode == "exact"


def test_rulings_and_snapshots(pair, store, clock):
    begin(pair, window=1)
    for service in pair:
        service.ledger.snapshot_events = 30
    mix(pair, clock, rounds=60)
    assert len(store.kept_snapshots) > 1
    rewarded = [row.decision for row in pair[0].rows("ads") if row.reward is not None]
    assert pair[0].retract("ads", rewarded[:20]).rewards == 20
    mix(pair, clock, rounds=10, seed=2)
    check_fold(store, *pair)


def test_where_one_process_writes_the_mode_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="mode must be exact unless the store is a Postgre"):
        Service(MemoryStore(), mode="relaxed")
    for place in (":memory:", tmp_path / "clicks.db"):
        with pytest.raises(InvalidParameter, match="mode must be exact unless"):
            armrace.open(place, mode="relaxed")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidParameter, match="mode must be one of exact, relaxed; got 'fast'"):
        Service(Shared(), mode="fast")


def test_a_floor_does_not_bring_a_retired_arm_back(pair, store, monkeypatch):
    monkeypatch.setattr("armrace.service.experiment.FIRST_HORIZON", 10)
    begin(pair, horizon=None, floors={"a": 0.5, "b": 0.2})
    pair[0].retire_arm("ads", "a")
    for _ in range(10):
        decided = [each.arm for service in pair for each in service.decide_many("ads", 8)]
        assert "a" not in decided
    assert pair[0].describe("ads").generation > 0
    assert isinstance(made(store)[-1], DecidedAhead)
    check_fold(store, *pair)


def test_the_last_arm_is_drawn_ahead_beyond_a_guessed_horizon(pair, store, monkeypatch):
    monkeypatch.setattr("armrace.service.experiment.FIRST_HORIZON", 10)
    begin(pair, policy="optimistic-log-barrier", arms=("a", "b"), horizon=None)
    pair[0].retire_arm("ads", "b")
    for _ in range(10):
        assert {each.arm for service in pair for each in service.decide_many("ads", 4)} == {"a"}
    assert isinstance(made(store)[-1], DecidedAhead)
    check_fold(store, *pair)


def test_a_log_that_has_lost_its_end_is_noticed(pair, store):
    begin(pair)
    pair[0].decide_many("ads", 5)
    del store.records[-2:]
    with pytest.raises(DamagedFile, match="has lost acknowledged events"):
        pair[0].decide("ads")
