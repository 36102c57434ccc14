"""Pages, figures and notebook views of results.

The methods of results call these functions, and the command line writes its pages and figures
with the same renderers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from markupsafe import Markup

from armrace.audit import Audit
from armrace.audit.log_audit import LogAudit
from armrace.files import as_path, check_new, write_text
from armrace.formatting import count, figure, percent
from armrace.learner import Learner
from armrace.learner.learner import ArmViews
from armrace.offline import Replay
from armrace.planning import Plan
from armrace.policies import ArmView
from armrace.red_team import Verdict
from armrace.reports import kit, require_matplotlib
from armrace.reports.charts import Chart, Plot, draw_svg
from armrace.reports.checks import (
    COLUMNS,
    by_claim,
    held_out_plot,
    redteam_plots,
    render_redteam,
    render_verification,
    verdict_cells,
    verification_plots,
)
from armrace.reports.citing import comparison_bibtex, comparison_latex, methods
from armrace.reports.comparison import (
    comparison_plots,
    comparison_table,
    curves_panel,
    curves_plot,
    layers_table,
    render_report,
)
from armrace.reports.studies import (
    plan_plots,
    plan_setting,
    plan_table,
    render_plan,
    render_replay,
    replay_plots,
)
from armrace.simulation import Comparison, Result
from armrace.specification import display_name
from armrace.verification import Verification

__all__ = ["comparison_bibtex", "comparison_latex", "methods"]  # results call these

_MOST_NAMED = 4
"""A title of more policies would not fit a line."""


_PAGES: dict[type, Callable[..., str]] = {
    Comparison: lambda found, title=None, **words: render_report(
        found, default_title(found) if title is None else title, **words
    ),
    Plan: render_plan,
    Verdict: lambda found: render_redteam([found]),
    Verification: render_verification,
    Replay: render_replay,
}
_PLOTS: dict[type, Callable[[Any], list[Plot]]] = {
    Comparison: comparison_plots,
    Result: lambda found: comparison_plots(Comparison([found])),
    Plan: plan_plots,
    Verdict: lambda found: redteam_plots([found]),
    Verification: verification_plots,
    Replay: replay_plots,
}


def page_of(thing: Any, **words: Any) -> str:
    """Render the page of a comparison, a plan, a verdict, a verification or a replay."""
    if type(thing) not in _PAGES:
        raise TypeError(f"there is no page of a {type(thing).__name__}.")
    return _PAGES[type(thing)](thing, **words)


def plots_of(thing: Any) -> list[Plot]:
    """Return all figures of a comparison, a plan, a verdict, a verification or a replay."""
    if type(thing) not in _PLOTS:
        raise TypeError(f"there are no figures of a {type(thing).__name__}.")
    return _PLOTS[type(thing)](thing)


def write_report(thing: Any, path: str | Path, *, overwrite: bool = False, **words: Any) -> Path:
    """Write the page of a result; ``words`` are what its renderer takes."""
    target = as_path(path)
    check_new(target, overwrite=overwrite)
    write_text(target, page_of(thing, **words))
    return target


def write_figures(thing: Any, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each figure of a result in every format, and its data."""
    require_matplotlib()
    from armrace.reports.figures import write_plots

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
    target: str | Path | Any = None,
    measure: str | None = None,
    *,
    overwrite: bool = False,
) -> Any:
    """Draw regret over time on axes, into a file or on a new figure; return the axes."""
    require_matplotlib()
    from matplotlib.axes import Axes

    from armrace.reports.figures import draw_figure, draw_on, own_style, save_figure

    panel = curves_panel(comparison, measure)
    if isinstance(target, Axes):
        draw_on(target, panel)
        return target
    file = None if target is None else as_path(target)
    if file is not None:
        check_new(file, overwrite=overwrite)
    with own_style():
        drawing = draw_figure(Chart([panel]))
        if file is not None:
            save_figure(drawing, file)
    return drawing.axes[0]


@singledispatch
def notebook_html(thing: Any) -> str:
    """Return what a notebook shows of a result."""
    raise TypeError(f"notebooks have no view of a {type(thing).__name__}.")


@notebook_html.register
def _(thing: Comparison) -> str:
    spec = next(iter(thing.results.values())).spec
    title = (
        f"{default_title(thing)}; budget {count(spec['budget'])}; "
        f"{count(spec['replications'])} x {count(spec['horizon'])} rounds"
    )
    return kit.notebook_fragment(title, comparison_table(thing) + _picture(curves_plot(thing)))


@notebook_html.register
def _(thing: Result) -> str:
    return notebook_html(Comparison([thing]))


@notebook_html.register
def _(thing: Plan) -> str:
    words = kit.paragraphs(thing.recommendation.split("\n\n")) + kit.note(
        plan_setting(thing.question)
    )
    pictures = Markup().join(map(_picture, plan_plots(thing)))
    return kit.notebook_fragment("A plan", words + plan_table(thing) + pictures)


@notebook_html.register
def _(thing: Verdict) -> str:
    listed = kit.listing(COLUMNS, [verdict_cells(thing)], "Figures on held-out seeds")
    words = kit.paragraphs([thing.sentence(), thing.description])
    title = f"The worst attack found on {thing.target.policy.tag()}"
    return kit.notebook_fragment(title, words + listed + _picture(held_out_plot(thing)))


@notebook_html.register
def _(thing: Replay) -> str:
    words = kit.paragraphs([*(each.words for each in thing.policies), *thing.warnings])
    pictures = Markup().join(map(_picture, replay_plots(thing)))
    return kit.notebook_fragment(
        f"Replay of {thing.log}", words + kit.note(thing.setting()) + pictures
    )


@notebook_html.register
def _(thing: Verification) -> str:
    rows = [
        (claim, count(len(checks)), str(sum(check.verdict == "fails" for check in checks)))
        for claim, checks in by_claim(thing).items()
    ]
    listed = kit.listing(("claim", "settings", "fail"), rows, "Claims")
    return kit.notebook_fragment(thing.verdict, listed)


@notebook_html.register
def _(thing: Audit) -> str:
    alarms = len(thing.alarms)
    title = f"Audit after {count(thing.rounds)} rounds: " + (
        f"{alarms} alarm{'s' if alarms > 1 else ''}" if alarms else "no alarm"
    )
    body = kit.items(str(thing).splitlines())
    if alarms:
        bounds = zip(map(str, thing.arms), map(figure, thing.arm_certificates), strict=True)
        body += kit.fold(
            "Certified changes to the rewards of each arm",
            kit.listing(("arm", "at least"), bounds, "Certificates"),
        )
    return kit.notebook_fragment(title, body)


@notebook_html.register
def _(thing: LogAudit) -> str:
    title = f"Audit of {thing.log}: {'alarm' if thing.alarmed else 'no alarm'}"
    return kit.notebook_fragment(title, kit.items(str(thing).splitlines()))


@notebook_html.register
def _(thing: Learner) -> str:
    views = thing.inspect()
    chances = thing.distribution()
    rows = [
        (str(arm), percent(chance), *_totals(views, place))
        for place, (arm, chance) in enumerate(chances.items())
    ]
    title = f"{thing.policy.tag()}: {count(thing.decisions)} of {count(thing.horizon)} decisions"
    listed = kit.listing(("arm", "next, with", "rewards learned", "mean reward"), rows, "Arms")
    layers = kit.fold("The layers", _matrix(views)) if _is_layered(views) else Markup()
    return kit.notebook_fragment(title, listed + layers)


@notebook_html.register
def _(thing: ArmViews) -> str:
    if _is_layered(thing):
        return kit.notebook_fragment("Layers by arms", _matrix(thing))
    columns = ("arm", "pulls", "mean", "lower", "upper", "active")
    rows = [
        (
            thing.names[view.arm],
            count(view.pulls),
            *(_known(number) for number in (view.mean, view.lower, view.upper)),
            "yes" if view.active else "deleted",
        )
        for view in thing
    ]
    return kit.notebook_fragment("Arms", kit.listing(columns, rows, "Arms"))


def _known(number: float | None) -> str:
    return "-" if number is None else figure(number)


def _is_layered(views: Sequence[ArmView]) -> bool:
    return any(view.layer > 0 for view in views)


def _totals(views: Sequence[ArmView], arm: int) -> tuple[str, str]:
    """Rewards learned of an arm and their mean, over all layers."""
    own = [view for view in views if view.arm == arm]
    pulls = sum(view.pulls for view in own)
    known = [(view.mean, view.pulls) for view in own if view.mean is not None and view.pulls]
    if not known:
        return count(pulls), "-"
    total = sum(number for _, number in known)
    return count(pulls), figure(sum(mean * number for mean, number in known) / total)


def _matrix(views: ArmViews) -> Markup:
    note = "Mean and pulls of each arm in each layer; red cells are deleted."
    return layers_table(views, views.names) + kit.note(note)


def _picture(plot: Plot) -> Markup:
    chart = Markup(plot.html) if plot.chart is None else draw_svg(plot.chart, plot.description)
    return chart + kit.note(plot.caption)
