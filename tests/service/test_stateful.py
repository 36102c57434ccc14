"""Random sequences of requests on every store, against a model of a few lines.

The model knows nothing of logs, learners or windows in order: it keeps what was said of each
decision, and from that works out each answer and the counts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from armrace.errors import ArmraceError
from armrace.service import MemoryStore, Service
from armrace.service.keyring import Keyring
from armrace.service.stores.sqlite import SqliteStore
from serving import Clock, folded_bytes, live_bytes

WINDOW = 10
VALUES = st.sampled_from([0.0, 0.5, 1.0])


class Model:
    """What was said of each decision."""

    def __init__(self):
        self.times, self.rewards, self.counts, self.requests = {}, {}, {}, {}

    def is_open(self, decision, now):
        return now < self.times[decision] + 1000 * WINDOW

    def answer(self, decision, value, now):
        if decision in self.rewards:
            return "duplicate" if self.rewards[decision] == value else "reward-conflict"
        return "accepted" if self.is_open(decision, now) else "decision-expired"


class Requests(RuleBasedStateMachine):
    """Requests in any order, with restarts and a clock that moves."""

    decisions = Bundle("decisions")
    settle = "window"

    def __init__(self):
        super().__init__()
        self.clock, self.model, self.keyring = Clock(), Model(), Keyring()
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

    def start(self):
        self.service = Service(self.store, self.keyring, clock=self.clock)
        self.service.ledger._snapshot_events = 7
        self.seen = self.clock.now
        self.latest = max(self.clock.now, self.service.ledger._state.time)

    def now(self):
        """The time of the service, which passes with the clock and does not go back with it."""
        self.latest += max(0, self.clock.now - self.seen)
        self.seen = self.clock.now
        return self.latest

    @rule(target=decisions, request=st.sampled_from([None, "r1", "r2"]))
    def decide(self, request):
        decision = self.service.decide("ads", request=request)
        known = self.model.requests.get(request)
        if known is not None and self.model.is_open(known, self.now()):
            assert (decision.decision, decision.repeated) == (known, True)
            return known
        assert decision.decision not in self.model.times
        self.model.times[decision.decision] = self.now()
        if request is not None:
            self.model.requests[request] = decision.decision
        return decision.decision

    @rule(decision=decisions, value=VALUES, suspicion=st.sampled_from([None, 0.2, 0.9]))
    def reward(self, decision, value, suspicion):
        expected = self.model.answer(decision, value, self.now())
        try:
            answer = self.service.reward(decision, value, suspicion=suspicion)
        except ArmraceError as error:
            answer = error.code
        assert answer == expected
        if answer == "accepted":
            self.model.rewards[decision] = value
            self.model.counts[decision] = suspicion != 0.9

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

    def reopen(self):
        pass

    @invariant()
    def counts_agree(self):
        view = self.service.describe("ads")
        self.now()
        closed = [each for each in self.model.times if not self.model.is_open(each, self.latest)]
        counted = [each for each in closed if self.model.counts.get(each)]
        assert view.decisions == len(self.model.times)
        assert view.open == len(self.model.times) - len(closed)
        assert sum(arm.rewarded for arm in view.arms) == len(counted)
        total = sum(arm.mean * arm.rewarded for arm in view.arms if arm.rewarded)
        assert total == pytest.approx(sum(self.model.rewards[each] for each in counted))
        if self.settle == "window":  # what is missing counts as 0
            assert sum(layer.pulls for layer in view.layers) == len(closed)

    def teardown(self):
        assert folded_bytes(self.store) == live_bytes(self.service)
        assert folded_bytes(self.store, snapshots=False) == live_bytes(self.service)
        self.service.close()


class ImmediateRequests(Requests):
    settle = "immediate"


class SqliteRequests(Requests):
    def open_store(self):
        self.folder = tempfile.TemporaryDirectory()
        self.reopen()

    def reopen(self):
        self.store = SqliteStore(Path(self.folder.name) / "log.db")

    def teardown(self):
        super().teardown()
        self.folder.cleanup()


BUDGET = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMemory = Requests.TestCase
TestMemory.settings = BUDGET
TestImmediate = ImmediateRequests.TestCase
TestImmediate.settings = BUDGET
TestSqlite = SqliteRequests.TestCase
TestSqlite.settings = settings(BUDGET, max_examples=10)
