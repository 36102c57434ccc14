"""The events of a learner as plain data, and the log of them.

A learner is the replay of its log: applied in order to a fresh learner, the events lead to the same
state, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from armrace.kernels.event_log import (
    ADDED_EVENT,
    ASSIGNED_EVENT,
    DROPPED_EVENT,
    EVENTS,
    FIRST,
    LEARNED_EVENT,
    PAUSED_EVENT,
    RESUMED_EVENT,
    EventArrays,
    ticket_of,
)
from armrace.kernels.generics import Ticket


class Decision(NamedTuple):
    """A decision of a learner: the arm to play, and the ticket to give back with the reward.

    It is plain data and may be stored. Keep ``ticket`` secret from anyone who could forge rewards:
    an attacker who knows the layer of a decision can aim at one layer of a race.
    """

    number: int
    """Decisions are numbered from 0."""
    arm: str | int
    """The arm to play, as the user calls it."""
    ticket: Ticket

    @property
    def probability(self) -> float:
        """The probability with which the arm was chosen; NaN if the policy does not compute it."""
        return self.ticket.probability


class Assigned(NamedTuple):
    """A decision was made, by the learner or elsewhere, and counted."""

    number: int
    ticket: Ticket
    taken: int = 0
    """How many random numbers the learner had taken by then."""


class Learned(NamedTuple):
    """The reward of a decision was learned."""

    number: int
    reward: float


class Dropped(NamedTuple):
    """The reward of a decision is known never to come."""

    number: int


class ArmAdded(NamedTuple):
    """A new arm was added after the existing ones."""

    arm: str | int


class ArmPaused(NamedTuple):
    """An arm was taken away, until it is resumed."""

    arm: str | int


class ArmResumed(NamedTuple):
    """An arm that was paused came back."""

    arm: str | int


Event = Assigned | Learned | Dropped | ArmAdded | ArmPaused | ArmResumed
_OF_ARMS: dict[int, type[ArmAdded | ArmPaused | ArmResumed]] = {
    ADDED_EVENT: ArmAdded,
    PAUSED_EVENT: ArmPaused,
    RESUMED_EVENT: ArmResumed,
}


class EventLog(Sequence[Event]):
    """The events of a learner up to the time at which the log was read.

    Args:
        log: the arrays that the learner writes.
        arms: the names of all arms, in order.
    """

    def __init__(self, log: EventArrays, arms: Sequence[str | int]) -> None:
        self._log = log
        self._arms = list(arms)
        self._length = int(log.counters[EVENTS])
        self.first = int(log.counters[FIRST])
        """The number of the first decision in the log; the learner may be older."""

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, range(self._length))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self._event(place) for place in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"the log has {self._length} events; got the index {index}.")
        return self._event(index % self._length)

    def _event(self, place: int) -> Event:
        kind, number = self._log.kinds[place], int(self._log.numbers[place])
        if kind == ASSIGNED_EVENT:
            record = self._log.decisions[number - self.first]
            return Assigned(number, ticket_of(record), int(record.taken))
        if kind == LEARNED_EVENT:
            return Learned(number, float(self._log.rewards[place]))
        return Dropped(number) if kind == DROPPED_EVENT else _OF_ARMS[kind](self._arms[number])


class DecisionBatch(Sequence[Decision]):
    """Decisions in order, kept as an array of records.

    ``batch[i]`` is a :class:`Decision`; ``batch.arms`` and ``batch.probabilities`` are what most
    users need, without making one object for each decision.

    Args:
        records: an array of records, one for each decision.
        labels: the arms' names, in the order of their numbers.
    """

    def __init__(self, records: np.ndarray, labels: Sequence[str | int]) -> None:
        self.records = records
        self.labels = labels

    def __len__(self) -> int:
        return int(self.records.size)

    @property
    def arms(self) -> list[str | int]:
        """The arm of each decision."""
        return [self.labels[index] for index in self.records["arm"].tolist()]

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of each decision."""
        return self.records["number"]

    @property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """The probability with which each arm was chosen."""
        return self.records["probability"]

    def __iter__(self) -> Iterator[Decision]:
        return map(self._decision, self.records)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> DecisionBatch: ...
    def __getitem__(self, index: int | slice) -> Decision | DecisionBatch:
        if isinstance(index, slice):
            return DecisionBatch(self.records[index], self.labels)
        return self._decision(self.records[index])

    def _decision(self, record: np.ndarray) -> Decision:
        return Decision(int(record["number"]), self.labels[int(record["arm"])], ticket_of(record))
