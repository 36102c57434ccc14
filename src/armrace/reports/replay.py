"""The page of a replay: verdicts, estimates with intervals, and what became of the rows."""

from __future__ import annotations

from typing import Any

import polars as pl
from markupsafe import Markup

from armrace.formatting import count, figure, percent, span
from armrace.offline import ESTIMATORS, PolicyReplay, Replay
from armrace.offline.results import AS_LOGGED
from armrace.reports import kit
from armrace.reports.charts import Bar, Chart, Panel, Plot, linear_axis, row_axis
from armrace.reports.theme import style_of

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
    return kit.document(
        "a replay",
        [
            kit.header(title, verdicts, found.setting(), " ".join(found.warnings)),
            _estimates_section(found),
            *map(kit.plot_section, replay_plots(found)),
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
    data = pl.DataFrame(
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
    bars = []
    for place, each in enumerate(data.iter_rows(named=True)):
        bars.append(Bar(place, "muted", each["log"], marker="|"))
        if each["mean"] is not None:
            # A hollow mark warns of an estimate that rests on too few rows to conclude anything.
            ends = (each["low"], each["high"])
            ink, hollow = style_of(each["policy"]).ink, not each["enough"]
            bars.append(Bar(place, ink, each["mean"], *ends, hollow=hollow))
    known = [value for name in ("mean", "low", "high", "log") for value in data[name].drop_nulls()]
    room = 0.04 * (max(known) - min(known)) or 0.1
    axis = linear_axis("mean reward a round", min(known) - room, max(known) + room)
    names = [_name(each) for each in found.policies]
    return [
        Plot(
            name="replay",
            heading="Policies beside the log",
            chart=Chart([Panel(axis, row_axis(names), bars=bars)], 62 + 30 * len(names)),
            data=lambda: data,
            description="Estimated mean reward of each policy with its interval.",
            caption=caption,
        )
    ]


def _name(each: PolicyReplay) -> str:
    return each.policy if each.form == AS_LOGGED else f"{each.policy} {each.form}"


def _estimates_section(found: Replay) -> Markup:
    columns = ["policy", "rounds", "estimator", "mean", "interval", "effective rows"]
    warned = any(estimate.warning for each in found.policies for estimate in each.estimates)
    rows = [
        kit.row(
            _name(each),
            (
                count(round(each.rounds)),
                ESTIMATORS[estimate.estimator],
                "-" if estimate.value is None else figure(estimate.value),
                f"{span(estimate.low, estimate.high)} ({estimate.method})",
                figure(estimate.rows),
                *([kit.cell(estimate.warning)] if warned else []),
            ),
        )
        for each in found.policies
        for estimate in each.estimates
    ]
    meanings = kit.meanings_list(_MEANINGS.items(), "What the estimators mean")
    headings = [*columns, "warning"] if warned else columns
    return kit.section("Estimates", [kit.table(headings, rows, "estimates"), meanings])


def _arms_section(found: Replay) -> Markup:
    shown = sorted(range(len(found.arms)), key=lambda arm: -found.arm_means[arm])[:_SHOWN_ARMS]
    own = [each for each in found.policies if each.form == AS_LOGGED]
    columns = ("arm", "rows", "mean reward", *(f"share of {each.policy}" for each in own))
    rows = [
        kit.row(
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
    left_out = kit.note(f"And {count(more)} arms that paid less." if more > 0 else "")
    return kit.section("Arms", [kit.table(columns, rows, "arms"), left_out])


def _attacks_section(found: Replay) -> Markup:
    attacked = [(each, each.attack) for each in found.policies if each.attack is not None]
    if not attacked:
        return Markup()
    columns = ("policy", "attack", "budget", "spent", "seen by the policy")
    rows = [
        kit.row(
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
    return kit.section("Attacks", [kit.table(columns, rows, "attacks"), kit.note(words)])


def _rows_section(found: Replay) -> Markup:
    return kit.section("Rows of the log", [kit.items(found.row_report.sentences())])


def replay_specification(found: Replay) -> dict[str, Any]:
    """Return the arguments of ``armrace.replay`` that give the same figures from the same log."""
    policies = [each.specification for each in found.policies if each.form == AS_LOGGED]
    return {**found.columns, "policies": policies, **found.settings}


def _rerun_section(found: Replay, command: str) -> Markup:
    log = "frame" if found.log == "data frame" else repr(found.log)
    return kit.rerun_section(
        command,
        f"armrace.replay({log}, **specification)",
        [replay_specification(found)],
        words="The same log and seed give the same figures",
    )
