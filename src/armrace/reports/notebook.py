"""What notebooks show of results, plans, audits, learners and the states of races."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Any

from armrace.forensics import Audit
from armrace.forensics.log_audit import LogAudit
from armrace.formatting import count, figure, percent
from armrace.offline import Replay
from armrace.online import Learner
from armrace.online.views import ArmViews
from armrace.planning import Plan
from armrace.policies import ArmView
from armrace.red_team import Verdict
from armrace.reports.curves import curves_plot
from armrace.reports.exports import default_title
from armrace.reports.layout import fold, notebook_fragment, row, table
from armrace.reports.planning import plan_plots, plan_setting, plan_table
from armrace.reports.plot_style import PAGE_WIDTH, inline_svg, own_style
from armrace.reports.plots import Plot
from armrace.reports.race import draw_layers
from armrace.reports.redteam import COLUMNS, verdict_cells
from armrace.reports.replay import replay_plots
from armrace.reports.tables import comparison_table
from armrace.reports.verification import by_claim
from armrace.reports.worst_attacks import held_out_plot
from armrace.simulation import Comparison, Result
from armrace.verification import Verification

__all__ = ["notebook_html"]


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
    return notebook_fragment(title, comparison_table(thing) + _picture(curves_plot(thing)))


@notebook_html.register
def _(thing: Result) -> str:
    return notebook_html(Comparison([thing]))


@notebook_html.register
def _(thing: Plan) -> str:
    words = "".join(f"<p>{escape(part)}</p>" for part in thing.recommendation.split("\n\n"))
    note = f'<p class="note">{escape(plan_setting(thing.question))}</p>'
    pictures = "".join(map(_picture, plan_plots(thing)))
    return notebook_fragment("A plan", words + note + plan_table(thing) + pictures)


@notebook_html.register
def _(thing: Verdict) -> str:
    first, *others = verdict_cells(thing)
    listed = table(COLUMNS, [row(first, others)], "Figures on held-out seeds")
    words = f"<p>{escape(thing.sentence())}</p><p>{escape(thing.description)}</p>"
    title = f"The worst attack found on {thing.target.policy.tag()}"
    return notebook_fragment(title, words + listed + _picture(held_out_plot(thing)))


@notebook_html.register
def _(thing: Replay) -> str:
    words = "".join(f"<p>{escape(each.words)}</p>" for each in thing.policies)
    doubts = "".join(f"<p>{escape(each)}</p>" for each in thing.warnings)
    note = f'<p class="note">{escape(thing.setting())}</p>'
    pictures = "".join(map(_picture, replay_plots(thing)))
    return notebook_fragment(f"Replay of {thing.log}", words + doubts + note + pictures)


@notebook_html.register
def _(thing: Verification) -> str:
    rows = [
        row(claim, (count(len(checks)), str(sum(check.verdict == "fails" for check in checks))))
        for claim, checks in by_claim(thing).items()
    ]
    listed = table(("claim", "settings", "fail"), rows, "Claims")
    return notebook_fragment(thing.verdict, listed)


@notebook_html.register
def _(thing: Audit) -> str:
    alarms = len(thing.alarms)
    title = f"Audit after {count(thing.rounds)} rounds: " + (
        f"{alarms} alarm{'s' if alarms > 1 else ''}" if alarms else "no alarm"
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in str(thing).splitlines())
    body = f"<ul>{lines}</ul>"
    if alarms:
        rows = [
            row(str(arm), [figure(bound)])
            for arm, bound in zip(thing.arms, thing.arm_certificates, strict=True)
        ]
        body += fold(
            "Certified changes to the rewards of each arm",
            table(("arm", "at least"), rows, "Certificates"),
        )
    return notebook_fragment(title, body)


@notebook_html.register
def _(thing: LogAudit) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in str(thing).splitlines())
    title = f"Audit of {thing.log}: {'alarm' if thing.alarmed else 'no alarm'}"
    return notebook_fragment(title, f"<ul>{lines}</ul>")


@notebook_html.register
def _(thing: Learner) -> str:
    views = thing.inspect()
    chances = thing.distribution()
    rows = [
        row(str(arm), (percent(chance), *_totals(views, place)))
        for place, (arm, chance) in enumerate(chances.items())
    ]
    title = f"{thing.policy.tag()}: {count(thing.decisions)} of {count(thing.horizon)} decisions"
    listed = table(("arm", "next, with", "rewards learned", "mean reward"), rows, "Arms")
    layers = fold("The layers", _matrix(views)) if _is_layered(views) else ""
    return notebook_fragment(title, listed + layers)


@notebook_html.register
def _(thing: ArmViews) -> str:
    if _is_layered(thing):
        return notebook_fragment("Layers by arms", _matrix(thing))
    columns = ("arm", "pulls", "mean", "lower", "upper", "active")
    rows = [
        row(
            thing.names[view.arm],
            (
                count(view.pulls),
                *(_known(number) for number in (view.mean, view.lower, view.upper)),
                "yes" if view.active else "deleted",
            ),
        )
        for view in thing
    ]
    return notebook_fragment("Arms", table(columns, rows, "Arms"))


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


def _matrix(views: ArmViews) -> str:
    with own_style():
        drawing = draw_layers(views, width=PAGE_WIDTH, names=views.names)
        svg = inline_svg(drawing, "layers", "Layers by arms: mean and pulls of each cell.")
    note = "Mean and pulls of each arm in each layer; red cells are deleted."
    return f'{svg}<p class="note">{note}</p>'


def _picture(plot: Plot) -> str:
    with own_style():
        svg = inline_svg(plot.draw(PAGE_WIDTH), plot.name, plot.description)
    return f'{svg}<p class="note">{escape(plot.caption)}</p>'
