"""Tables, plots and HTML pages of results; nothing is simulated here.

Reports read results, never the other way round, with one exception: results inherit the methods of
this module, such as ``result.report(path)``. They import what draws when they are called, so that
simulating or deciding loads no plotting library, and this package imports nothing by itself.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["NotebookView", "Presentation"]


def require_matplotlib() -> None:
    """Refuse what only matplotlib draws where it is not installed; pages do without it."""
    from importlib.util import find_spec

    from armrace.errors import InvalidParameter

    if find_spec("matplotlib") is None:
        raise InvalidParameter(
            "figures for papers need the extra plots: pip install 'armrace[plots]'."
        )


class NotebookView:
    """Something that a notebook shows as a table or a figure."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from armrace.reports.exports import notebook_html

        return notebook_html(self)


class Presentation(NotebookView):
    """Something that has a page of its own, and figures for a paper."""

    __slots__ = ()

    def report(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write an HTML page with everything inside, the page that the command line writes.

        Args:
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.

        Returns:
            The file.
        """
        from armrace.reports.exports import write_report

        return write_report(self, path, overwrite=overwrite)

    def figures(self, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write every figure at the width of a column as SVG, PDF and PNG, its data as CSV.

        Args:
            folder: where the files go; it is made if it does not exist.
            overwrite: whether files that exist are replaced; else they are refused.

        Returns:
            The files that were written.
        """
        from armrace.reports.exports import write_figures

        return write_figures(self, Path(folder), overwrite=overwrite)
