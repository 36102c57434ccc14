"""Threads of the service that take turns, in an order that follows from a seed.

The service's own code runs unchanged. What it takes for threads are greenlets: one runs until it
waits for something, then a random one goes on that need not wait. So a run replays, whatever the
number of threads, and a process can be killed wherever one of its threads waits.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from greenlet import GreenletExit, getcurrent, greenlet

from armrace.service import engine, work
from armrace.service.log import store
from armrace.service.model import history

Condition = Callable[[], bool]
_MOST_STEPS = 500_000


class _Task(greenlet):
    """A thread of a process."""

    def __init__(self, work: Callable[[], Any], owner: object, main: greenlet) -> None:
        super().__init__(work, main)
        self.owner = owner
        self.can_go: Condition = lambda: True
        self.is_killed = False


class Scheduler:
    """Tasks, of which one runs at a time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.owner: object = None
        """The process that threads belong to which are started by none."""
        self.is_locked = False
        """Whether a transaction is under way, in which nobody may wait."""
        self.pass_time: Condition = lambda: False
        """Lets the next thing happen for which everybody waits; returns whether there is one."""
        self.steps = 0
        self._main = getcurrent()
        self._tasks: list[_Task] = []

    def spawn(self, work: Callable[[], Any]) -> _Task:
        """Start a thread of the process that is running."""
        task = _Task(work, self.running(), self._main)
        self._tasks.append(task)
        return task

    def running(self) -> object:
        """Return the process whose thread is running."""
        return getattr(getcurrent(), "owner", self.owner)

    def step(self) -> bool:
        """Let a thread go on until it waits; return whether there was one."""
        able = [task for task in self._tasks if task.can_go()]
        if able:
            self.steps += 1
            assert self.steps < _MOST_STEPS, "threads go round in circles"
            self._resume(self.rng.choice(able))
        return bool(able)

    def _resume(self, task: _Task, *error: Any) -> None:
        (task.throw if error else task.switch)(*error)
        if task.dead and task in self._tasks:
            self._tasks.remove(task)

    def wait(self, can_go: Condition) -> None:
        """Let others run, at least until a condition holds."""
        assert not self.is_locked, "a thread waits within a transaction"
        task = getcurrent()
        if not isinstance(task, _Task):  # whoever runs the world
            while not can_go():
                assert self.step() or self.pass_time(), "everybody waits"
            return
        if task.is_killed:
            raise GreenletExit
        task.can_go = can_go
        self._main.switch()

    def kill(self, owner: object) -> None:
        """End all threads of a process at once."""
        mine = [task for task in self._tasks if task.owner is owner]
        for task in mine:
            task.is_killed = True
        for task in mine:
            if task is not getcurrent():
                self._tasks.remove(task)
                if task:  # it has begun
                    task.parent = getcurrent()
                    self._resume(task, GreenletExit)
        if getcurrent() in mine:
            self._tasks.remove(getcurrent())
            raise GreenletExit

    @contextmanager
    def in_place_of_threads(self, now: Callable[[], int]) -> Iterator[None]:
        """Let the service take these tasks for threads, and the world's time for the system's."""
        threads = SimpleNamespace(
            Thread=lambda target, **_: _Thread(self, target),
            Lock=lambda: _Lock(self),
            Condition=lambda: _Lock(self),
        )
        clock = SimpleNamespace(thread_time=lambda: now() / 1000 + self.rng.random() / 500)
        with ExitStack() as stack:
            for module, name, stand_in in (
                (engine, "threading", threads),
                (engine, "time", clock),
                (engine, "Future", lambda: _Future(self)),
                (engine, "ThreadPoolExecutor", lambda *_: _Pool(self)),
                (engine, "run_long", self.spawn),
                (engine, "run_soon", self.spawn),
                (engine, "run_in_background", _run_now),
                (history, "run_in_background", _run_now),
                (engine, "in_transaction", self._read),
                (work, "monotonic_ns", lambda: 1_000_000 * now()),
            ):
                stack.enter_context(patch.object(module, name, stand_in))
            yield

    def _read(self, *what: Any) -> Any:
        """Let others run before something is read beside the engine."""
        self.wait(lambda: True)
        return store.in_transaction(*what)


class _Thread:
    def __init__(self, scheduler: Scheduler, target: Callable[[], Any]) -> None:
        self._scheduler, self._target = scheduler, target

    def start(self) -> None:
        self._task = self._scheduler.spawn(self._target)

    def join(self) -> None:
        self._scheduler.wait(lambda: self._task.dead)


class _Lock:
    """A lock or a condition; whoever waits for a condition gives up its lock."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._is_held = scheduler, False

    def __enter__(self) -> None:
        if self._is_held:
            self._scheduler.wait(lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        self._is_held = False

    def wait_for(self, condition: Condition) -> None:
        self._is_held = False
        self._scheduler.wait(lambda: not self._is_held and condition())
        self._is_held = True

    def notify(self) -> None:
        pass


class _Future:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._outcome: list[Any] = []
        self._error: BaseException | None = None

    def done(self) -> bool:
        return bool(self._outcome)

    def set_result(self, outcome: Any) -> None:
        self._outcome.append(outcome)

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._outcome.append(None)

    def result(self) -> Any:
        if not self._outcome:
            self._scheduler.wait(self.done)
        if self._error is not None:
            raise self._error
        return self._outcome[0]


class _Pool:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._is_open = scheduler, True
        self._tasks: list[_Task] = []

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        if not self._is_open:
            raise RuntimeError("the pool is closed")
        self._tasks.append(self._scheduler.spawn(lambda: self._is_open and work(*arguments)))

    def shutdown(self, **_: Any) -> None:
        self._is_open = False
        self._scheduler.wait(lambda: not any(self._tasks))  # those that have begun


def _run_now(work: Callable[[], Any]) -> Any:
    found = work()
    return SimpleNamespace(result=lambda: found, done=lambda: True)
