"""The state of a race as in the paper's figure: layers by arms, deleted arms in red."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from armrace.formatting import figure, short
from armrace.policies import ArmView
from armrace.reports.plot_style import PAGE_WIDTH, new_figure
from armrace.reports.plots import Plot, file_name
from armrace.reports.theme import LIGHT
from armrace.simulation import Result

__all__ = ["draw_layers", "draw_race", "has_layers", "race_plot"]

_ARMS_WITH_NAMES = 40
_LEAST_SIZE = 0.7
"""The smallest text in a cell, relative to the figure's; where it does not fit, none is written."""

_WIDTH_OF_LETTER = 0.62
"""Of the size of the text: the mean width of a digit."""


def has_layers(result: Result) -> bool:
    """Whether the policy has several layers."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def race_plot(label: str, result: Result) -> Plot:
    """Describe the layers of a race at the end of the first replication."""
    active = result.race.filter(result.race["active"]).height
    return Plot(
        name=f"layers-{file_name(label)}",
        heading=f"The layers of {label}",
        draw=lambda width: draw_race(result, width),
        data=lambda: result.race,
        description=f"Layers by arms of {label}: {active} of {result.race.height} cells are still "
        "active.",
        caption="State at the end of the first replication: estimated mean and number of pulls "
        "of each arm in each layer, the pulls alone where there is little room; red cells are "
        "deleted. An arm that a layer deletes is deleted from all faster layers above it; an empty "
        "layer plays an active arm of the first layer that has one. Layers and arms count from 0 "
        "here; the paper counts layers from 1. The star marks the best arm; true means are below "
        "the names.",
    )


def draw_race(result: Result, width: float = PAGE_WIDTH) -> Figure:
    """Layers by arms at the end of the first replication: mean and pulls in each square."""
    return draw_layers(result.race.to_dicts(), result.means, width)


def draw_layers(
    views: Sequence[dict[str, Any] | ArmView],
    means: npt.NDArray[np.float64] | None = None,
    width: float = PAGE_WIDTH,
    names: Sequence[str] = (),
) -> Figure:
    """Draw the views of all layers of all arms as a matrix.

    Args:
        views: as ``Learner.inspect`` returns them, or the rows of ``Result.race``.
        means: the true mean of each arm, if known.
        width: of the figure, in inches.
        names: of the arms; by default their numbers.
    """
    rows = [_as_row(view) for view in views]
    layers = 1 + max(row["layer"] for row in rows)
    arms = 1 + max(row["arm"] for row in rows)
    height = 0.27 if width == PAGE_WIDTH else 0.2
    drawing, axes = new_figure(width, 0.8 + height * layers)
    for row in rows:
        fill = LIGHT["paper"] if row["active"] else LIGHT["deleted"]
        place = (row["arm"], row["layer"])
        axes.add_patch(Rectangle(place, 1, 1, fc=fill, ec=LIGHT["rule-strong"], lw=0.5))
    _write_cells(axes, rows, (width - 0.9) * 72 / arms)
    axes.set_xlim(0, arms)
    axes.set_ylim(layers, 0)
    wide = width == PAGE_WIDTH
    axes.set_yticks(
        np.arange(layers) + 0.5, [f"layer {n}" if wide else str(n) for n in range(layers)]
    )
    if not wide:
        axes.set_ylabel("layer")
    _name_arms(axes, means, names or [f"arm {n}" if wide else str(n) for n in range(arms)])
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.tick_params(labelsize=0.85 * mpl.rcParams["font.size"], labelcolor=LIGHT["ink"])
    axes.spines[:].set_visible(False)
    return drawing


def _as_row(view: dict[str, Any] | ArmView) -> dict[str, Any]:
    if isinstance(view, ArmView):
        return {name: getattr(view, name) for name in ("layer", "arm", "pulls", "mean", "active")}
    return view


def _write_cells(axes: Axes, rows: Sequence[dict[str, Any]], room: float) -> None:
    """Write mean and pulls into the cells, or the pulls alone, or nothing, as they fit."""
    usual = 0.8 * float(mpl.rcParams["font.size"])
    played = [row for row in rows if row["pulls"]]
    texts = [f"{row['mean']:.3f}, {short(row['pulls'])}" for row in played]
    size = _size_that_fits(texts, usual, room)
    if size is None:
        texts = [short(row["pulls"]) for row in played]
        size = _size_that_fits(texts, usual, room)
    if size is None:
        return
    for row, text in zip(played, texts, strict=True):
        ink = LIGHT["ink"] if row["active"] else LIGHT["deleted-ink"]
        axes.text(
            row["arm"] + 0.5, row["layer"] + 0.52, text, ha="center", va="center", fontsize=size,
            color=ink,
        )  # fmt: skip


def _size_that_fits(texts: Sequence[str], usual: float, room: float) -> float | None:
    """Return the size of text at which the longest fits a cell, or None if it is too small."""
    longest = max(map(len, texts), default=0)
    size = min(usual, room / (longest * _WIDTH_OF_LETTER + 0.6))
    return size if size >= _LEAST_SIZE * float(mpl.rcParams["font.size"]) else None


def _name_arms(axes: Axes, means: npt.NDArray[np.float64] | None, names: Sequence[str]) -> None:
    """Name each arm and give its true mean, if there is room and it is known; star the best."""
    arms = len(names)
    best = np.zeros(arms, dtype=np.bool_) if means is None else means == means.max()
    if arms > _ARMS_WITH_NAMES:
        axes.set_xticks([])
        starred = f"; the best is arm {int(np.argmax(best))}" if best.any() else ""
        axes.set_xlabel(f"{arms} arms{starred}")
        return
    # A pair of dollar signs would be read as a formula.
    plain = [name.replace("$", r"\$") for name in names]
    shown = [f"{'★ ' if star else ''}{name}" for star, name in zip(best, plain, strict=True)]
    if means is not None:
        shown = [f"{name}\n{figure(mean)}" for name, mean in zip(shown, means, strict=True)]
    axes.set_xticks(np.arange(arms) + 0.5, shown)
