"""Many decisions at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from armrace.kernels.event_log import ticket_of
from armrace.online.events import Decision


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
