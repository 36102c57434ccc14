"""Write the pages of the papers that are run again, from the quick form of their runs.

``python docs/reproductions.py PAPER...`` runs papers, by default all, and writes for each its
figures as ``docs/experiments/PAPER.json``, the page that follows from them, and the drawings.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from armrace.reports.figures import draw_figure, own_style, save_figure
from armrace.reproduction import PAPERS, Reproduction, reproduce
from armrace.reproduction.pages import markdown_of, reproduction_plots

FOLDER = Path(__file__).parent / "experiments"
_WIDTH = 7.2


def stored(paper: str) -> Reproduction:
    """Return the run that a page shows."""
    return msgspec.json.decode((FOLDER / f"{paper}.json").read_bytes(), type=Reproduction)


def write(found: Reproduction) -> None:
    """Write the figures, the page and the drawings of a run."""
    data = msgspec.json.format(msgspec.json.encode(found), indent=1)
    (FOLDER / f"{found.paper}.json").write_bytes(data + b"\n")
    page = markdown_of(stored(found.paper))
    (FOLDER / f"{found.paper}.md").write_text(page, encoding="utf-8")
    for plot in reproduction_plots(found):
        assert plot.chart is not None
        with own_style():
            drawing = draw_figure(plot.chart, _WIDTH)
            save_figure(drawing, FOLDER / f"{found.paper}-{plot.name}.svg")


def main() -> None:
    """Run papers and write their pages."""
    for paper in sys.argv[1:] or PAPERS:
        write(reproduce(paper, quick=True))


if __name__ == "__main__":
    main()
