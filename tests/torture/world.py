"""The simulated world: time, network, store, nodes and clients."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from armrace import policies
from armrace.errors import ArmraceError, DamagedFile, Overloaded, StoreFailed
from armrace.policies import RECOMMENDED
from armrace.service import MemoryStore, Service, engine, keyring, loading
from armrace.service.loading import events_of
from armrace.service.log.chain import LogRecord
from armrace.service.model import experiment as experiments
from armrace.service.model.events import verdicts_in
from armrace.service.model.experiment import ExperimentState
from armrace.service.operations import deciding
from armrace.service.operations import experiments as creating
from armrace.service.work import Principal
from armrace_client.operations import Create, Operation
from torture.clients import Administrator, Client, Leaseholder
from torture.scheduler import Scheduler

START = 1_700_000_000_000
WINDOW_SECONDS = 600
ARMS = ["a", "b", "c"]
FIRST_HORIZON = 8
"""The first guess of an unknown horizon, in place of 10,000."""
POLICIES = ["ucb1", RECOMMENDED, RECOMMENDED, "sharp-race"]
CONTEXTUAL = [name for name, policy in policies.POLICIES.items() if policy.takes_contexts]
OF_ARMS = [name for name in CONTEXTUAL if policies.POLICIES[name].takes_arm_features]
ARM_FEATURES = {
    "arm_features": {"price": {"type": "number", "low": 0, "high": 8}},
    "arm_values": {"a": {"price": 1}, "b": {"price": 5}},
    "cross": [("age", "price")],
    "missing_feature": "bucket",
}
FEATURES = {
    "device": {"type": "category", "buckets": 3},
    "age": {"type": "number", "low": 18, "high": 80},
}
LASTING, BRIEF = ["ads", "shop"], "brief"
"""Experiments that stay, and one that is deleted and created again."""
_LONGEST = 100_000_000
_NODES = 2
_CLIENTS, _TIMEOUT = 4, 400
_DAY = 86_400_000


class Answer(NamedTuple):
    """An answer that reached its client."""

    operation: Operation[Any]
    asked: int
    """When the operation was first asked for; it may have been tried several times since."""
    answered: int
    outcome: Any
    """What was returned, or the code of the error."""
    attempt: int
    """The number of the try that it is the answer of: copies of an answer have the same."""
    before: int
    after: int
    """How many transactions the store had kept when the try began, and when it ended."""


class Commit(NamedTuple):
    """What a transaction left behind, also of logs that were deleted since."""

    records: dict[int, list[LogRecord]]
    created: dict[int, str]
    deleted: list[int]


class Kinds:
    """What sort of a world it is, drawn apart: the rest of a run does not depend on it."""

    def __init__(self, rng: Random) -> None:
        self.settings = {name: _settings(rng) for name in [*LASTING, BRIEF]}
        self.shared_clock = rng.random() < 0.5
        """Whether the store has a clock of its own, as a database has."""
        self.skew = rng.choice([0, 20_000]) if not self.shared_clock else _DAY
        """By how many milliseconds the clock of a node may be wrong."""
        self.latency = rng.choice([0, 5, 300])
        """How long a transaction may have to wait."""
        self.part = rng.choice([3, 12, loading.PART])
        self.catch_up = rng.choice([2, engine._CATCH_UP])
        self.snapshot_step = rng.choice([6, 25, 1000])
        self.worth_saving = rng.choice([1, 10, 1000])
        self.most_loaded = rng.choice([1, 2, 1000])
        if rng.random() < 0.25:  # last, so that the others stay as they were
            for settings in self.settings.values():
                settings |= {"policy": rng.choice(CONTEXTUAL), "context": FEATURES}
                settings["leaves"] = {"device": True}
        for settings in self.settings.values():
            settings["holdout"] = rng.choice([0.0, 0.0, 0.25])
            settings["holdout_arm"] = rng.choice([None, "b"]) if settings["holdout"] else None
        for settings in self.settings.values():
            if settings["policy"] in OF_ARMS and rng.random() < 0.5:
                settings.update(ARM_FEATURES)


def _settings(rng: Random) -> dict[str, Any]:
    return {
        "policy": rng.choice(POLICIES),
        "missing": rng.choice([0.0, 0.0, 0.25, "drop"]),
        "horizon": rng.choice([1000, None]),
        "floors": rng.choice([{}, {}, {"a": 0.2}, {"a": 0.1, "c": 0.3}]),
        "settle": rng.choice(["window", "window", "immediate"]),
        "seed": rng.getrandbits(40),
    }


class FaultyStore(MemoryStore):
    """A store that now and then fails or lets a node die, before or after it has kept something."""

    recovers = True
    is_shared = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.trouble = 0.0
        self.commits: list[Commit] = []

    @contextmanager
    def transaction(self, logs: Mapping[int, int] = {}, *, creates: bool = False):
        world, rng = self._world, self._world.rng
        world.wait(rng.randint(0, world.kinds.latency))
        if rng.random() < self.trouble / 2 or world.is_cut_off():
            raise StoreFailed("the store cannot be reached.")
        fate = "kept"
        try:
            world.scheduler.is_locked = True
            with super().transaction(logs, creates=creates) as transaction:
                transaction.time = world.shared_time
                before = {log: (e.records, len(e.records)) for log, e in self._logs.items()}
                live = self._live()
                yield transaction
                commit = self._commit(before, live)
                if any(commit) and rng.random() < self.trouble:
                    fate = rng.choice(["kept, then failed", "failed", "kept, then died", "died"])
                    if "kept" not in fate:
                        raise _NotKept
        except _NotKept:
            pass
        finally:
            world.scheduler.is_locked = False
        if "kept" in fate and any(commit):
            self.commits.append(commit)
        if "died" in fate:
            world.die()
        if "failed" in fate:
            raise StoreFailed("the connection was lost.")

    def _live(self) -> dict[int, str]:
        return {n: each.entry.name for n, each in self._logs.items() if not each.entry.is_deleted}

    def _commit(
        self, before: dict[int, tuple[list[LogRecord], int]], live: dict[int, str]
    ) -> Commit:
        found: dict[int, list[LogRecord]] = {}
        now = self._live()
        for log, each in self._logs.items():
            # A log that is deleted is another object, with its last record alone.
            records, count = before.get(log, (each.records, 0))
            if new := records[count:]:
                found[log] = new
                if new[0].sequence != count + 1 and log in live:
                    self._world.differences.append(f"record {new[0].sequence} is written twice")
        deleted = [log for log in live if log not in now]
        return Commit(found, {n: name for n, name in now.items() if n not in live}, deleted)


class _NotKept(Exception):
    pass


class Call(NamedTuple):
    """An operation that has arrived at a node."""

    operation: Operation[Any]
    answer: Callable[[Any, int, int, int], None]


class Node:
    """A process that serves; when it dies, all that it has not answered is lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lives = 0
        self.skew = 0
        self.cut_off_until = 0
        self.service: Service | None = None
        self.start()

    def start(self) -> None:
        skew = self.world.kinds.skew
        self.skew = self.world.rng.randint(-skew, skew)
        self.service = self.world.make_service(self, self.clock)

    def clock(self) -> int:
        """Return the time as this node sees it."""
        return self.world.now + self.skew

    def die(self) -> None:
        """End at once; start again later."""
        if self.service is not None:
            self.service = None
            self.lives += 1
            self.world.later(self.world.rng.randint(50, 150_000), self.start)
            self.world.scheduler.kill(self)

    def stop(self) -> None:
        """End in good order; start again at once."""
        service, self.service = self.service, None
        if service is not None:
            self.world.scheduler.owner = self
            self.world.scheduler.spawn(lambda: (service.close(), self._end_stopped()))

    def _end_stopped(self) -> None:
        self.lives += 1
        self.start()

    def cut_off(self) -> None:
        """Lose the connection to the store for a while."""
        self.cut_off_until = self.world.now + self.world.rng.randint(100, 60_000)

    def arrive(self, call: Call) -> None:
        """Take a message."""
        service, world, lives = self.service, self.world, self.lives
        if service is None:
            return
        before = len(world.store.commits)

        def deliver(outcome: Any) -> None:
            if self.lives == lives:
                self._answer(call, outcome, before)

        world.scheduler.owner = self
        try:
            service.engine.submit(call.operation, Principal("main"), deliver)
        except ArmraceError as error:
            deliver(error)

    def _answer(self, call: Call, outcome: Any, before: int) -> None:
        if isinstance(outcome, DamagedFile):
            raise outcome
        if isinstance(outcome, (StoreFailed, Overloaded)):
            return  # clients hear nothing certain, and try again
        world, lives = self.world, self.lives
        world.attempts += 1
        attempt, after = world.attempts, len(world.store.commits)
        said = outcome.code if isinstance(outcome, ArmraceError) else outcome

        def deliver() -> None:
            if self.lives == lives:
                call.answer(said, attempt, before, after)

        for _ in range(world.copies()):
            world.later(world.delay(), deliver)


class World:
    """One run."""

    def __init__(self, seed: int, **kinds: Any) -> None:
        self.rng = Random(seed)
        self.kinds = Kinds(Random(-seed - 1))
        vars(self.kinds).update(kinds)
        self.now = START
        self.history: list[Answer] = []
        self.asked: dict[str, int] = {}
        """How many transactions there were when something was first asked for, by its reason."""
        self.differences: list[str] = []
        """Where a state in memory was not the replay of its log, which ends the run."""
        self.attempts = 0
        self.trouble = self.rng.choice([0.0, 0.1, 0.3])
        self.scheduler = Scheduler(self.rng)
        self.scheduler.pass_time = self._pass_time
        self.store = FaultyStore(self)
        self.nodes: list[Node] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def create(self, name: str) -> Create:
        """Return the operation that creates an experiment of this world."""
        more = self.kinds.settings[name]
        watched = {"latency": {"low": 0, "high": 2, "worse": "higher"}}
        return Create(name, ARMS, window=WINDOW_SECONDS, quarantine=0.5, guardrails=watched, **more)

    def visitor(self, name: str, number: int) -> dict[str, Any]:
        """Return the context of a visit of a number, if the experiment takes one."""
        if "context" not in self.kinds.settings[name]:
            return {}
        return {"context": {"device": f"device {number % 5}", "age": number % 90}}

    def arms(self, name: str, number: int) -> dict[str, Any]:
        """Return what a visit of a number says of arms, if the experiment takes that."""
        if number % 3 or "arm_features" not in self.kinds.settings[name]:
            return {}
        return {"arms": {"a": {"price": number % 7}}}

    def make_service(self, owner: object, clock: Callable[[], int]) -> Service:
        """Return a service as a process begins with."""
        self.scheduler.owner = owner
        service = Service(self.store, self.keyring, "main", clock, self.kinds.most_loaded)
        service.engine.snapshot_step = self.kinds.snapshot_step
        return service

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Do something after a number of milliseconds."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, act))

    def wait(self, delay: int) -> None:
        """Let a thread wait."""
        until = self.now + delay
        self.later(delay, lambda: None)
        self.scheduler.wait(lambda: self.now >= until)

    @contextmanager
    def scaled_down(self) -> Iterator[None]:
        """Let what happens in long logs only happen in short ones, and chance be the world's."""
        kinds = self.kinds
        chance = SimpleNamespace(token_bytes=self.rng.randbytes)
        with ExitStack() as stack:
            for module, name, stand_in in (
                (experiments, "FIRST_HORIZON", FIRST_HORIZON),
                (loading, "FIRST_HORIZON", FIRST_HORIZON),
                (loading, "PART", kinds.part),
                (engine, "_CATCH_UP", kinds.catch_up),
                (engine, "_WORTH_SAVING", kinds.worth_saving),
                (deciding, "secrets", chance),
                (creating, "secrets", chance),
                (keyring, "secrets", chance),
            ):
                stack.enter_context(patch.object(module, name, stand_in))
            with self.scheduler.in_place_of_threads(lambda: self.now):
                yield

    def run(self) -> None:
        """Let clients work under faults, then without, until all of them have finished."""
        with self.scaled_down():
            self.keyring = keyring.Keyring()
            self.nodes = [Node(self) for _ in range(_NODES)]
            for name in [*LASTING, BRIEF]:
                self.call(self.create(name), lambda _: None)
            self.until_idle()
            self._begin()
            self.until_idle()

    def _begin(self) -> None:
        rng, later = self.rng, self.later
        self.store.trouble = self.trouble
        for kind in [Client] * _CLIENTS + [Leaseholder]:
            later(rng.randint(0, 60_000), kind(self).visit)
        Administrator(self).begin()
        for _ in range(rng.randint(0, 6)):
            node = rng.choice(self.nodes)
            later(rng.randint(0, 1_400_000), rng.choice([node.die, node.die, node.stop]))
        if self.trouble:
            later(rng.randint(0, 1_400_000), rng.choice(self.nodes).cut_off)
        for _ in range(4):
            later(rng.randint(0, 2_600_000), self._compare_states)
        later(1_800_000, self._heal)

    def until_idle(self) -> None:
        """Let everything happen that is to happen."""
        while not self.differences and (self.scheduler.step() or self._pass_time()):
            pass

    def _pass_time(self) -> bool:
        if not self._queue:
            return False
        time, _, act = heapq.heappop(self._queue)
        self.now = max(self.now, time)
        assert self.now < START + _LONGEST, "the run does not end"
        act()
        return True

    def _compare_states(self) -> None:
        """Find every experiment in memory to be the replay of its log, as far as it has read it."""
        for service in [node.service for node in self.nodes if node.service is not None]:
            for shard in service.engine.loaded:
                live, log = shard.experiment, self.store._logs[shard.log]
                records = log.records[: live.head.sequence]
                if not log.entry.is_deleted:
                    replayed = ExperimentState.replay(
                        events_of(records), None, verdicts_in(records)
                    )
                    assert replayed is not None
                    same = live.save() == replayed.save()
                    where = f"the live state of {live.name} at {live.head.sequence} is another"
                    self.differences += [] if same else [where]

    def _heal(self) -> None:
        self.trouble = self.store.trouble = 0.0

    # --- what the store asks --------------------------------------------------------------

    def shared_time(self) -> int | None:
        """Return the time of the store's own clock, if it has one."""
        return self.now if self.kinds.shared_clock else None

    def is_cut_off(self) -> bool:
        """Whether the node whose thread is running cannot reach the store."""
        node = self.scheduler.running()
        return isinstance(node, Node) and self.now < node.cut_off_until

    def die(self) -> None:
        """Let the node die whose thread is running."""
        node = self.scheduler.running()
        assert isinstance(node, Node)
        node.die()

    # --- messages -------------------------------------------------------------------------

    def call(self, operation: Operation[Any], then: Callable[[Any], None]) -> None:
        """Ask until an answer comes; each try may go to another node."""
        asked, done = self.now, [False]
        self.asked.setdefault(getattr(operation, "reason", ""), len(self.store.commits))

        def attempt() -> None:
            if done[0]:
                return
            node = self.rng.choice(self.nodes)
            message = Call(operation, answer)
            for _ in range(self.copies()):
                self.later(self.delay(), lambda: node.arrive(message))
            self.later(_TIMEOUT + 10 * self.kinds.latency, attempt)

        def answer(outcome: Any, attempt: int, before: int, after: int) -> None:
            said = Answer(operation, asked, self.now, outcome, attempt, before, after)
            self.history.append(said)
            if not done[0]:
                done[0] = True
                then(outcome)

        attempt()

    def copies(self) -> int:
        """Return how often a message arrives."""
        if self.rng.random() < self.trouble:
            return self.rng.choice([0, 2])
        return 1

    def delay(self) -> int:
        """Return how long a message takes."""
        slow = self.rng.random() < 0.1
        return self.rng.randint(1, 2000 if slow else 60)
