"""What a benchmark yields: a figure, what it is compared with, and the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

__all__ = ["Figure", "ratio_figure"]


@dataclass(frozen=True)
class Figure:
    """One row of the table. A target is for the ratio if there is one, else for the value."""

    name: str
    value: float | None
    unit: str
    against: str = ""
    ratio: float | None = None
    target: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; ``None`` where there is none."""
        if self.target is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        if measured is None:
            return False
        return measured >= self.target if self.at_least else measured <= self.target

    def to_builtins(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "reached": self.reached}


def ratio_figure(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    against: str,
    target: float,
) -> Figure:
    """Times a round, measured in turns, as the ratio of the best of each.

    Whatever disturbs a run makes it slower, so the best is the least disturbed; the median of
    the ratios of neighbours is noted beside it.
    """
    best, other = min(ours), min(theirs)
    middle = median(a / b for a, b in zip(ours, theirs, strict=True))
    return Figure(
        name=name,
        value=best,
        unit="ns a round",
        against=f"{against}: {other:.1f} ns",
        ratio=best / other,
        target=target,
        note=f"median of {len(ours)} pairs: {middle:.2f}",
    )
