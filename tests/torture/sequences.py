"""Random sequences of requests on every store, against a model of a few lines.

The model knows nothing of logs, learners or windows in order: it keeps what was said of each
decision, and from that works out each answer and the counts.

``python -m torture.sequences --examples 10000`` is the campaign.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from armrace.errors import ArmraceError, NotRunning
from armrace.service import MemoryStore, Service, log_time
from armrace.service.keyring import Keyring
from armrace.service.stores.sqlite import SqliteStore
from databases import Postgres
from serving import Clock, folded_bytes, live_bytes
from torture.campaign import MEMORY, Campaign

__all__ = ["BUDGET", "DATABASES", "FILES", "on_database"]

WINDOW = 10
VALUES = st.sampled_from([0.0, 0.5, 1.0])
SUSPICIONS = st.sampled_from([None, 0.2, 0.9])
REQUESTS, UNITS = st.sampled_from([None, "r1", "r2"]), st.sampled_from([None, None, "u1", "u2"])


class Model:
    """What was said of each decision."""

    def __init__(self):
        self.times, self.rewards, self.counts = {}, {}, {}
        self.requests, self.units = {}, {}
        self.conflicts = 0
        self.paused = False

    def is_open(self, decision, now):
        return decision is not None and now < self.times[decision] + 1000 * WINDOW

    def known(self, request, unit, now):
        for index, key in ((self.requests, request), (self.units, unit)):
            if key is not None and self.is_open(index.get(key), now):
                return index[key]
        return None

    def make(self, decision, request, unit, now):
        assert decision not in self.times
        self.times[decision] = now
        self.requests[request] = self.units[unit] = decision

    def reward(self, decision, value, suspicion, now):
        """Return the answer of a reward, and remember it."""
        if decision in self.rewards:
            if self.rewards[decision] == value:
                return "duplicate"
            self.conflicts += 1
            return "reward-conflict"
        if not self.is_open(decision, now):
            return "decision-expired"
        self.rewards[decision] = value
        self.counts[decision] = suspicion != 0.9
        return "accepted"


class Requests(RuleBasedStateMachine):
    """Requests in any order, with restarts and a clock that moves."""

    decisions = Bundle("decisions")
    settle = "window"

    def __init__(self):
        super().__init__()
        self.clock, self.model, self.keyring = Clock(), Model(), Keyring()
        self.monotonic = patch.object(log_time, "monotonic_ns", lambda: 10**6 * self.clock.now)
        self.monotonic.start()
        self.open_store()
        self.start()
        self.service.create(
            "ads",
            ["a", "b", "c"],
            0,
            policy="ucb1",
            window=WINDOW,
            horizon=1000,
            seed=1,
            quarantine=0.5,
            settle=self.settle,
        )

    def open_store(self):
        self.store = MemoryStore()
        self.store.is_shared = True

    def reopen(self):
        pass

    def start(self):
        self.service = Service(self.store, self.keyring, clock=self.clock)
        self.seen = self.clock.now
        self.latest = max(self.clock.now, self.service.ledger._state.time)
        self.service.ledger.snapshot_events = 7

    def now(self):
        """Return the service's time, which passes with the clock and does not go back with it."""
        self.latest += max(0, self.clock.now - self.seen)
        self.seen = self.clock.now
        return self.latest

    @rule(target=decisions, request=REQUESTS, unit=UNITS)
    def decide(self, request, unit):
        now = self.now()
        known = self.model.known(request, unit, now)
        if self.model.paused and known is None:
            with pytest.raises(NotRunning):
                self.service.decide("ads", request=request, unit=unit)
            return multiple()
        decision = self.service.decide("ads", request=request, unit=unit)
        assert decision.repeated == (known is not None)
        if known is None:
            self.model.make(decision.decision, request, unit, now)
        else:
            assert decision.decision == known
        return decision.decision

    @rule(decision=decisions, value=VALUES, suspicion=SUSPICIONS)
    def reward(self, decision, value, suspicion):
        self.reward_some([(decision, value)], suspicion)

    @rule(rewards=st.lists(st.tuples(decisions, VALUES), max_size=4), suspicion=SUSPICIONS)
    def reward_some(self, rewards, suspicion):
        """Reward in one turn."""
        now = self.now()
        asked = [self.service._reward(*each, None, suspicion) for each in rewards]
        answers = self.service.ledger.submit(asked)
        for (decision, value), answer in zip(rewards, answers, strict=True):
            said = answer.code if isinstance(answer, ArmraceError) else answer
            assert said == self.model.reward(decision, value, suspicion, now)

    @rule(chosen=st.lists(decisions, min_size=1, max_size=3), counts=st.booleans())
    def rule_about(self, chosen, counts):
        act = self.service.release if counts else self.service.retract
        changed = {
            each
            for each in chosen
            if each in self.model.rewards and self.model.counts[each] != counts
        }
        self.now()
        assert act("ads", chosen).rewards == len(changed)
        self.model.counts.update(dict.fromkeys(changed, counts))

    @rule(paused=st.booleans())
    def change_phase(self, paused):
        self.now()
        act = self.service.pause if paused else self.service.resume
        act("ads")
        self.model.paused = paused

    @rule(seconds=st.sampled_from([0.001, 3, 9.999, 25, -100]))
    def move_clock(self, seconds):
        self.clock.move(seconds)

    @rule(clean=st.booleans())
    def restart(self, clean):
        if clean:
            self.service.close()
            self.reopen()
        else:
            self.service.ledger._state = None
        self.start()

    @invariant()
    def counts_agree(self):
        now, model = self.now(), self.model
        view = self.service.describe("ads")
        closed = [each for each in model.times if not model.is_open(each, now)]
        counted = [each for each in closed if model.counts.get(each)]
        assert view.decisions == len(model.times)
        assert view.open == len(model.times) - len(closed)
        assert view.conflicts == model.conflicts
        assert sum(arm.rewarded for arm in view.arms) == len(counted)
        total = sum(arm.mean * arm.closed for arm in view.arms if arm.closed)
        assert total == pytest.approx(sum(model.rewards[each] for each in counted))
        if self.settle == "window":  # what is missing counts as 0
            assert sum(layer.pulls for layer in view.layers) == len(closed)

    def teardown(self):
        try:
            assert folded_bytes(self.store) == live_bytes(self.service)
            assert folded_bytes(self.store, snapshots=False) == live_bytes(self.service)
            self.service.close()
        finally:
            self.monotonic.stop()


class SqliteRequests(Requests):
    """In a file."""

    def open_store(self):
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        self.reopen()

    def reopen(self):
        self.store = SqliteStore(Path(self.folder) / "log.db")

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


class PostgresRequests(Requests):
    """In a schema of a database, whose clock is the test's."""

    place = ""
    numbers = itertools.count()

    def open_store(self):
        self.schema = f"sequence{next(self.numbers)}"
        self.reopen()

    def reopen(self):
        from armrace.service.stores.postgres import PostgresStore

        clock = self.clock

        class Store(PostgresStore):
            @contextmanager
            def turn(self):
                with super().turn() as turn:
                    turn.time = clock
                    yield turn

        self.store = Store(self.place, self.schema)

    def teardown(self):
        super().teardown()
        _drop(self.place, self.schema)


def _drop(place: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[call-overload]


def _kinds(base: type[Requests]) -> list[type[Requests]]:
    return [
        type(f"{base.__name__}_{settle}", (base,), {"settle": settle})
        for settle in ("window", "immediate")
    ]


FILES = [*_kinds(Requests), *_kinds(SqliteRequests)]
DATABASES = _kinds(PostgresRequests)

BUDGET = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def on_database(machine: type[Requests], place: str) -> type[Requests]:
    """Return requests to the database of this address."""
    return type(machine.__name__, (machine,), {"place": place, "numbers": itertools.count()})


@contextmanager
def _database() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="armrace-pg-", dir=MEMORY) as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server.place
        finally:
            server.stop()


_TOGETHER = 100


def _run(numbers: range) -> Counter[str]:
    """Try sequences of one kind; which one, the number says."""
    kinds = [*FILES, *DATABASES]
    machine: Any = kinds[numbers.start // _TOGETHER % len(kinds)]
    budget = settings(BUDGET, max_examples=len(numbers), derandomize=False, database=None)
    if machine in DATABASES:
        with _database() as place:
            tried = seed(numbers.start)(on_database(machine, place))
            run_state_machine_as_test(tried, settings=budget)
    else:
        run_state_machine_as_test(seed(numbers.start)(machine), settings=budget)
    return Counter({machine.__name__: len(numbers)})


def main() -> None:
    """Run a campaign and print its figures."""
    campaign = Campaign("torture.sequences", "examples", 1000, "Compare with a model.")
    campaign.read_arguments()
    found = campaign.carry_out(_run, _TOGETHER)
    for kind, tried in found.items():
        print(f"{kind}: {tried} sequences of up to {BUDGET.stateful_step_count} requests agree.")


if __name__ == "__main__":
    main()
