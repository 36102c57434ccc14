"""Decisions that are drawn ahead, from the state that a server last knew."""

from __future__ import annotations

from typing import NamedTuple

from armrace.online.followers import Follower
from armrace.service.drawing import Drawn, draw, lot_of
from armrace.service.experiment import Experiment
from armrace.service.generation import Generation

__all__ = ["Draft", "Drafter"]

_BYTES_A_RECORD = 2**14
"""A state is copied once the log has grown by one record per this number of its bytes, so that
copying a large state takes no longer than the decisions. Small ones are copied for every turn."""
_NEVER = -1


class Draft(NamedTuple):
    """A decision that was drawn and not appended yet."""

    places: list[int] | None
    """Among which arms it was drawn; ``None`` for all."""
    drawn: Drawn
    stream: int
    taken: int
    """How many numbers of the stream had been taken when it was drawn."""
    known: int
    """The last record that the state included from which it was drawn."""
    time: int
    """When that state was last known to be the true one."""


class Drafter:
    """Draws decisions of one experiment from a random stream of its own.

    It draws from a copy of the learner, in which its own draws count at once. Appended decisions
    come back to the copy with the next state; those that were thrown away are forgotten then.

    Args:
        stream: the number of its random stream.
        most_records: a copy is made before the log has grown by half as many records.
    """

    def __init__(self, stream: int, most_records: int) -> None:
        self._stream = stream
        self._most_behind = most_records // 2
        self._leading: Generation | None = None
        self._own: Generation | None = None
        self._arms = 0
        self._known, self._time = _NEVER, 0
        self._lots = 0

    def follow(self, experiment: Experiment, head: int, time: int) -> None:
        """Take note of the state before a turn is drawn for.

        Args:
            experiment: as this server last knew it.
            head: the last record that it includes.
            time: when it was the true state.
        """
        leading = experiment.generation
        if self._own is None or leading is not self._leading or len(leading.places) != self._arms:
            taken = 0 if self._own is None else self._own.learner.taken
            # Numbers are counted on in a new generation, so that none is ever taken twice.
            self._follower = Follower(leading.learner, self._stream, taken)
            self._own = Generation(leading.number, leading.places, self._follower)
            self._leading, self._arms = leading, len(leading.places)
        elif self._known == _NEVER or head - self._known > self._tolerated():
            self._follower.follow()
        elif head > self._known:
            return
        self._known, self._time = head, time

    def _tolerated(self) -> int:
        return min(self._follower.size // _BYTES_A_RECORD, self._most_behind)

    def forget(self) -> None:
        """Forget draws that did not become decisions, before the next turn is drawn for."""
        self._known = _NEVER

    def draw(self, experiment: Experiment, places: list[int] | None) -> Draft:
        """Draw an arm among some places, and count it as if it had been appended."""
        assert self._own is not None
        floors, lot = experiment.floors_among(places), 0.0
        if floors:
            lot = lot_of(experiment.settings.seed, self._lots, self._stream)
            self._lots += 1
        drawn = draw(self._own, floors, places, len(experiment.arms), lot)
        if drawn.ticket is not None:
            self._own.assign(drawn.ticket, drawn.taken)
        # No number of the learner's own stream was taken; what was taken of this one is noted
        # apart.
        own = drawn._replace(taken=0)
        return Draft(places, own, self._stream, drawn.taken, self._known, self._time)
