"""The state of a race as the paper's figure shows it: layers by arms, deleted cells in red."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from armrace.formatting import short
from armrace.reports.descriptions import means_of
from armrace.reports.drawing import new_figure
from armrace.simulation import Result

__all__ = ["draw_race", "has_layers"]

_RED, _WHITE = "#f2a29b", "#ffffff"
_ARMS_WITH_TEXT, _ARMS_WITH_NAMES = 16, 40


def has_layers(result: Result) -> bool:
    """Whether the policy races several layers, so that there is something to see."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def draw_race(result: Result) -> Figure:
    """Layers by arms at the end of the first replication: mean and pulls in each cell."""
    cells = result.race.to_dicts()
    layers = 1 + max(cell["layer"] for cell in cells)
    arms = 1 + max(cell["arm"] for cell in cells)
    drawing, axes = new_figure(9.6, 0.9 + 0.26 * layers)
    for cell in cells:
        _draw_cell(axes, cell, written=arms <= _ARMS_WITH_TEXT)
    axes.set_xlim(0, arms)
    axes.set_ylim(layers, 0)
    axes.set_yticks(np.arange(layers) + 0.5, [f"layer {layer}" for layer in range(layers)])
    _name_arms(axes, result)
    axes.tick_params(length=0, labelsize=8, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return drawing


def _draw_cell(axes: Axes, cell: dict[str, Any], *, written: bool) -> None:
    left, top = cell["arm"], cell["layer"]
    fill = _WHITE if cell["active"] else _RED
    axes.add_patch(Rectangle((left, top), 1, 1, facecolor=fill, edgecolor="#555555", lw=0.5))
    if written and cell["pulls"]:
        text = f"{cell['mean']:.3f}, {short(cell['pulls'])}"
        size = 7.5 if written else 6
        axes.text(left + 0.5, top + 0.5, text, ha="center", va="center", fontsize=size)


def _name_arms(axes: Axes, result: Result) -> None:
    """Name each arm with its true mean; the best is told apart by a star."""
    means = means_of(result)
    if means.size > _ARMS_WITH_NAMES:
        axes.set_xticks([])
        axes.set_xlabel(f"{means.size} arms; the best is arm {int(np.argmax(means))}")
        return
    best = means.max()
    names = [
        f"{'★ ' if mean == best else ''}arm {arm}\n{mean:.3g}" for arm, mean in enumerate(means)
    ]
    axes.set_xticks(np.arange(means.size) + 0.5, names)
