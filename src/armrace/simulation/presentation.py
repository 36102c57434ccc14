"""Pages and plots of results and comparisons, as methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armrace.reports import Presentation

if TYPE_CHECKING:
    from armrace.simulation.comparison import Comparison


class ComparisonPresentation(Presentation):
    """A page, a plot and figures for a paper, for :class:`Result` and :class:`Comparison`."""

    @abstractmethod
    def _compared(self) -> Comparison:
        """The results as a comparison."""

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        summary: str = "",
        sweeps: Mapping[float, Comparison] | None = None,
        worst: Sequence[Comparison] = (),
        overwrite: bool = False,
    ) -> Path:
        """Write an HTML page with everything inside, the page of ``armrace compare``.

        Args:
            path: the file to write.
            title: the heading; by default the policies and the attack.
            summary: a paragraph below the heading.
            sweeps: maps other budgets to the comparison at that budget, for the plot of regret
                against corruption.
            worst: comparisons in which every policy has an attack of its own.
            overwrite: whether a file that exists is replaced; else it is refused.

        Returns:
            The file.
        """
        from armrace.reports.exports import write_report

        return write_report(
            self._compared(), path, overwrite=overwrite, title=title, summary=summary,
            sweeps=sweeps, worst=worst,
        )  # fmt: skip

    def plot(
        self,
        target: str | Path | Any = None,
        measure: str | None = None,
        *,
        overwrite: bool = False,
    ) -> Any:
        """Draw regret over time, and return the axes.

        Args:
            target: the axes of matplotlib to draw on; or a file, whose suffix chooses the
                format; or None for a new figure.
            measure: a figure of the ledger; by default the comparison's own.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        from armrace.reports.exports import plot

        return plot(self._compared(), target, measure, overwrite=overwrite)
