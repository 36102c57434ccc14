"""The simulated world: time, network, store, nodes and clients."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from armrace.errors import ArmraceError, DamagedFile, StoreFailed
from armrace.policies import RECOMMENDED
from armrace.service import (
    MemoryStore,
    Service,
    bulk,
    experiment,
    log_time,
    rulings_aside,
)
from armrace.service.keyring import Keyring
from armrace.service.ledger import Ledger, _Job
from torture.clients import Administrator, Client

__all__ = ["Answer", "World"]

START = 1_700_000_000_000
WINDOW_SECONDS = 600
ARMS = ["a", "b", "c"]
FIRST_HORIZON = 8
"""The first guess of an unknown horizon, in place of 10,000."""
POLICIES = ["ucb1", RECOMMENDED, "sharp-race"]
_LONGEST = 100_000_000
_NODES = 2
_CLIENTS, _TIMEOUT = 4, 400
_DAY = 86_400_000


class Answer(NamedTuple):
    """An answer that reached its client."""

    kind: str
    arguments: tuple[Any, ...]
    asked: int
    """When the operation was first asked for; it may have been tried several times since."""
    answered: int
    outcome: Any
    """What was returned, or the code of the error."""
    attempt: int
    """The number of the try that it is the answer of: copies of an answer have the same."""
    before: int
    after: int
    """How many records the log had before the try and after it, with those of others that were
    performed in the same turn."""


class Kinds:
    """What sort of a world it is, drawn apart: the rest of a run does not depend on it.

    Args:
        rng: the choices follow from it.
    """

    def __init__(self, rng: Random) -> None:
        self.settle = rng.choice(["window", "window", "immediate"])
        self.policy = rng.choice(POLICIES)
        self.missing = rng.choice([0.0, 0.0, 0.25, "drop"])
        self.horizon = rng.choice([1000, None])
        self.floors = rng.choice([{}, {}, {"a": 0.2}, {"a": 0.1, "c": 0.3}])
        self.shared_clock = rng.random() < 0.5
        """Whether the store has a clock of its own, as a database has."""
        self.skew = rng.choice([0, 20_000]) if not self.shared_clock else _DAY
        """By how many milliseconds the clock of a node may be wrong."""
        self.gathering = rng.choice([0, 30, 500])
        """For how long a node gathers requests for one turn."""
        self.part = rng.choice([3, 12, rulings_aside.PART])
        self.long = rng.choice([8, bulk._LEAST])
        self.snapshot_events = rng.choice([6, 25])


class FaultyStore(MemoryStore):
    """A store that now and then fails, before or after it has kept a turn."""

    recovers = True
    is_shared = True

    def __init__(self, rng: Random, clock: Callable[[], int | None]) -> None:
        super().__init__()
        self.rng = rng
        self.clock = clock
        self.trouble = 0.0

    @contextmanager
    def turn(self):
        if self.rng.random() < self.trouble / 2:
            raise StoreFailed("the store cannot be reached.")
        late = False
        with super().turn() as turn:
            turn.time = self.clock
            before = turn.head
            yield turn
            writes = turn.head != before
            if writes and self.rng.random() < self.trouble:
                late = self.rng.random() < 0.5
                if not late:
                    raise StoreFailed("the turn was not kept.")
        if late:
            raise StoreFailed("the turn was kept, and the connection lost.")


class Call(NamedTuple):
    """An operation that has arrived at a node."""

    kind: str
    arguments: tuple[Any, ...]
    answer: Callable[[Any, int, int, int], None]


class Node:
    """A process that serves; when it dies, all that it has not answered is lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lives = 0
        self.skew = 0
        self.service: Service | None = None
        self._inbox: list[Call] = []
        self.start()

    def start(self) -> None:
        skew = self.world.kinds.skew
        self.skew = self.world.rng.randint(-skew, skew)
        try:
            self.service = self.world.make_service(self.clock)
        except StoreFailed:
            self.world.later(300, self.start)

    def clock(self) -> int:
        """Return the time as this node sees it."""
        return self.world.now + self.skew

    def die(self) -> None:
        self.service = None
        self._inbox = []
        self.lives += 1
        self.world.later(self.world.rng.randint(50, 150_000), self.start)

    def arrive(self, call: Call) -> None:
        """Take a message; those that come soon after it share its turn."""
        if self.service is not None:
            self._inbox.append(call)
            if len(self._inbox) == 1:
                self.world.later(self.world.kinds.gathering, self._take_turn)

    def _take_turn(self) -> None:
        calls, self._inbox = self._inbox, []
        plain = [call for call in calls if call.kind in ("decide", "reward")]
        others = [call for call in calls if call not in plain]
        for part in ([plain] if plain else []) + [[call] for call in others]:
            self._perform(part)

    def _perform(self, calls: list[Call]) -> None:
        service, world, lives = self.service, self.world, self.lives
        if service is None:  # has died meanwhile
            return
        before = len(world.store.records)
        try:
            if calls[0].kind in ("decide", "reward"):
                outcomes = _submit(service.ledger, [_request(service, call) for call in calls])
            else:
                outcomes = [world.perform(service, calls[0].kind, calls[0].arguments)]
        except StoreFailed:
            return  # clients hear nothing certain, and try again
        except DamagedFile:
            raise
        except ArmraceError as error:
            outcomes = [error]
        after = len(world.store.records)
        if self.lives == lives:  # else it has died between turns
            for call, outcome in zip(calls, outcomes, strict=True):
                self._answer(call, outcome, before, after)

    def _answer(self, call: Call, outcome: Any, before: int, after: int) -> None:
        world, lives = self.world, self.lives
        world.attempts += 1
        attempt = world.attempts
        said = outcome.code if isinstance(outcome, ArmraceError) else outcome

        def deliver() -> None:
            if self.lives == lives:
                call.answer(said, attempt, before, after)

        for _ in range(world.copies()):
            world.later(world.delay(), deliver)


def _submit(ledger: Ledger, requests: list[Any]) -> list[Any]:
    """Submit each request as a client of its own; the last one leads the turn for all."""
    others = [_Job([request]) for request in requests[:-1]]
    ledger._waiting.extend(others)
    (last,) = ledger.submit(requests[-1:])
    return [*(job.outcomes[0] for job in others), last]


def _request(service: Service, call: Call) -> Any:
    """Return a decision or a reward as the ledger performs it."""
    if call.kind == "decide":
        request, unit = call.arguments
        return service._decide("ads", unit=unit, request=request)
    return service._reward(*call.arguments)


class World:
    """One run.

    Args:
        seed: everything that happens follows from it.
        make_service: makes a node's service; tests of the checker pass broken ones.
        kinds: what sort of a world it is; by default the seed says.
    """

    def __init__(self, seed: int, make_service: Callable[..., Service] = Service, **kinds: Any):
        self.rng = Random(seed)
        self.kinds = Kinds(Random(-seed - 1))
        vars(self.kinds).update(kinds)
        self.seed = seed
        self.now = START
        self.history: list[Answer] = []
        self.attempts = 0
        self.trouble = self.rng.choice([0.0, 0.1, 0.3])
        self.store = FaultyStore(self.rng, lambda: self.now if self.kinds.shared_clock else None)
        self.keyring = Keyring()
        self.nodes: list[Node] = []
        self._make_service = make_service
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._is_ruling = False

    def _create(self) -> None:
        kinds = self.kinds
        self.make_service(lambda: self.now).create(
            "ads",
            ARMS,
            kinds.missing,
            policy=kinds.policy,
            window=WINDOW_SECONDS,
            horizon=kinds.horizon,
            seed=self.seed,
            quarantine=0.5,
            floors=kinds.floors,
            settle=kinds.settle,
        )
        self.nodes = [Node(self) for _ in range(_NODES)]

    def make_service(self, clock: Callable[[], int]) -> Service:
        """Return a service as a process begins with."""
        service = self._make_service(self.store, self.keyring, clock=clock)
        service.ledger.snapshot_events = self.kinds.snapshot_events
        return service

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Do something after a number of milliseconds."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, act))

    @contextmanager
    def scaled_down(self) -> Iterator[None]:
        """Let what happens in long logs only happen in short ones, and time be the world's."""
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(patch.object(experiment, "FIRST_HORIZON", FIRST_HORIZON))
            enter(patch.object(rulings_aside, "PART", self.kinds.part))
            enter(patch.object(bulk, "_LEAST", self.kinds.long))
            enter(patch.object(log_time, "monotonic_ns", lambda: 1_000_000 * self.now))
            yield

    def run(self) -> None:
        """Let clients work under faults, then without, until all of them have finished."""
        with self.scaled_down():
            self._create()
            self._run()

    def _run(self) -> None:
        rng = self.rng
        self.store.trouble = self.trouble
        for _ in range(_CLIENTS):
            self.later(rng.randint(0, 60_000), Client(self).visit)
        Administrator(self).begin()
        for _ in range(rng.randint(0, 4)):
            self.later(rng.randint(0, 1_400_000), rng.choice(self.nodes).die)
        self.later(1_800_000, self._heal)
        while self._queue:
            self._step()

    def _step(self) -> None:
        time, _, act = heapq.heappop(self._queue)
        self.now = max(self.now, time)
        assert self.now < START + _LONGEST, "the run does not end"
        act()

    def _heal(self) -> None:
        self.trouble = self.store.trouble = 0.0

    # --- messages -------------------------------------------------------------------------

    def call(self, kind: str, arguments: tuple[Any, ...], then: Callable[[Any], None]) -> None:
        """Ask until an answer comes; each try may go to another node."""
        asked, done = self.now, [False]

        def attempt() -> None:
            if done[0]:
                return
            node = self.rng.choice(self.nodes)
            message = Call(kind, arguments, answer)
            for _ in range(self.copies()):
                self.later(self.delay(), lambda: node.arrive(message))
            self.later(_TIMEOUT + 2 * self.kinds.gathering, attempt)

        def answer(outcome: Any, attempt: int, before: int, after: int) -> None:
            said = Answer(kind, arguments, asked, self.now, outcome, attempt, before, after)
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

    # --- what is performed alone ----------------------------------------------------------

    def perform(self, service: Service, kind: str, arguments: tuple[Any, ...]) -> Any:
        """Perform an operation on a node."""
        if kind not in ("retract", "release", "preview"):
            return getattr(service, kind)("ads", *arguments)
        source, reason = arguments
        act = service.release if kind == "release" else service.retract
        with self._others_between(service.ledger):
            return act("ads", source=source, reason=reason, preview=kind == "preview").rewards

    @contextmanager
    def _others_between(self, ledger: Ledger) -> Iterator[None]:
        """Let others be served between the turns of a ruling."""
        if self._is_ruling:
            yield
            return
        begun = False

        def submit(requests: Any) -> Any:
            nonlocal begun
            if begun:
                del ledger.submit
                self._serve_others()
                ledger.submit = submit  # type: ignore[method-assign]
            begun = True
            return Ledger.submit(ledger, requests)

        self._is_ruling, ledger.submit = True, submit  # type: ignore[method-assign]
        try:
            yield
        finally:
            del ledger.submit
            self._is_ruling = False

    def _serve_others(self) -> None:
        for _ in range(self.rng.randint(0, 3)):
            if self._queue and self._queue[0][0] < self.now + 5000:
                self._step()
