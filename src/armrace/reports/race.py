"""The state of a race as in the paper's figure: layers by arms, deleted arms in red."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from armrace.formatting import figure, short
from armrace.reports.descriptions import means_of
from armrace.reports.plot_style import PAGE_WIDTH, is_narrow, new_figure
from armrace.simulation import Result

__all__ = ["draw_race", "has_layers"]

_RED, _WHITE = "#f2a29b", "#ffffff"
_ARMS_WITH_TEXT, _ARMS_WITH_NAMES = 16, 40


def has_layers(result: Result) -> bool:
    """Whether the policy has several layers."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def draw_race(result: Result, width: float = PAGE_WIDTH) -> Figure:
    """Layers by arms at the end of the first replication: mean and pulls in each square.

    A figure for one column of a paper has room for the pulls only.
    """
    views = result.race.to_dicts()
    layers = 1 + max(view["layer"] for view in views)
    arms = 1 + max(view["arm"] for view in views)
    drawing, axes = new_figure(width, 0.9 + (0.26 if width == PAGE_WIDTH else 0.14) * layers)
    for view in views:
        _draw_view(axes, view, written=arms <= _ARMS_WITH_TEXT)
    axes.set_xlim(0, arms)
    axes.set_ylim(layers, 0)
    axes.set_yticks(np.arange(layers) + 0.5, [f"layer {layer}" for layer in range(layers)])
    _name_arms(axes, result, arms)
    size = 6 if is_narrow(axes) else 8
    axes.tick_params(length=0, labelsize=size, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return drawing


def _draw_view(axes: Axes, view: dict[str, Any], *, written: bool) -> None:
    left, top = view["arm"], view["layer"]
    fill = _WHITE if view["active"] else _RED
    axes.add_patch(Rectangle((left, top), 1, 1, facecolor=fill, edgecolor="#555555", lw=0.5))
    if written and view["pulls"]:
        pulls = short(view["pulls"])
        text, size = (pulls, 4.5) if is_narrow(axes) else (f"{view['mean']:.3f}, {pulls}", 7.5)
        axes.text(left + 0.5, top + 0.5, text, ha="center", va="center", fontsize=size)


def _name_arms(axes: Axes, result: Result, arms: int) -> None:
    """Name each arm and give its true mean, if there is room and it is known; star the best."""
    means = means_of(result)
    best = np.zeros(arms, dtype=np.bool_) if means is None else means == means.max()
    if arms > _ARMS_WITH_NAMES:
        axes.set_xticks([])
        starred = f"; the best is arm {int(np.argmax(best))}" if best.any() else ""
        axes.set_xlabel(f"{arms} arms{starred}")
        return
    if is_narrow(axes):
        names = [f"{'★' if best[arm] else ''}{arm}" for arm in range(arms)]
    else:
        names = [f"{'★ ' if best[arm] else ''}arm {arm}" for arm in range(arms)]
        if means is not None:
            names = [f"{name}\n{figure(mean)}" for name, mean in zip(names, means, strict=True)]
    axes.set_xticks(np.arange(arms) + 0.5, names)
