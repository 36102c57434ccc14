"""The visits of an experiment as columns: what sets sources, units and labels apart.

A state counts the first sources alone. A table has all visits of the log, or the latest millions,
in some 60 bytes each, beside the engine: it is read once, in the background, and then kept up to
date with what the log has got since.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from armrace.service.background import run_long
from armrace.service.loading import LogReader, events_of
from armrace.service.log.chain import BEGINNING, Head, LogRecord, head_of
from armrace.service.model import events
from armrace.service.model.settings import GRID, Settings
from armrace.service.model.visits import DELAY_BINS, Holds
from armrace.service.work import Session

if TYPE_CHECKING:
    from armrace.service.engine import Engine

MOST_VISITS = 5_000_000
"""Of a longer log, about as many of the latest visits are in the table."""
_MOST_AT_ONCE = 20_000
"""How many records are read before an answer; more are read in the background."""
_MOST_TABLES = 4
_MOST_LABELS = 16
_DENSE = 8_000_000
"""Up to so many cells are counted in an array that has all of them."""
_ERRORS = 2.0
"""Differences within four standard errors do not count, none of which exceeds 1 / (2 sqrt n)."""
_HEAVY, _MOST_OUTLIERS = 0.02, 6
"""What share of the rewards a group must have to distort the rest, and how many are looked for."""
NO_UNIT = b"\0" * 16
_VERDICTS = {"release": 1, "hold": 2, "retract": 3, "void": 4}

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class _Column:
    """Numbers that are appended to."""

    def __init__(self, kind: Any, default: Any = 0, size: int = 0) -> None:
        self._values = np.full(max(1024, size), default, kind)
        self._default, self._size = default, size

    def extend(self, values: Iterable[Any], count: int) -> None:
        """Append values; ``count`` is how many."""
        size = self._size + count
        if size > len(self._values):
            larger = np.full(2 * size, self._default, self._values.dtype)
            larger[: self._size] = self._values[: self._size]
            self._values = larger
        self._values[self._size : size] = values
        self._size = size

    @property
    def all(self) -> Any:
        """The values."""
        return self._values[: self._size]


class _Names:
    """Texts with numbers, and the number of each visit's text; -1 for none."""

    def __init__(self, visits: int = 0) -> None:
        self._places: dict[str, int] = {}
        self.texts: list[str] = []
        self.column = _Column(np.int32, -1, visits)

    def place(self, name: str | None) -> int:
        """Return the number of a text."""
        if name is None:
            return -1
        found = self._places.setdefault(name, len(self.texts))
        if found == len(self.texts):
            self.texts.append(name)
        return found

    def of(self, row: int) -> str | None:
        """Return the text of a visit."""
        place = self.column.all[row]
        return None if place < 0 else self.texts[place]


class _Units:
    """The hashes of units, numbered in the order in which they came.

    They are told apart by their first eight bytes, so that numbering stays with arrays.
    """

    def __init__(self) -> None:
        self.column = _Column("V16")
        """That of each visit; zeros if it has none."""
        self._places, self._different = _Column(np.int32), _Column("V16")
        self._sorted, self._sorted_places = np.zeros(0, "<u8"), np.zeros(0, np.int64)

    def places(self) -> Ints:
        """Return the number of each visit's unit; those of visits since the last time are new."""
        units = self.column.all[len(self._places.all) :]
        if len(units):
            numbers, first, inverse = np.unique(_halves(units)[0], True, True)
            at = np.searchsorted(self._sorted, numbers)
            known = np.append(self._sorted, np.uint64(0))[at] == numbers
            known &= at < len(self._sorted)
            came = np.sort(first[~known])  # in the order of visits
            places = np.append(self._sorted_places, 0)[at]
            places[~known] = len(self) + np.searchsorted(came, first[~known])
            self._places.extend(places[inverse], len(units))
            self._different.extend(units[came], len(came))
            self._sorted = np.insert(self._sorted, at[~known], numbers[~known])
            self._sorted_places = np.insert(self._sorted_places, at[~known], places[~known])
        found: Ints = self._places.all.astype(np.int64)
        return found

    def __len__(self) -> int:
        return len(self._different.all)

    def __getitem__(self, place: Any) -> str | None:
        found = bytes(self._different.all[place])
        return found.hex() if any(found) else None

    def visits_of(self, wanted: Collection[bytes]) -> Ints:
        """Return the rows of the visits of some units."""
        places, chosen = self.places(), np.zeros(len(self) + 1, dtype=np.bool_)
        hashes = np.frombuffer(b"".join(wanted), "V16")
        at = np.searchsorted(self._sorted, _halves(hashes)[0])
        at = np.append(self._sorted_places, len(self))[at]
        chosen[at[np.append(self._different.all, np.zeros(1, "V16"))[at] == hashes]] = True
        chosen[-1] = False
        found: Ints = np.flatnonzero(chosen[places])
        return found

    def order(self, places: Ints) -> Ints:
        """Return places in the order of their hashes."""
        first, second = (each.byteswap() for each in _halves(self._different.all[places]))
        found: Ints = places[np.lexsort((second, first))]
        return found

    def beginning_with(self, text: str) -> Flags:
        """Return which hashes begin with hexadecimal digits."""
        fits = np.zeros(len(self), dtype=np.bool_)
        digits = text[:16]
        if digits and not set(text) - set("0123456789abcdef"):
            first = _halves(self._different.all)[0].byteswap()
            least, most = (np.uint64(int(digits.ljust(16, each), 16)) for each in "0f")
            for place in np.flatnonzero((first >= least) & (first <= most)).tolist():
                fits[place] = (self[place] or "").startswith(text)
        return fits


def _halves(units: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the first and the last eight bytes of hashes as numbers."""
    return np.ascontiguousarray(units).view("<u8").reshape(-1, 2).T


class Group(NamedTuple):
    """What the visits of a table have in common: a source, a unit or a label, by its number."""

    places: Ints
    """For each visit."""
    names: list[str | None] | _Units


class Visits(NamedTuple):
    """What an experiment says of its visits besides the log."""

    settings: Settings
    arms: list[str]
    time: int


class VisitTable:
    """The visits of one log."""

    def __init__(self, log: int, settings: Settings) -> None:
        self._log = log
        self.lock = threading.RLock()
        self.head: Head | None = None
        self.loading: Future[None] | None = None
        self.was_complete = False
        self.end = 0
        self.kept: dict[Any, tuple[float, Any, Figures]] = {}
        """Figures by what they are of, with when they were made and for which state."""
        self._holds = Holds(settings.quarantine)
        self.sequences = _Column(np.int64)
        self.time, self.arm = _Column(np.int64), _Column(np.int32)
        self.steps, self.delay = _Column(np.int32, -1), _Column(np.int64)
        self.verdict, self.held = _Column(np.int8), _Column(np.bool_)
        self.leaf = _Column(np.int16)
        self.source = _Names()
        self.unit = _Units()
        self.labels: dict[str, _Names] = {}
        self._new: list[tuple[Any, ...]] = []
        self._rewards: list[events.Rewarded] = []

    # --- following the log ----------------------------------------------------------------

    @property
    def progress(self) -> float:
        """The share of the log that has been read."""
        read = 0 if self.head is None else self.head.sequence
        return min(1.0, read / self.end) if self.end else 0.0

    def as_of(self, now: int) -> int:
        """Return up to when the table has the log: now, unless some is being read."""
        return now if self.loading is None else int(self.time.all[-1:].max(initial=0))

    def catch_up(self, session: Session) -> bool:
        """Read what the log has got; return whether the table can be shown.

        Much is read in the background. Once the table has had all of the log, it can be shown
        meanwhile: a log may grow faster than anybody looks at it.
        """
        if self.loading is not None and self.loading.done():
            loading, self.loading = self.loading, None
            loading.result()
            self.was_complete = True
        if self.loading is None:
            start = self._start(session)
            reader = session.engine.reader(self._log)
            if self.end - start.sequence > _MOST_AT_ONCE:
                self.loading = run_long(lambda: self.read(reader, start, self.end))
            else:
                self.read(reader, start, self.end)
                self.was_complete = True
        return self.was_complete

    def _start(self, session: Session) -> Head:
        """Look how long the log is; return after which record to read on."""
        with session.engine.store.transaction() as transaction:
            self.end = transaction.head(self._log).sequence
            if self.head is None:
                skipped = max(0, self.end - 2 * MOST_VISITS)
                last = list(transaction.read_many(self._log, [skipped]))
                self.head = head_of(last[0]) if last else BEGINNING
                before = transaction.find_many(self._log, (events.ACTIONS,))
                for event in events.decode_many(
                    [each.payload for each in before if each.sequence <= skipped]
                ):
                    if isinstance(event, events.HoldChanged):
                        self._holds.take(event)
        return self.head

    def read(self, reader: LogReader, start: Head, end: int) -> None:
        """Take the records after ``start`` up to ``end``."""
        if start.sequence < end:
            for part in reader.parts(start, end):
                with self.lock:  # a part is in all columns or in none
                    self._take(part)
                    if any(each.subject == events.ACTIONS for each in part):
                        self.kept.clear()
                    self.head = head_of(part[-1])
            with self.lock:
                self.unit.places()  # here, so that a page need not do it

    def _take(self, part: list[LogRecord]) -> None:
        for record, event in events_of(part):
            if isinstance(event, events.Decided):
                leaf = event.code.leaf if isinstance(event, events.DecidedIn) else 0
                values = record.sequence, event.time, event.arm, leaf, event.unit or NO_UNIT
                self._new.append((*values, self.source.place(event.source), event.labels))
            elif type(event) is events.Rewarded:
                self._rewards.append(event)
            elif isinstance(event, events.HoldChanged):
                self._flush()
                self._holds.take(event)
            elif isinstance(event, events.Ruled):
                self._flush()
                self.verdict.all[self._rows(event.decisions)] = _VERDICTS[event.verdict]
        self._flush()

    def _rows(self, decisions: list[int]) -> Ints:
        """Return the rows of visits; those from before the table are left out."""
        sequences, wanted = self.sequences.all, np.array(decisions, dtype=np.int64)
        rows = np.searchsorted(sequences, wanted)
        known = rows < len(sequences)
        known[known] = sequences[rows[known]] == wanted[known]
        found: Ints = rows[known]
        return found

    def _flush(self) -> None:
        new, self._new = self._new, []
        if new:
            count, before = len(new), len(self.time.all)
            sequences, times, arms, leaves, units, sources, labels = zip(*new, strict=True)
            self.sequences.extend(sequences, count)
            self.time.extend(times, count)
            self.arm.extend(arms, count)
            self.leaf.extend(leaves, count)
            self.source.column.extend(sources, count)
            self.unit.column.extend(np.frombuffer(b"".join(units), "V16"), count)
            for column, default in (
                (self.steps, -1),
                (self.delay, 0),
                (self.verdict, 0),
                (self.held, False),
            ):
                column.extend([default] * count, count)
            for names in self.labels.values():
                names.column.extend([-1] * count, count)
            for row, given in enumerate(labels, before):
                if given:
                    self._label(row, given)
        rewards, self._rewards = self._rewards, []
        rows = self._rows([each.decision for each in rewards])
        if len(rows) < len(rewards):
            known = set(self.sequences.all[rows].tolist())
            rewards = [each for each in rewards if each.decision in known]
        for row, event in zip(rows.tolist(), rewards, strict=True):
            self._reward(row, event)

    def _label(self, row: int, given: dict[str, str]) -> None:
        for name, value in given.items():
            names = self.labels.get(name)
            if names is None:
                if len(self.labels) >= _MOST_LABELS:
                    continue
                names = self.labels[name] = _Names(len(self.time.all))
            names.column.all[row] = names.place(value)

    def _reward(self, row: int, event: events.Rewarded) -> None:
        paid = int(self.steps.all[row])
        is_first = paid < 0
        self.steps.all[row] = event.steps if is_first else min(paid + event.steps, GRID)
        if is_first:  # other parts of a sum change nothing else, but may have it held
            self.delay.all[row] = event.time - self.time.all[row]
            if event.source is not None:
                self.source.column.all[row] = self.source.place(event.source)
            if event.labels:
                self._label(row, event.labels)
        if self._holds.standing or event.suspicion is not None:
            found = {name: names.of(row) for name, names in self.labels.items()}
            labels = {name: value for name, value in found.items() if value is not None}
            source = event.source or self.source.of(row)
            labels.update(event.labels or {})
            held = self._holds.hold_back(source, labels, event.suspicion)
            self.held.all[row] = held or (not is_first and self.held.all[row])

    # --- groups -----------------------------------------------------------------------------

    def group(self, by: str) -> Group | None:
        """Return the groups of visits by ``source``, ``unit`` or a ``label:NAME``."""
        if by == "unit":
            return Group(self.unit.places(), self.unit)
        names = self.source if by == "source" else self.labels.get(by.removeprefix("label:"))
        if names is None:
            return None
        places = names.column.all.astype(np.int64)
        places[places < 0] = len(names.texts)
        return Group(places, [*names.texts, None])


class Cells(NamedTuple):
    """Counts by group and column, of those that are not empty, in order."""

    groups: Ints
    columns: Ints
    counts: Floats

    @classmethod
    def tally(
        cls, groups: Ints, columns: Ints, size: int, width: int, weights: Floats | None = None
    ) -> Cells:
        """Count pairs of a group and a column; with weights, add them up."""
        keys = groups * width + columns
        if size * width <= _DENSE:
            present = np.flatnonzero(np.bincount(keys, minlength=1))
            counts = np.bincount(keys, weights, minlength=1)[present]
        else:
            present, inverse = np.unique(keys, return_inverse=True)
            counts = np.bincount(inverse, weights)
        return cls(present // width, present % width, counts.astype(np.float64))

    def distances(self, size: int, width: int, outliers: Flags) -> Floats:
        """Return how far each group's shares by column are from those of the rest.

        It is the total variation distance, less what chance alone does: its mean is at most the
        sum of the roots of the shares over 2 sqrt(n), and it exceeds that by 2 / sqrt(n) with a
        probability of at most exp(-8).
        """
        usual = ~outliers[self.groups]
        totals = np.bincount(self.columns, self.counts * usual, minlength=width)
        own = np.bincount(self.groups, self.counts, minlength=size)
        rest = float(totals.sum()) - np.where(outliers, 0.0, own)
        with np.errstate(divide="ignore", invalid="ignore"):
            others = (totals[self.columns] - self.counts * usual) / rest[self.groups]
            excess = np.maximum(self.counts / own[self.groups] - others, 0.0)
            far = np.bincount(self.groups, excess, minlength=size)
            roots = float(np.sqrt(totals / totals.sum()).sum())
            found = far - (roots / 2 + _ERRORS) / np.sqrt(own)
        return np.where((own > 0) & (rest > 0), np.nan_to_num(found, nan=-1.0), -1.0)

    def of(self, group: int, width: int) -> list[int]:
        """Return the counts of a group by column."""
        start, end = np.searchsorted(self.groups, [group, group + 1])
        found = np.zeros(width, dtype=np.int64)
        found[self.columns[start:end]] = self.counts[start:end]
        listed: list[int] = found.tolist()
        return listed


DIFFERENCES = ("arms", "delays", "rate", "mean")
"""In what a group may differ from the rest."""


class Figures:
    """What is known of each group, as arrays with an entry for each."""

    def __init__(
        self,
        table: VisitTable,
        by: str,
        about: Visits,
        since: int | None,
        until: int | None,
        leaf: int | None = None,
    ) -> None:
        grouped = table.group(by) or Group(np.zeros(0, dtype=np.int64), [])
        self.names = grouped.names
        size, width = len(self.names), len(about.arms)
        low = 0 if since is None else int(np.searchsorted(table.time.all, since))
        high = len(table.time.all)
        high = high if until is None else int(np.searchsorted(table.time.all, until))
        rows: Any = slice(low, high if size else low)
        if leaf is not None:
            rows = low + np.flatnonzero(table.leaf.all[rows] == leaf)
        groups, arms, times = grouped.places[rows], table.arm.all[rows], table.time.all[rows]
        steps, verdict, held = table.steps.all[rows], table.verdict.all[rows], table.held.all[rows]
        void, rewarded = verdict == 4, steps >= 0
        live, has = ~void, rewarded & (verdict != 4)
        waits = has & ((verdict == 2) | ((verdict == 0) & held))
        self.visits = self._count(groups, live)
        self.voided = self._count(groups, void)
        self.rewarded = self._count(groups, has)
        self.held = self._count(groups, waits)
        self.retracted = self._count(groups, has & (verdict == 3))
        self.first, self.last = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self.last[groups] = times
        self.first[groups[::-1]] = times[::-1]
        self.sums = np.bincount(groups[has], steps[has], minlength=size) / GRID
        arms = arms.astype(np.int64)
        self.arms = Cells.tally(groups[has], arms[has], size, width)
        self.shown = Cells.tally(groups[live], arms[live], size, width)
        bins = np.frexp(table.delay.all[rows][has].astype(np.float64))[1]
        bins = np.clip(bins, 0, DELAY_BINS - 1).astype(np.int64)
        self.delays = Cells.tally(groups[has], bins, size, DELAY_BINS)
        self.arm_totals = np.bincount(arms[has], minlength=width).astype(np.float64)
        self.shown_totals = np.bincount(arms[live], minlength=width).astype(np.float64)
        self.delay_totals = np.bincount(bins, minlength=DELAY_BINS).astype(np.float64)
        self.differences = self._all_differences(size, width)
        self.difference = self.differences.max(axis=0, initial=0.0)
        counted = has & ~waits & (verdict != 3)
        missing = about.settings.missing_steps()
        closed = times + about.settings.window_milliseconds()
        learned = counted if missing is None else live & (closed <= about.time)
        values = np.where(counted, steps, missing or 0) / GRID
        self.moved, self.moved_arm = self._moved(
            groups[learned], arms[learned], values[learned], (size, width)
        )

    def _count(self, groups: Ints, which: Flags) -> Ints:
        return np.bincount(groups[which], minlength=len(self.names))

    def _all_differences(self, size: int, width: int) -> Floats:
        """Return by how much each group differs from the rest, which outliers are not part of.

        Otherwise every honest source would differ from a rest that is mostly one forger's.
        """
        outliers = np.zeros(size, dtype=np.bool_)
        heavy = self.rewarded >= _HEAVY * max(1, int(self.rewarded.sum()))
        for _ in range(_MOST_OUTLIERS):
            found = self._differences(size, width, outliers)
            suspects = np.where(heavy & ~outliers, found.max(axis=0, initial=0.0), 0.0)
            if not suspects.any() or not (heavy & ~outliers).sum() > 1:
                break
            outliers[suspects.argmax()] = True
        return found

    def _differences(self, size: int, width: int, outliers: Flags) -> Floats:
        pairs = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for part, whole in ((self.rewarded, self.visits), (self.sums, self.rewarded)):
                usual_part, usual_whole = (np.where(outliers, 0, each) for each in (part, whole))
                rest = (usual_part.sum() - usual_part) / (usual_whole.sum() - usual_whole)
                away = np.abs(part / whole - rest) - _ERRORS / np.sqrt(whole)
                pairs.append(np.nan_to_num(away, nan=-1.0, posinf=-1.0, neginf=-1.0))
        arms = self.arms.distances(size, width, outliers)
        delays = self.delays.distances(size, DELAY_BINS, outliers)
        found: Floats = np.maximum(np.stack([arms, delays, *pairs]), 0.0)
        return found

    @staticmethod
    def _moved(
        groups: Ints, arms: Ints, values: Floats, shape: tuple[int, int]
    ) -> tuple[Floats, Ints]:
        """Return the largest change of an arm's mean by each group, and the arm."""
        size, width = shape
        moved, where = np.zeros(size), np.full(size, -1, dtype=np.int64)
        numbers = Cells.tally(groups, arms, size, width)
        sums = Cells.tally(groups, arms, size, width, values).counts
        all_numbers = np.bincount(arms, minlength=width).astype(np.float64)
        all_sums = np.bincount(arms, values, minlength=width)
        with np.errstate(divide="ignore", invalid="ignore"):
            number, total = all_numbers[numbers.columns], all_sums[numbers.columns]
            without = (total - sums) / (number - numbers.counts)
            change = np.nan_to_num(total / number - without, posinf=0.0, neginf=0.0)
        order = np.lexsort((np.abs(change), numbers.groups))  # the largest of each group last
        moved[numbers.groups[order]] = change[order]
        where[numbers.groups[order]] = numbers.columns[order]
        return moved, where

    def order(self, sort: str) -> Ints:
        """Return the groups in some order, those without anything in the range left out."""
        keys = {
            "visits": self.visits + self.rewarded / 2,
            "newest": self.first,
            "moved": np.abs(self.moved),
            "difference": self.difference,
            "ruled": self.voided + self.retracted + self.held,
        }
        present = np.flatnonzero(self.visits + self.voided)
        if sort == "name" and isinstance(self.names, _Units):
            return self.names.order(present)
        if sort == "name":
            return np.array(sorted(present, key=lambda at: self.names[at] or ""), dtype=np.int64)
        found: Ints = present[np.lexsort((self.visits[present], keys[sort][present]))[::-1]]
        return found


_TABLES: WeakKeyDictionary[Engine, dict[int, VisitTable]] = WeakKeyDictionary()
_tables_lock = threading.Lock()


def table_of(engine: Engine, log: int, settings: Settings) -> VisitTable:
    """Return the table of a log, which may have to be read yet; a few are kept."""
    with _tables_lock:
        tables = _TABLES.setdefault(engine, {})
        table = tables.pop(log, None) or VisitTable(log, settings)
        tables[log] = table  # as the last, so that the first is the one not asked for
        while len(tables) > _MOST_TABLES:
            del tables[next(iter(tables))]
    return table


def forget_table(engine: Engine, log: int) -> None:
    """Drop a table, so that it is read again."""
    with _tables_lock:
        _TABLES.get(engine, {}).pop(log, None)
