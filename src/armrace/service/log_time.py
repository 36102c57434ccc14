"""The time of events: it never goes back, and jumps of a clock do not move it.

Windows close by the time of the log. So a clock that is set wrong must neither stop it nor close
windows early, as far as a process can tell. It compares a shared clock, the database's, with its
own monotonic one from transaction to transaction. When it starts, it has nothing to compare with:
that the clock is a day ahead of the log may be a jump or a day without an event.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

__all__ = ["LogTime", "monotonic_clock"]

_TOLERATED = 2000
"""A shared clock may differ from the own one by this many milliseconds plus one percent."""


def monotonic_clock() -> Callable[[], int]:
    """Return a clock in milliseconds since 1970 that no later change of the system's time moves."""
    start, began = time_ns(), monotonic_ns()
    return lambda: (start + monotonic_ns() - began) // 1_000_000


class LogTime:
    """Tells the time of the next event.

    Args:
        clock: returns the time in milliseconds, for stores that have no clock of their own.
        elapsed: returns the milliseconds of a monotonic clock.
    """

    def __init__(
        self,
        clock: Callable[[], int] | None = None,
        elapsed: Callable[[], int] = lambda: monotonic_ns() // 1_000_000,
    ) -> None:
        self._clock = clock or monotonic_clock()
        self._elapsed = elapsed
        self._correction = 0
        """What is added to a clock that has jumped."""
        self._told = 0
        self._before: tuple[int, int] | None = None
        """The shared clock and the own one in the last transaction."""

    def now(self, shared: int | None) -> int:
        """Return the time of the next event, as far as the clocks say; it never goes back.

        Args:
            shared: the time of the clock that all processes of the store share, if there is one.
        """
        if shared is not None:
            self._take_back_jumps(shared)
        time = (self._clock() if shared is None else shared) + self._correction
        behind = self._told - time
        if behind > 0:
            self._correction += behind
            time += behind
        self._told = time
        return time

    def _take_back_jumps(self, shared: int) -> None:
        elapsed = self._elapsed()
        if self._before is not None:
            passed = elapsed - self._before[1]
            jump = shared - self._before[0] - passed
            # Small differences are the drift of two clocks, and are not corrected.
            if abs(jump) > _TOLERATED + passed // 100:
                self._correction -= jump
        self._before = shared, elapsed
