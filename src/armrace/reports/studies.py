"""The pages of a plan and of a replay of logged data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from armrace.formatting import count, days_in_figures, days_in_words, figure, percent, short, span
from armrace.offline import ESTIMATORS, Replay
from armrace.offline.results import AS_LOGGED
from armrace.planning import Plan, Question, budget_levels
from armrace.planning.plans import COVERED
from armrace.reports import kit
from armrace.reports.charts import (
    Bar,
    Chart,
    Panel,
    Plot,
    Sign,
    budget_axis,
    linear_axis,
    mean_line,
    regret_axis,
    row_axis,
)
from armrace.reports.text import BUDGET_LABEL, measure_label
from armrace.reports.theme import GREY, Style, choose_styles, style_of
from armrace.statistics import mean_interval

_COLUMNS = {
    "policy": "",
    "lost a day": "mean pseudo-regret without attack, in clicks per day: the price of robustness "
    "when it is not needed",
    "decided": "after how many days 95% of the runs, without attack, gave 90% of their plays to "
    "one arm until the end; a dash if fewer did",
    "survives": "the largest C tried at which, as at all smaller ones, at least 95% of the runs "
    "(a simple share) ended right under every attack: in the last part of the run, a quarter to "
    "44% of it, more than half of the plays went to the best arm or to one closer to it than "
    "the gap; a dash if that failed even without attack",
    "right at C": "runs that ended right at the suspected C, under the worst attack by this count",
    "lost a day at C": "mean pseudo-regret at the suspected C, under the attack that costs most",
    "decided at C": "as decided, at the suspected C, under the attack that delays most; the "
    "decision may be a wrong one",
    "proven": f"what the policy is proven to lose at most in all, at the suspected C and under "
    f"{COVERED}",
}


def render_plan(plan: Plan, command: str = "") -> str:
    """Render the page as HTML."""
    question = plan.to_builtins()["question"]
    seed = f"{question['replications']} replications of each; seed {question['seed']}."
    sections = [
        kit.header("A plan", plan.recommendation, f"{plan_setting(plan.question)} {seed}"),
        kit.section("Policies", [plan_table(plan), _meanings()]),
        *(
            [kit.section("Contexts", [kit.items(plan.contexts.sentences)])]
            if plan.contexts is not None
            else []
        ),
        *map(kit.plot_section, plan_plots(plan)),
        _figures_section(plan),
        kit.rerun_section(
            command, "from armrace.planning import plan; plan(**specification)", [question]
        ),
    ]
    return kit.document("a plan", sections)


def plan_plots(plan: Plan) -> list[Plot]:
    """All figures of a plan."""
    return [survival_plot(plan, _styles(plan))]


def plan_setting(question: Question) -> str:
    """Describe the question, and what the suspected corruption means."""
    best = max(question.means)
    words = (
        f"{len(question.means)} arms, the best with a mean of {best:g}; "
        f"{figure(question.traffic)} decisions a day for "
        f"{days_in_words(question.days_of(question.horizon))}: T = {count(question.horizon)}. "
    )
    if question.is_cut:
        words += (
            f"Of the {days_in_words(question.days)} asked for, only these are simulated; more "
            "rounds may be allowed, up to 10,000,000. "
        )
    if not question.suspected:
        return words + "No feedback is suspected of being forged."
    clicks = question.suspected / (best * question.horizon) if best else 0.0
    return words + (
        f"Suspected: {percent(question.forged)} of all rounds forged, which is C = "
        f"{figure(question.suspected)}, as many as {percent(clicks)} of the clicks that the best "
        "arm would get in these rounds."
    )


def plan_cells(plan: Plan) -> list[tuple[str, ...]]:
    """The table's rows as text, for the terminal and for the page."""
    return [
        (
            row["policy"],
            figure(row["cost_a_day"]),
            _days(row["decision_days"]),
            _or_dash(row["survives"], count),
            _of_runs(row["suspected_right"], row["runs"]),
            _or_dash(row["suspected_cost_a_day"], figure),
            _days(row["suspected_decision_days"]),
        )
        for row in plan.table.iter_rows(named=True)
    ]


def _or_dash(value: Any, shown: Callable[[Any], str]) -> str:
    return "-" if value is None else shown(value)


def _of_runs(right: int | None, runs: int) -> str:
    return _or_dash(right, lambda number: f"{number}/{runs}")


def _days(days: float | None) -> str:
    return _or_dash(days, days_in_figures)


def _styles(plan: Plan) -> dict[str, Style]:
    """The style of each policy; those that fail without attack have one point, and are grey."""
    slow = pl.col("survives").is_null()
    fit = plan.table.filter(~slow)["policy"].to_list()
    return {**dict.fromkeys(plan.table.filter(slow)["policy"], GREY), **choose_styles(fit, fit)}


def plan_table(plan: Plan) -> Markup:
    """One row per policy, marked with the line that it has in the plot."""
    styles = _styles(plan)
    rows = []
    for found, cells in zip(plan.table.iter_rows(named=True), plan_cells(plan), strict=True):
        name = found["policy"]
        rows.append(kit.row(name, (*cells[1:], found["proven"]), kit.line_mark(styles[name])))
    return kit.table(list(_COLUMNS), rows, "Policies")


def _meanings() -> Markup:
    return kit.meanings_list((name, f"{text}.") for name, text in _COLUMNS.items() if text)


def _figures_section(plan: Plan) -> Markup:
    columns = ("policy", "attack", "C", "spent", "right", "mean", "p95", "max", "decided (95%)")
    rows = [
        kit.row(
            found["policy"],
            (
                found["attack"],
                count(found["budget"]),
                figure(found["corruption"]),
                f"{found['right']}/{found['runs']}",
                figure(found["regret"]),
                figure(found["regret_p95"]),
                figure(found["regret_max"]),
                _or_dash(found["decision_p95"], figure),
            ),
        )
        for found in plan.cells.sort("policy", "budget", maintain_order=True).iter_rows(named=True)
    ]
    summary = (
        "Each policy under each attack at each budget: corruption spent, runs that ended right, "
        "pseudo-regret, rounds until a decision"
    )
    listed = kit.table(columns, rows, "Each policy under each attack")
    return kit.section("All figures", [kit.fold(summary, listed)])


def survival_plot(plan: Plan, styles: Mapping[str, Style]) -> Plot:
    """Describe the mean pseudo-regret under the costliest attack; a cross marks a lost policy."""
    data, question = survival_data(plan), plan.question
    lost_at = dict(plan.table.select("policy", "lost_at").iter_rows())
    lines, crosses = [], []
    for name, style in styles.items():
        own = data.filter(pl.col("policy") == name)
        lines.append(mean_line(name, style, "budget", own, marker="o"))
        if lost_at[name] is not None:
            lost = own.filter(pl.col("budget") == lost_at[name])
            crosses.append(mean_line("", style, "budget", lost, marker="x", width=0))
    budgets = data["budget"].unique().sort().to_list()
    levels = [0.0, *budget_levels(question.horizon, 0.0)]
    suspected = question.suspected
    axis = budget_axis(
        f"{BUDGET_LABEL}, logarithmic except at 0", budgets, [b for b in budgets if b in levels]
    )
    panel = Panel(
        axis,
        regret_axis(measure_label("pseudo_regret", "mean "), lines),
        [*lines, *crosses],
        signs=[Sign(f"suspected: {short(suspected)}", suspected)] if suspected else [],
    )
    caption = (
        f"Mean pseudo-regret of {count(question.replications)} runs with its 95% interval, "
        "against the budget C, under the attack that costs most there; both axes are logarithmic "
        "except at C = 0. A cross "
        "marks the budget at which the policy is lost; larger ones are not tried with it, except "
        "the suspected one."
    )
    if GREY in styles.values():
        caption += " Grey: policies that do not settle on the right arm even without attack."
    return Plot(
        name="survival",
        heading="Regret against corruption",
        chart=Chart([panel]),
        data=lambda: data,
        description="Mean pseudo-regret of each policy against the corruption budget.",
        caption=caption,
    )


def survival_data(plan: Plan) -> pl.DataFrame:
    """One row per policy and budget: the mean under the costliest attack, and its interval."""
    worst = (
        plan.cells.sort("regret", descending=True)
        .unique(["policy", "budget"], keep="first", maintain_order=True)
        .sort("policy", "budget")
    )
    ends = [mean_interval(np.array(sample)) for sample in worst["regrets"]]
    return worst.select(
        "policy", "budget", "attack", "runs", mean="regret",
        low=pl.Series([low for low, _ in ends], dtype=pl.Float64),
        high=pl.Series([high for _, high in ends], dtype=pl.Float64),
    )  # fmt: skip


_ESTIMATOR_MEANINGS = {
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
            _leaves_section(found),
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
    names = [each.title for each in found.policies]
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


def _estimates_section(found: Replay) -> Markup:
    columns = ["policy", "rounds", "estimator", "mean", "interval", "effective rows"]
    warned = any(estimate.warning for each in found.policies for estimate in each.estimates)
    rows = [
        (
            each.title,
            count(round(each.rounds)),
            ESTIMATORS[estimate.estimator],
            "-" if estimate.value is None else figure(estimate.value),
            f"{span(estimate.low, estimate.high)} ({estimate.method})",
            figure(estimate.rows),
            *([kit.cell(estimate.warning)] if warned else []),
        )
        for each in found.policies
        for estimate in each.estimates
    ]
    meanings = kit.meanings_list(_ESTIMATOR_MEANINGS.items(), "What the estimators mean")
    headings = [*columns, "warning"] if warned else columns
    return kit.section("Estimates", [kit.listing(headings, rows, "estimates"), meanings])


def _arms_section(found: Replay) -> Markup:
    shown = sorted(range(len(found.arms)), key=lambda arm: -found.arm_means[arm])[:_SHOWN_ARMS]
    own = [each for each in found.policies if each.form == AS_LOGGED]
    columns = ("arm", "rows", "mean reward", *(f"share of {each.policy}" for each in own))
    rows = [
        (
            found.arms[arm],
            count(found.arm_rows[arm]),
            figure(found.arm_means[arm]),
            *(percent(each.shares[arm]) for each in own),
        )
        for arm in shown
    ]
    more = len(found.arms) - len(shown)
    left_out = kit.note(f"And {count(more)} arms that paid less." if more > 0 else "")
    return kit.section("Arms", [kit.listing(columns, rows, "arms"), left_out])


def _leaves_section(found: Replay) -> Markup:
    if not any(len(each.leaves) > 1 for each in found.policies):
        return Markup()
    columns = ("policy", "leaf", "rows", "mean reward", "rounds", "effective rows", "favourite arm")
    rows = [
        (
            each.title,
            leaf.leaf,
            count(leaf.rows),
            figure(leaf.logged_mean),
            count(round(leaf.rounds)),
            f"{figure(leaf.effective_rows)}{'' if leaf.is_enough else '?'}",
            f"{leaf.favourite} ({percent(leaf.share)})" if leaf.rounds else "-",
        )
        for each in found.policies
        for leaf in each.leaves
    ]
    words = "A question mark warns of too few effective rows to conclude anything about a leaf."
    return kit.section("Leaves", [kit.listing(columns, rows, "leaves"), kit.note(words)])


def _attacks_section(found: Replay) -> Markup:
    attacked = [(each, each.attack) for each in found.policies if each.attack is not None]
    if not attacked:
        return Markup()
    columns = ("policy", "attack", "budget", "spent", "seen by the policy")
    rows = [
        (
            each.title,
            str(attack.specification["name"]),
            count(attack.budget),
            figure(attack.spent),
            figure(attack.seen),
        )
        for each, attack in attacked
    ]
    words = (
        "Estimates under an attack are of honest rewards: what the policy truly earned while it "
        "learned forged ones. Of arms that a row does not show, the attack sees the reward of "
        "their latest row."
    )
    return kit.section("Attacks", [kit.listing(columns, rows, "attacks"), kit.note(words)])


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
