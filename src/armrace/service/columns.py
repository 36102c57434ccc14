"""Events of a log as columns, for folds of many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from armrace.errors import DamagedFile
from armrace.kernels.packed_events import UNREAD, read_events
from armrace.service.chain import Record
from armrace.service.events import Created, Event, decode_many

__all__ = ["Columns"]


class Columns(NamedTuple):
    """Events in the order of the log."""

    content: bytes
    """The bytes in which all events lie."""
    sequences: np.ndarray
    events: np.ndarray
    """Records of the type ``PACKED`` of :mod:`armrace.kernels.packed_events`. Events of the kind
    ``UNREAD`` have only a time and an experiment."""
    tickets: np.ndarray
    """For each event a record of the type ``DECISION``, which decisions with a ticket fill."""

    @classmethod
    def read(cls, records: Sequence[Record]) -> Self:
        """Read the events of records.

        Raises:
            DamagedFile: some bytes are not an event of this version.
        """
        payloads = [record[1] for record in records]
        content = b"".join(payloads)
        sizes = np.fromiter(map(len, payloads), dtype=np.int64, count=len(payloads))
        events, tickets = read_events(content, np.cumsum(sizes))
        sequences = np.fromiter((each[0] for each in records), np.int64, len(payloads))
        read = cls(content, sequences, events, tickets)
        unread = np.flatnonzero(events["kind"] == UNREAD)
        for place, event in zip(unread.tolist(), read.decode(unread), strict=True):
            try:
                events["time"][place], events["experiment"][place] = event.time, event.experiment
            except OverflowError as error:
                raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
        return read

    @property
    def size(self) -> int:
        """The number of events."""
        return self.events.size

    def decode(self, places: np.ndarray) -> list[Event]:
        """Return some of the events as objects."""
        return decode_many(self._spans(places, "begin", "end"))

    def _spans(self, places: np.ndarray, begin: str, end: str) -> list[bytes]:
        chosen, content = self.events[places], self.content
        limits = zip(chosen[begin].tolist(), chosen[end].tolist(), strict=True)
        return [content[first:after] for first, after in limits]

    def select(self, places: slice | np.ndarray) -> Self:
        """Return some of the events."""
        return self._replace(
            sequences=self.sequences[places],
            events=self.events[places],
            tickets=self.tickets[places],
        )

    def between_creations(self) -> Iterator[tuple[tuple[int, Created] | None, Self]]:
        """Yield the events between creations of experiments, in order.

        Each part comes with the place and the event of the creation before it, if there is one.
        """
        unread = np.flatnonzero(self.events["kind"] == UNREAD)
        found = zip(unread.tolist(), self.decode(unread), strict=True)
        created = [(place, event) for place, event in found if isinstance(event, Created)]
        begins = [0, *(place + 1 for place, _ in created)]
        ends = [*(place for place, _ in created), self.size]
        for before, begin, end in zip([None, *created], begins, ends, strict=True):
            yield before, self.select(slice(begin, end))

    def of_experiment(self, number: int) -> Self:
        """Return the events of one experiment."""
        own = self.events["experiment"] == number
        return self if own.all() else self.select(own)

    def shares(self, places: np.ndarray) -> list[bytes]:
        """Return the probabilities that come with some decisions."""
        return self._spans(places, "shares_at", "shares_end")

    def sources(self, places: np.ndarray) -> list[str | None]:
        """Return the sources of some rewards."""
        # Few sources send most rewards, so that each text is decoded once.
        texts: dict[bytes, str | None] = {}
        found = self._spans(places, "source_at", "source_end")
        try:
            for text in dict.fromkeys(found):
                texts[text] = text.decode()
        except UnicodeDecodeError as error:
            raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
        sources = [texts[text] for text in found]
        for place in np.flatnonzero(self.events["source_at"][places] < 0).tolist():
            sources[place] = None
        return sources
