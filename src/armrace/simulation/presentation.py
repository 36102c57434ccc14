"""Pages and figures of results, as methods of the results themselves.

Reports read simulations, never the other way round. This module is the one exception: its
methods import :mod:`armrace.reports` when they are called, so that ``result.report(path)`` works
and simulating loads no plotting library.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armrace.simulation.comparison import Comparison

__all__ = ["Presentation"]


class Presentation:
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
        overwrite: bool = False,
    ) -> Path:
        """Write an HTML page with everything inside, the page of ``armrace compare``.

        Args:
            path: the file to write.
            title: the heading; by default the policies and the attack.
            summary: a paragraph below the heading.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        from armrace.reports.exports import write_report

        return write_report(self._compared(), Path(path), title, summary, overwrite=overwrite)

    def plot(self, target: str | Path | Any = None, measure: str | None = None) -> Any:
        """Draw regret over time, and return the axes.

        Args:
            target: the axes of matplotlib to draw on; or a file, whose suffix chooses the
                format; or None for a new figure.
            measure: a figure of the ledger; by default the comparison's own.
        """
        from armrace.reports.exports import plot

        return plot(self._compared(), target, measure)

    def figures(self, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write every figure at the width of a column as SVG, PDF and PNG, its data as CSV.

        Args:
            folder: where the files go; it is made if it does not exist.
            overwrite: whether files that exist are replaced; else they are refused.

        Returns:
            the files that were written.
        """
        from armrace.reports.exports import write_figures

        return write_figures(self._compared(), Path(folder), overwrite=overwrite)

    def _repr_html_(self) -> str:
        """The table and the curves, for notebooks."""
        from armrace.reports.exports import notebook_html

        return notebook_html(self._compared())
