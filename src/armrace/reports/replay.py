"""The page of a replay: verdicts, estimates with intervals, and what became of the rows."""

from __future__ import annotations

from typing import Any

import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from armrace.formatting import count, figure, percent, span
from armrace.offline import ESTIMATORS, PolicyReplay, Replay
from armrace.offline.results import AS_LOGGED
from armrace.reports.colours import style_of
from armrace.reports.drawing import PAGE_WIDTH, Plot, new_figure, plot_section, tidy
from armrace.reports.kit import (
    cell,
    document,
    header,
    items,
    meanings_list,
    note,
    rerun_section,
    row,
    section,
    table,
)
from armrace.reports.theme import LIGHT

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
    """Render the page as HTML."""
    title = f"Replay of {found.log}"
    verdicts = "\n\n".join(each.words for each in found.policies)
    return document(
        "a replay",
        [
            header(title, verdicts, found.setting(), " ".join(found.warnings)),
            _estimates_section(found),
            *map(plot_section, replay_plots(found)),
            _arms_section(found),
            _attacks_section(found),
            _rows_section(found),
            _rerun_section(found, command),
        ],
    )


def replay_plots(found: Replay) -> list[Plot]:
    """All figures of a replay."""
    name = ESTIMATORS[found.policies[0].estimates[-1].estimator]
    caption = (
        f"Mean reward a round ({name} estimate), with intervals that are wrong with a probability "
        f"of at most {figure(found.level)} each; a grey mark is the mean of the log itself. An "
        "empty point marks too little data to conclude anything."
    )
    return [
        Plot(
            name="replay",
            heading="Policies beside the log",
            draw=lambda width: draw_replay(found, width),
            data=lambda: replay_data(found),
            description="Estimated mean reward of each policy with its interval.",
            caption=caption,
        )
    ]


def replay_data(found: Replay) -> pl.DataFrame:
    """One row per policy and form of the log: the last of its estimates, beside the log's mean."""
    return pl.DataFrame(
        [
            {
                "policy": each.policy,
                "form": each.form,
                "mean": each.estimates[-1].value,
                "low": each.estimates[-1].low,
                "high": each.estimates[-1].high,
                "enough": each.estimates[-1].is_enough,
                "log": each.logged_mean,
            }
            for each in found.policies
        ],
        infer_schema_length=None,
    )


def draw_replay(found: Replay, width: float = PAGE_WIDTH) -> Figure:
    """Draw the best estimate of each policy with its interval, beside the log's own mean."""
    drawing, axes = new_figure(width, 1.2 + 0.35 * len(found.policies))
    for place, each in enumerate(replay_data(found).iter_rows(named=True)):
        colour = style_of(each["policy"]).colour
        axes.plot(each["log"], place, "|", color=LIGHT["muted"], ms=14, mew=2)
        if each["mean"] is None:
            continue
        axes.plot([each["low"], each["high"]], [place, place], color=colour, lw=1.6)
        # A hollow mark warns of an estimate that rests on too few rows to conclude anything.
        fill = colour if each["enough"] else LIGHT["paper"]
        axes.plot(each["mean"], place, "o", color=colour, mfc=fill, ms=5)
    axes.set_yticks(range(len(found.policies)), [_name(each) for each in found.policies])
    axes.set_ylim(len(found.policies) - 0.4, -0.6)
    axes.set_xlabel("mean reward a round")
    tidy(axes)
    axes.grid(False, axis="y")
    return drawing


def _name(each: PolicyReplay) -> str:
    return each.policy if each.form == AS_LOGGED else f"{each.policy} {each.form}"


def _estimates_section(found: Replay) -> Markup:
    columns = ["policy", "rounds", "estimator", "mean", "interval", "effective rows"]
    warned = any(estimate.warning for each in found.policies for estimate in each.estimates)
    rows = [
        row(
            _name(each),
            (
                count(round(each.rounds)),
                ESTIMATORS[estimate.estimator],
                "-" if estimate.value is None else figure(estimate.value),
                f"{span(estimate.low, estimate.high)} ({estimate.method})",
                figure(estimate.rows),
                *([cell(estimate.warning)] if warned else []),
            ),
        )
        for each in found.policies
        for estimate in each.estimates
    ]
    meanings = meanings_list(_MEANINGS.items(), "What the estimators mean")
    headings = [*columns, "warning"] if warned else columns
    return section("Estimates", [table(headings, rows, "estimates"), meanings])


def _arms_section(found: Replay) -> Markup:
    shown = sorted(range(len(found.arms)), key=lambda arm: -found.arm_means[arm])[:_SHOWN_ARMS]
    own = [each for each in found.policies if each.form == AS_LOGGED]
    columns = ("arm", "rows", "mean reward", *(f"share of {each.policy}" for each in own))
    rows = [
        row(
            found.arms[arm],
            (
                count(found.arm_rows[arm]),
                figure(found.arm_means[arm]),
                *(percent(each.shares[arm]) for each in own),
            ),
        )
        for arm in shown
    ]
    more = len(found.arms) - len(shown)
    left_out = note(f"And {count(more)} arms that paid less." if more > 0 else "")
    return section("Arms", [table(columns, rows, "arms"), left_out])


def _attacks_section(found: Replay) -> Markup:
    attacked = [(each, each.attack) for each in found.policies if each.attack is not None]
    if not attacked:
        return Markup()
    columns = ("policy", "attack", "budget", "spent", "seen by the policy")
    rows = [
        row(
            _name(each),
            (
                str(attack.specification["name"]),
                count(attack.budget),
                figure(attack.spent),
                figure(attack.seen),
            ),
        )
        for each, attack in attacked
    ]
    words = (
        "Estimates under an attack are of honest rewards: what the policy truly earned while it "
        "learned forged ones. Of arms that a row does not show, the attack sees the reward of "
        "their latest row."
    )
    return section("Attacks", [table(columns, rows, "attacks"), note(words)])


def _rows_section(found: Replay) -> Markup:
    return section("Rows of the log", [items(found.row_report.sentences())])


def replay_specification(found: Replay) -> dict[str, Any]:
    """Return the arguments of ``armrace.replay`` that give the same figures from the same log."""
    policies = [each.specification for each in found.policies if each.form == AS_LOGGED]
    return {**found.columns, "policies": policies, **found.settings}


def _rerun_section(found: Replay, command: str) -> Markup:
    log = "frame" if found.log == "data frame" else repr(found.log)
    return rerun_section(
        command,
        f"armrace.replay({log}, **specification)",
        [replay_specification(found)],
        words="The same log and seed give the same figures",
    )
