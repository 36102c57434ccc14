"""CSV that is safe in a spreadsheet: text that would be taken for a formula stays text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What text begins with that a spreadsheet calculates, or that hides such a beginning."""


def safe_cell(value: Any) -> Any:
    """Return a value for CSV; text that begins as a formula does gets an apostrophe in front.

    >>> [safe_cell(each) for each in ("=1+1", "web", -2.5)]
    ["'=1+1", 'web', -2.5]
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(safe_cell, row) for row in rows)
    return text.getvalue()
