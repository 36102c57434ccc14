"""The page of a replay: verdicts, estimates with intervals, and what became of the rows."""

from __future__ import annotations

from html import escape

from matplotlib.figure import Figure

from armrace.evaluation import ESTIMATORS, PolicyReplay, Replay
from armrace.formatting import count, figure, percent, span
from armrace.reports.colours import GREY, style_of
from armrace.reports.layout import data_block, document, table
from armrace.reports.plot_style import PAGE_WIDTH, inline_svg, new_figure, own_style, tidy

__all__ = ["draw_replay", "render_replay"]

_MEANINGS = {
    "rejection replay": "The mean reward of the rounds that the policy played on rows where it "
    "drew the arm that the log shows. Unbiased for a learner if the propensities are right.",
    "inverse propensity": "The mean over all rows of the reward times the policy's probability "
    "of the arm, divided by the propensity. The policy is taken as it stands at each row, having "
    "learned from the rounds before it. Unbiased if the propensities are right.",
    "self-normalised": "The same sum divided by the sum of the weights: less variance, a small "
    "bias that vanishes as rows grow. Its interval is a bootstrap over blocks of rows.",
    "doubly robust": "Adds an estimate of each arm's mean from earlier rows and weighs only what "
    "the rewards differ from it. Right if the propensities or the arms' means are.",
}
_SHOWN_ARMS = 40


def render_replay(found: Replay, command: str = "") -> str:
    """Render the page as HTML.

    Args:
        found: the replay.
        command: the command line that runs it again, if there is one.

    Returns:
        The page.
    """
    with own_style():
        drawing = inline_svg(
            draw_replay(found), "replay", "Estimated mean reward of each policy with its interval."
        )
    return document(
        "a replay",
        [
            _header(found),
            _estimates_section(found),
            _drawing_section(found, drawing),
            _arms_section(found),
            _attacks_section(found),
            _rows_section(found),
            _rerun_section(found, command),
        ],
    )


def draw_replay(found: Replay) -> Figure:
    """Draw the best estimate of each policy with its interval, beside the log's own mean."""
    height = 1.2 + 0.35 * len(found.policies)
    drawing, axes = new_figure(PAGE_WIDTH, height)
    for place, each in enumerate(reversed(found.policies)):
        best, colour = each.estimates[-1], style_of(each.policy).colour
        if best.value is None or best.low is None or best.high is None:
            continue
        axes.plot([best.low, best.high], [place, place], color=colour, lw=2)
        filled = colour if best.is_enough else "none"
        axes.plot(best.value, place, "o", color=colour, markerfacecolor=filled)
        axes.plot(each.logged_mean, place, "|", color=GREY.colour, ms=14, mew=2)
    axes.set_yticks(range(len(found.policies)), [_name(each) for each in reversed(found.policies)])
    axes.set_xlabel("mean reward a round; grey mark: the log itself")
    tidy(axes)
    return drawing


def _name(each: PolicyReplay) -> str:
    return each.policy if each.form == "as logged" else f"{each.policy} {each.form}"


def _header(found: Replay) -> str:
    words = "".join(f"<p>{escape(each.words)}</p>" for each in found.policies)
    doubts = "".join(f"<p><strong>{escape(doubt)}</strong></p>" for doubt in found.warnings)
    return (
        f"<header><h1>Replay of {escape(found.log)}</h1>{words}{doubts}"
        f'<p class="setting">{escape(found.setting())}</p></header>'
    )


def _estimates_section(found: Replay) -> str:
    columns = ("policy", "rounds", "estimator", "mean", "interval", "effective rows", "in words")
    rows = [
        f'<tr><th scope="row">{escape(_name(each))}</th><td>{count(round(each.rounds))}</td>'
        f"<td>{ESTIMATORS[estimate.estimator]}</td>"
        f"<td>{'-' if estimate.value is None else figure(estimate.value)}</td>"
        f"<td>{span(estimate.low or 0, estimate.high or 0)} ({estimate.method})</td>"
        f"<td>{figure(estimate.rows)}</td><td>{escape(estimate.warning)}</td></tr>"
        for each in found.policies
        for estimate in each.estimates
    ]
    meanings = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _MEANINGS.items())
    return (
        f"<section><h2>Estimates</h2>{table(columns, rows, 'estimates')}"
        f'<dl class="note">{meanings}</dl></section>'
    )


def _drawing_section(found: Replay, drawing: str) -> str:
    name = ESTIMATORS[found.policies[0].estimates[-1].estimator]
    caption = (
        f"Mean reward a round by {name}, with intervals that are wrong with a probability of at "
        f"most {figure(found.level)} each; an empty point marks too little data to conclude "
        "anything."
    )
    return (
        f'<section><h2>Policies beside the log</h2><figure><div class="wide">{drawing}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure></section>"
    )


def _arms_section(found: Replay) -> str:
    shown = sorted(range(len(found.arms)), key=lambda arm: -found.arm_means[arm])[:_SHOWN_ARMS]
    own = [each for each in found.policies if each.form == "as logged"]
    columns = ("arm", "rows", "mean reward", *(f"share of {each.policy}" for each in own))
    rows = [
        f'<tr><th scope="row">{escape(found.arms[arm])}</th><td>{count(found.arm_rows[arm])}</td>'
        f"<td>{figure(found.arm_means[arm])}</td>"
        + "".join(f"<td>{percent(each.shares[arm])}</td>" for each in own)
        + "</tr>"
        for arm in shown
    ]
    more = len(found.arms) - len(shown)
    note = f'<p class="note">And {count(more)} arms that paid less.</p>' if more > 0 else ""
    return f"<section><h2>Arms</h2>{table(columns, rows, 'arms')}{note}</section>"


def _attacks_section(found: Replay) -> str:
    attacked = [each for each in found.policies if each.attack is not None]
    if not attacked:
        return ""
    columns = ("policy", "attack", "budget", "spent", "seen by the policy")
    rows = []
    for each in attacked:
        attack = each.attack
        assert attack is not None
        rows.append(
            f'<tr><th scope="row">{escape(_name(each))}</th>'
            f"<td>{escape(str(attack.specification['name']))}</td><td>{count(attack.budget)}</td>"
            f"<td>{figure(attack.spent)}</td><td>{figure(attack.seen)}</td></tr>"
        )
    note = (
        "Estimates under an attack are of honest rewards: what the policy truly earned while it "
        "learned forged ones. Of arms that a row does not show, the attack sees the reward of "
        "their latest row."
    )
    return (
        f"<section><h2>Attacks</h2>{table(columns, rows, 'attacks')}"
        f'<p class="note">{note}</p></section>'
    )


def _rows_section(found: Replay) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in found.report.sentences())
    return f"<section><h2>Rows of the log</h2><ul>{lines}</ul></section>"


def _rerun_section(found: Replay, command: str) -> str:
    again = ""
    if command:
        again = f'<pre class="command"><code>{escape(command)}</code></pre>'
    specifications = [each.specification for each in found.policies if each.form == "as logged"]
    return (
        "<section><h2>Run it again</h2><p>The same log and seed give the same figures.</p>"
        f"{again}{data_block({'columns': found.columns, 'policies': specifications})}</section>"
    )
