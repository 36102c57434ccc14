"""Pages and figures as files, from Python.

The methods of results call these functions (:mod:`armrace.presentation`), and the command line
writes its pages and figures with the same renderers.
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from armrace.files import as_path, check_new, write_text
from armrace.offline import Replay
from armrace.planning import Plan
from armrace.red_team import Verdict
from armrace.reports.curves import draw_curves, draw_curves_on
from armrace.reports.page import comparison_plots, render_report
from armrace.reports.planning import plan_plots, render_plan
from armrace.reports.plot_style import own_style
from armrace.reports.plots import Plot, save_figure, write_plots
from armrace.reports.redteam import redteam_plots, render_redteam
from armrace.reports.replay import render_replay, replay_plots
from armrace.reports.verification import render_verification, verification_plots
from armrace.simulation import Comparison, Result
from armrace.specification import display_name
from armrace.verification import Verification

__all__ = ["default_title", "page_of", "plot", "plots_of", "write_figures", "write_report"]

_MOST_NAMED = 4
"""A title of more policies would not fit a line."""


@singledispatch
def page_of(thing: Any, **words: Any) -> str:
    """Render the page of a comparison, a plan, a verdict, a verification or a replay."""
    raise TypeError(f"there is no page of a {type(thing).__name__}.")


@singledispatch
def plots_of(thing: Any) -> list[Plot]:
    """Return all figures of a comparison, a plan, a verdict, a verification or a replay."""
    raise TypeError(f"there are no figures of a {type(thing).__name__}.")


@page_of.register
def _(thing: Comparison, *, title: str | None = None, **words: Any) -> str:
    return render_report(thing, default_title(thing) if title is None else title, **words)


@plots_of.register
def _(thing: Comparison) -> list[Plot]:
    return comparison_plots(thing)


@plots_of.register
def _(thing: Result) -> list[Plot]:
    return comparison_plots(Comparison([thing]))


@page_of.register
def _(thing: Plan) -> str:
    return render_plan(thing)


@plots_of.register
def _(thing: Plan) -> list[Plot]:
    return plan_plots(thing)


@page_of.register
def _(thing: Verdict) -> str:
    return render_redteam([thing])


@plots_of.register
def _(thing: Verdict) -> list[Plot]:
    return redteam_plots([thing])


@page_of.register
def _(thing: Verification) -> str:
    return render_verification(thing)


@plots_of.register
def _(thing: Verification) -> list[Plot]:
    return verification_plots(thing)


@page_of.register
def _(thing: Replay) -> str:
    return render_replay(thing)


@plots_of.register
def _(thing: Replay) -> list[Plot]:
    return replay_plots(thing)


def write_report(thing: Any, path: str | Path, *, overwrite: bool = False, **words: Any) -> Path:
    """Write the page of a result; ``words`` are what its renderer takes."""
    target = as_path(path)
    check_new(target, overwrite=overwrite)
    write_text(target, page_of(thing, **words))
    return target


def write_figures(thing: Any, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each figure of a result in every format, and its data."""
    return write_plots(plots_of(thing), folder, overwrite=overwrite)


def default_title(comparison: Comparison) -> str:
    """The policies and the attack, in a line."""
    labels = list(comparison.results)
    spec = comparison.results[labels[0]].spec
    many = len(labels) > _MOST_NAMED
    who = f"{len(labels)} policies" if many else ", ".join(labels)
    attack = display_name(spec["adversary"]["name"])
    return who if attack == "none" else f"{who} under {attack}"


def plot(
    comparison: Comparison,
    target: str | Path | Axes | None = None,
    measure: str | None = None,
    *,
    overwrite: bool = False,
) -> Axes:
    """Draw regret over time on axes, into a file or on a new figure; return the axes.

    Args:
        comparison: the figures.
        target: axes, a file whose suffix chooses the format, or None for a new figure.
        measure: the measure; by default that of the comparison.
        overwrite: whether a file that exists is replaced; else it is refused.
    """
    if isinstance(target, Axes):
        draw_curves_on(target, comparison, measure)
        return target
    file = None if target is None else as_path(target)
    if file is not None:
        check_new(file, overwrite=overwrite)
    with own_style():
        drawing = draw_curves(comparison, measure)
        if file is not None:
            save_figure(drawing, file)
    return drawing.axes[0]
