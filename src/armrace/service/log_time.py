"""The time of events: it never goes back, and jumps of a clock do not move it.

Windows close by the time of the log. So a clock that is set wrong must neither stop it nor close
windows early, as far as a process can tell. It compares a shared clock, the database's, with its
own monotonic one from transaction to transaction. When it starts, it has nothing to compare with:
that the clock is a day ahead of the log may be a jump or a day without an event.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

_TOLERATED = 2000
"""A shared clock may differ from the own one by this many milliseconds plus one percent."""


class LogTime:
    """Tells the time of the next event in milliseconds, by ``clock`` if the store has no clock."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        start, began = time_ns(), monotonic_ns()
        # By default one that no later change of the system's time moves.
        self._clock = clock or (lambda: (start + monotonic_ns() - began) // 1_000_000)
        self._correction = 0
        """What is added to a clock that has jumped."""
        self._told = 0
        self._before: tuple[int, int] | None = None
        """The shared clock and the own one in the last transaction."""

    def now(self, shared: int | None) -> int:
        """Return the time, by the clock that all processes of a store share, if there is one."""
        if shared is not None:
            self._take_back_jumps(shared)
        time = self._clock() if shared is None else shared
        self._correction = max(self._correction, self._told - time)
        self._told = time + self._correction
        return self._told

    def _take_back_jumps(self, shared: int) -> None:
        elapsed = monotonic_ns() // 1_000_000
        if self._before is not None:
            passed = elapsed - self._before[1]
            jump = shared - self._before[0] - passed
            # Small differences are the drift of two clocks, and are not corrected.
            if abs(jump) > _TOLERATED + passed // 100:
                self._correction -= jump
        self._before = shared, elapsed
