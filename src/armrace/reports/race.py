"""The state of a race as the paper's figure shows it: layers by arms, deleted cells in red."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from armrace.formatting import figure, short
from armrace.reports.descriptions import means_of
from armrace.reports.drawing import PAGE_WIDTH, new_figure
from armrace.simulation import Result

__all__ = ["draw_race", "has_layers"]

_RED, _WHITE = "#f2a29b", "#ffffff"
_ARMS_WITH_TEXT, _ARMS_WITH_NAMES = 16, 40


def has_layers(result: Result) -> bool:
    """Whether the policy has several layers."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def draw_race(result: Result, width: float = PAGE_WIDTH) -> Figure:
    """Layers by arms at the end of the first replication: mean and pulls in each cell."""
    cells = result.race.to_dicts()
    layers = 1 + max(cell["layer"] for cell in cells)
    arms = 1 + max(cell["arm"] for cell in cells)
    drawing, axes = new_figure(width, 0.9 + 0.26 * layers)
    for cell in cells:
        _draw_cell(axes, cell, written=arms <= _ARMS_WITH_TEXT * width / PAGE_WIDTH)
    axes.set_xlim(0, arms)
    axes.set_ylim(layers, 0)
    axes.set_yticks(np.arange(layers) + 0.5, [f"layer {layer}" for layer in range(layers)])
    _name_arms(axes, result, arms, most=int(_ARMS_WITH_NAMES * width / PAGE_WIDTH))
    axes.tick_params(length=0, labelsize=8, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return drawing


def _draw_cell(axes: Axes, cell: dict[str, Any], *, written: bool) -> None:
    left, top = cell["arm"], cell["layer"]
    fill = _WHITE if cell["active"] else _RED
    axes.add_patch(Rectangle((left, top), 1, 1, facecolor=fill, edgecolor="#555555", lw=0.5))
    if written and cell["pulls"]:
        text = f"{cell['mean']:.3f}, {short(cell['pulls'])}"
        axes.text(left + 0.5, top + 0.5, text, ha="center", va="center", fontsize=7.5)


def _name_arms(axes: Axes, result: Result, arms: int, most: int) -> None:
    """Name each arm and give its true mean, if it is known; the best has a star."""
    means = means_of(result)
    if arms > most:
        axes.set_xticks([])
        best = "" if means is None else f"; the best is arm {int(np.argmax(means))}"
        axes.set_xlabel(f"{arms} arms{best}")
        return
    names = [f"arm {arm}" for arm in range(arms)]
    if means is not None:
        names = [
            f"{'★ ' if mean == means.max() else ''}{name}\n{figure(mean)}"
            for name, mean in zip(names, means, strict=True)
        ]
    axes.set_xticks(np.arange(arms) + 0.5, names)
