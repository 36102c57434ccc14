"""Compilation ahead of use, so that no request waits for a compiler."""

from __future__ import annotations

import threading
from collections import deque

import msgspec

from armrace.online import Learner
from armrace.online.compilation import compile_learner, compile_reader
from armrace.service.settings import FIRST_HORIZON, Settings

__all__ = ["Warmer", "is_warm", "warm", "warm_ahead", "warm_for_serving"]

_warm: set[bytes] = set()
"""The policies for which this process has compiled or loaded everything."""


def is_warm(settings: Settings) -> bool:
    """Return whether :func:`warm_for_serving` has been called for this policy in this process."""
    return _key(settings) in _warm


def _key(settings: Settings) -> bytes:
    return msgspec.json.encode(settings.policy, order="deterministic")


def warm_for_serving(settings: Settings) -> None:
    """As :func:`warm`, and what reads and folds a long log: rulings, and other servers' events.

    Args:
        settings: the settings of an experiment.
    """
    compile_reader()
    warm(settings, replays=True)
    _warm.add(_key(settings))


def warm(settings: Settings, replays: bool = False) -> None:
    """Compile, or load, what every experiment of these settings calls.

    Args:
        settings: the settings of an experiment.
        replays: whether long logs will be applied too.
    """
    horizon = settings.horizon or FIRST_HORIZON
    learner = Learner(settings.make_policy(), 2, horizon, log=False)
    compile_learner(learner, batches=False, replays=replays)


def warm_ahead(settings: Settings, is_shared: bool) -> None:
    """Compile what an experiment needs before it is created.

    Args:
        settings: its settings.
        is_shared: whether others write to the log too: their events must be folded, perhaps many.
    """
    if is_shared:
        warm_for_serving(settings)
    else:
        warm(settings)


class Warmer:
    """Compiles policies one after another, in a thread that ends when none is left.

    The thread is waited for when the process ends: a compiler cannot be interrupted.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Settings] = deque()
        self._known: set[bytes] = set()
        self._failures: dict[bytes, Exception] = {}
        self._is_busy = False

    def want(self, settings: Settings) -> None:
        """Compile the policy of an experiment, unless that was asked for before."""
        with self._changed:
            if _key(settings) in self._known:
                return
            self._known.add(_key(settings))
            self._waiting.append(settings)
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._work, name="compiler").start()

    def failure(self, settings: Settings) -> Exception | None:
        """Return why the policy of an experiment cannot be compiled, if that was tried."""
        return self._failures.get(_key(settings))

    def _work(self) -> None:
        while True:
            with self._changed:
                # Under the lock: whoever wants a policy from now on finds no thread, and starts
                # one.
                if not self._waiting:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
                settings = self._waiting.popleft()
            try:
                warm_for_serving(settings)
            except Exception as error:  # a policy of the user's own may raise anything
                self._failures[_key(settings)] = error
            with self._changed:
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until a policy is compiled or none is left, but no longer than ``seconds``."""
        with self._changed:
            if self._is_busy:
                self._changed.wait(seconds)

    def close(self) -> None:
        """Compile nothing more than what is being compiled."""
        with self._changed:
            self._waiting.clear()
