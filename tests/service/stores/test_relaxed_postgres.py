"""Servers of the relaxed mode on a real database: at once, in conflict, and killed."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading

import pytest

from armrace.errors import NotRunning, StoreFailed
from armrace.service import Service
from armrace.service.events import Decided, DecidedAhead, Rewarded, decode
from armrace.service.relaxed.books import Lag
from armrace.service.stores.postgres import PostgresStore
from serving import folded_bytes, live_bytes

SLOW = Lag(records=1000, milliseconds=10**6)
"""However busy the machine is, it must not be too slow for relaxed draws."""
_numbers = itertools.count()


@pytest.fixture
def schema():
    return f"relaxed{next(_numbers)}"


@pytest.fixture
def pair(postgres, schema):
    """Two relaxed servers on one database, with an experiment."""
    one = Service(PostgresStore(postgres.place, schema), mode="relaxed")
    other = Service(PostgresStore(postgres.place, schema), one.keyring, mode="relaxed")
    one.create("ads", ["a", "b", "c"], 0, policy="tsallis-inf", horizon=10_000, seed=1)
    one.ledger.lag = other.ledger.lag = SLOW
    for service in (one, other) * 2:  # so that both have a random stream
        service.decide("ads")
    yield one, other
    one.close()
    other.close()


def events(service: Service) -> list:
    with service.ledger.store.turn() as turn:
        return [(record.sequence, decode(record.payload)) for record in turn.read()]


def check_fold(*services: Service) -> None:
    for service in services:
        service.names()
    folded = folded_bytes(services[0].ledger.store, snapshots=False)
    assert {live_bytes(service) for service in services} == {folded}


def test_no_decision_is_lost_or_doubled_when_both_are_busy(pair):
    answers: list = []
    before = pair[0].describe("ads").decisions

    def work(service, thread):
        for number in range(12):
            made = service.decide_many("ads", 4)
            # Both servers and all threads ask with the same names.
            made.append(service.decide("ads", request=f"request {number}"))
            made.append(service.decide("ads", unit=f"unit {number}"))
            answers.extend(made)
            statuses = [each.status for each in service.reward_many([(d, 1.0) for d in made])]
            assert set(statuses) <= {"accepted", "duplicate"}

    threads = [
        threading.Thread(target=work, args=(service, number))
        for number, service in enumerate(pair * 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 * 12 * 6
    distinct = {answer.decision: answer.arm for answer in answers}
    assert len(distinct) == 4 * 12 * 4 + 2 * 12  # same names are same decisions
    assert pair[0].describe("ads").decisions == before + len(distinct)
    check_fold(*pair)
    logged = events(pair[0])
    decided = [(sequence, event) for sequence, event in logged if isinstance(event, Decided)]
    ahead = [(sequence, event) for sequence, event in decided if isinstance(event, DecidedAhead)]
    assert len(ahead) > len(decided) / 2
    assert len({(each.stream, each.stream_taken) for _, each in ahead}) == len(ahead)
    assert {each.stream for _, each in ahead} == {1, 2}
    turn = 4 * 6  # the most that a turn of ours appends before a decision of its own
    assert all(0 < sequence - each.known <= 1000 + turn for sequence, each in ahead)
    assert sum(isinstance(event, Rewarded) for _, event in logged) == len(distinct)
    assert sum(service.ledger.turns["relaxed"] for service in pair) > 20


def test_names_and_changes_of_another_server_count(pair):
    one, other = pair
    for names in ({"request": "r"}, {"unit": "u"}):
        first = one.decide("ads", **names)
        again = other.decide("ads", **names)
        assert (again.decision, again.arm, again.repeated) == (first.decision, first.arm, True)
    other.decide("ads")
    one.pause_arm("ads", "a")
    assert "a" not in {each.arm for each in other.decide_many("ads", 12)}
    assert "a" not in {each.arm for each in other.decide_many("ads", 12)}
    assert isinstance(events(one)[-1][1], DecidedAhead)
    one.pause("ads")
    with pytest.raises(NotRunning):
        other.decide("ads")
    one.resume("ads")
    assert other.decide("ads").arm != "a"
    check_fold(*pair)


WRITER = """
import sys
from armrace.service import Service
from armrace.service.stores.postgres import PostgresStore
from armrace.service.relaxed.books import Lag
service = Service(PostgresStore(sys.argv[1], sys.argv[2]), mode="relaxed")
service.ledger.lag = Lag(records=1000, milliseconds=10**6)
while True:
    for decision in service.decide_many("ads", 3):
        print(decision.arm, flush=True)
"""


def test_a_server_that_is_killed_loses_nothing_acknowledged(pair, postgres, schema):
    """It dies while the other one works, and its successor has a random stream of its own."""
    before = pair[0].describe("ads").decisions
    script = [sys.executable, "-c", WRITER, postgres.place, schema]
    whole, made = [], 0
    for _ in range(2):
        node = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
        lines = []
        for _ in range(15):
            lines.append(node.stdout.readline())
            made += len(pair[0].decide_many("ads", 2))
        node.kill()
        lines += node.communicate()[0].splitlines(keepends=True)
        whole += [line for line in lines if line.endswith("\n")]
    assert pair[1].describe("ads").decisions >= before + made + len(whole)
    assert len(whole) >= 30
    check_fold(*pair)
    numbers = [
        (event.stream, event.stream_taken)
        for _, event in events(pair[0])
        if isinstance(event, DecidedAhead)
    ]
    assert {1, 3, 4} <= {stream for stream, _ in numbers}
    assert len(set(numbers)) == len(numbers)


def test_a_database_that_comes_back_is_used_again(pair, postgres):
    decision = pair[0].decide("ads", request="r")
    postgres.stop()
    try:
        with pytest.raises(StoreFailed, match="the database cannot be used"):
            pair[0].decide("ads")
    finally:
        postgres.start()
    with pytest.raises(StoreFailed):
        pair[1].names()  # its connection is gone, and the next turn makes another
    assert pair[0].decide("ads", request="r").decision == decision.decision
    for _ in range(3):
        pair[0].decide("ads")
    assert events(pair[0])[-1][1].stream == 3  # what became of the others is not known
    check_fold(*pair)
