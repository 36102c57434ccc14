"""The simulated world: time, network, store, nodes and clients."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from armrace.errors import ArmraceError, StoreFailed
from armrace.policies import RECOMMENDED
from armrace.service import MemoryStore, Service
from armrace.service.keyring import Keyring
from armrace.service.relaxed.books import Lag

__all__ = ["Answer", "World"]

START = 1_700_000_000_000
WINDOW_SECONDS = 600
ARMS = ["a", "b", "c"]
POLICIES = ["ucb1", RECOMMENDED, "sharp-race"]
_LONGEST = 100_000_000
EXACT, RELAXED = ["exact", "exact"], ["relaxed", "relaxed"]
MODES = [EXACT, EXACT, ["exact", "relaxed"], RELAXED]
LAG = Lag(records=20, milliseconds=_LONGEST)
"""Clients pause for minutes, in which few records are added."""
_CLIENTS, _VISITS, _TIMEOUT = 4, 6, 400


class Answer(NamedTuple):
    """An answer that reached its client."""

    kind: str
    arguments: tuple[Any, ...]
    asked: int
    """When the operation was first asked for; it may have been tried several times since."""
    answered: int
    outcome: Any
    """What was returned, or the code of the error."""


class FaultyStore(MemoryStore):
    """A store that now and then fails, before or after it has kept a turn."""

    recovers = True
    relaxes = True

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.trouble = 0.0

    @contextmanager
    def turn(self):
        if self.rng.random() < self.trouble / 2:
            raise StoreFailed("the store cannot be reached.")
        late = False
        with super().turn() as turn:
            before = turn.head
            yield turn
            writes = turn.head != before
            if writes and self.rng.random() < self.trouble:
                late = self.rng.random() < 0.5
                if not late:
                    raise StoreFailed("the turn was not kept.")
        if late:
            raise StoreFailed("the turn was kept, and the connection lost.")


class Node:
    """A process that serves; when it dies, all that it has not answered is lost."""

    def __init__(self, world: World, mode: str) -> None:
        self.world = world
        self.mode = mode
        self.lives = 0
        self.service: Service | None = None
        self.start()

    def start(self) -> None:
        try:
            self.service = self.world.make_service(self.mode)
        except StoreFailed:
            self.world.later(300, self.start)

    def die(self) -> None:
        self.service = None
        self.lives += 1
        self.world.later(self.world.rng.randint(50, 150_000), self.start)


class World:
    """One run.

    Args:
        seed: everything that happens follows from it.
        make_service: makes a node's service; tests of the checker pass broken ones.
        settle: when rewards are learned; by default the seed says.
        policy: the policy; by default the seed says.
        modes: the modes of the nodes; by default the seed says.
    """

    def __init__(
        self,
        seed: int,
        make_service: Callable[..., Service] = Service,
        settle: str | None = None,
        policy: str | None = None,
        modes: list[str] | None = None,
    ) -> None:
        self.rng = Random(seed)
        kinds = Random(-seed - 1)  # apart, so that the rest of a run does not depend on it
        self.settle = settle or kinds.choice(["window", "window", "immediate"])
        self.policy = policy or kinds.choice(POLICIES)
        self.modes = modes or kinds.choice(MODES)
        self.now = START
        self.history: list[Answer] = []
        self.trouble = self.rng.choice([0.0, 0.1, 0.3])
        self.store = FaultyStore(self.rng)
        self.keyring = Keyring()
        self._make_service = make_service
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        first = self.make_service()
        first.create(
            "ads",
            ARMS,
            0,
            policy=self.policy,
            window=WINDOW_SECONDS,
            horizon=1000,
            seed=seed,
            quarantine=0.5,
            settle=self.settle,
        )
        self.nodes = [Node(self, mode) for mode in self.modes]

    def make_service(self, mode: str = "exact") -> Service:
        service = self._make_service(self.store, self.keyring, clock=lambda: self.now, mode=mode)
        service.ledger._snapshot_events = 25
        if mode == "relaxed":
            service.ledger.lag = LAG
        return service

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Do something after a number of milliseconds."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, act))

    def run(self) -> None:
        """Let clients work under faults, then without, until all of them have finished."""
        self.store.trouble = self.trouble
        for _ in range(_CLIENTS):
            self.later(self.rng.randint(0, 60_000), Client(self).visit)
        for _ in range(3):
            self.later(self.rng.randint(100_000, 1_400_000), self.rule)
        for _ in range(self.rng.randint(0, 4)):
            self.later(self.rng.randint(0, 1_400_000), self.rng.choice(self.nodes).die)
        self.later(1_800_000, self.heal)
        while self._queue:
            self.now, _, act = heapq.heappop(self._queue)
            assert self.now < START + _LONGEST, "the run does not end"
            act()

    def heal(self) -> None:
        self.trouble = self.store.trouble = 0.0

    # --- messages -------------------------------------------------------------------------

    def call(self, kind: str, arguments: tuple[Any, ...], then: Callable[[Any], None]) -> None:
        """Ask until an answer comes; each try may go to another node."""
        asked, done = self.now, [False]

        def attempt() -> None:
            if done[0]:
                return
            node = self.rng.choice(self.nodes)
            for _ in range(self._copies()):
                self.later(self._delay(), lambda: self._arrive(node, kind, arguments, answer))
            self.later(_TIMEOUT, attempt)

        def answer(outcome: Any) -> None:
            self.history.append(Answer(kind, arguments, asked, self.now, outcome))
            if not done[0]:
                done[0] = True
                then(outcome)

        attempt()

    def _arrive(
        self, node: Node, kind: str, arguments: tuple[Any, ...], answer: Callable[[Any], None]
    ) -> None:
        if node.service is None:
            return
        lives = node.lives
        try:
            outcome = perform(node.service, kind, arguments)
        except StoreFailed:
            return  # the client hears nothing certain, and tries again
        except ArmraceError as error:
            outcome = error.code
        for _ in range(self._copies()):
            self.later(self._delay(), lambda: answer(outcome) if node.lives == lives else None)

    def _copies(self) -> int:
        if self.rng.random() < self.trouble:
            return self.rng.choice([0, 2])
        return 1

    def _delay(self) -> int:
        slow = self.rng.random() < 0.1
        return self.rng.randint(1, 2000 if slow else 60)

    # --- the administrator ----------------------------------------------------------------

    def rule(self) -> None:
        """Retract or release the rewards of a source."""
        kind = self.rng.choice(["retract", "retract", "release"])
        self.call(kind, (f"source {self.rng.randint(0, 2)}",), lambda outcome: None)


class Client:
    """Decides, and says what came of it: once, twice, late, or with another value."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = _VISITS

    def visit(self) -> None:
        self.left -= 1
        if self.left >= 0:
            request = f"request {self.world.rng.getrandbits(60)}"
            self.world.call("decide", (request,), self.decided)

    def decided(self, decision: Any) -> None:
        if isinstance(decision, str):  # a refusal, which the checker judges
            return
        world, rng = self.world, self.world.rng
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            source = f"source {rng.randint(0, 2)}"
            suspicion = rng.choice([None, None, 0.9])
            arguments = (decision.decision, rng.choice([0.0, 1.0]), source, suspicion)
            delay = rng.choice([50, 200, 300_000, 599_000, 800_000])
            world.later(delay, lambda a=arguments: world.call("reward", a, lambda _: None))
        world.later(rng.randint(100, 300_000), self.visit)


def perform(service: Service, kind: str, arguments: tuple[Any, ...]) -> Any:
    """Perform an operation on a node."""
    if kind == "decide":
        return service.decide("ads", request=arguments[0])
    if kind == "reward":
        return service.reward(*arguments)
    act = service.retract if kind == "retract" else service.release
    return act("ads", source=arguments[0]).rewards
