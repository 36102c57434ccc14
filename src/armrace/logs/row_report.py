"""What became of the rows of a log: how many can be used, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from armrace.formatting import count, percent

__all__ = ["Problem", "RowReport"]

_EXAMPLES = 5


class Problem(msgspec.Struct, kw_only=True):
    """A reason why rows cannot be used."""

    reason: str
    rows: int = 0
    examples: list[int] = msgspec.field(default_factory=list)
    """The first few rows of them, counted from 1 after the header."""

    def words(self) -> str:
        """Say it in one sentence."""
        more = ", ..." if self.rows > len(self.examples) else ""
        noun = "row" if self.rows == 1 else "rows"
        where = ", ".join(count(row) for row in self.examples) + more
        return f"{count(self.rows)} {noun} left out: {self.reason} (row {where})."


class RowReport(msgspec.Struct, kw_only=True):
    """Counts of the rows of a log that were read, used and left out."""

    rows: int = 0
    used: int = 0
    problems: list[Problem] = msgspec.field(default_factory=list)
    remarks: list[str] = msgspec.field(default_factory=list)
    """What else a reader should know, such as rows that are out of order."""

    def note(self, reason: str, rows: Iterable[int]) -> None:
        """Count rows that cannot be used.

        Args:
            reason: why the rows cannot be used.
            rows: the numbers of the rows.
        """
        numbers = list(rows)
        if not numbers:
            return
        found = next((each for each in self.problems if each.reason == reason), None)
        if found is None:
            found = Problem(reason=reason)
            self.problems.append(found)
        found.rows += len(numbers)
        found.examples += numbers[: _EXAMPLES - len(found.examples)]

    @property
    def left_out(self) -> int:
        """How many rows cannot be used."""
        return self.rows - self.used

    def sentences(self) -> list[str]:
        """Say how many rows were used, and name each reason with its count and first rows."""
        share = f" ({percent(self.used / self.rows)})" if 0 < self.used < self.rows else ""
        first = f"{count(self.used)} of {count(self.rows)} rows{share} are used."
        listed = sorted(self.problems, key=lambda each: -each.rows)
        return [first, *(each.words() for each in listed), *self.remarks]

    def __str__(self) -> str:
        """Return the sentences, one a line."""
        return "\n".join(self.sentences())
