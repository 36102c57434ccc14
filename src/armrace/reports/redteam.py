"""The page of ``armrace redteam``: the worst attack found at each budget, and their curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from markupsafe import Markup

from armrace.formatting import count, figure, percent, span
from armrace.red_team.verdict import CAUTION, Verdict
from armrace.reports import kit
from armrace.reports.charts import (
    Bar,
    Chart,
    Line,
    Panel,
    Plot,
    Sign,
    budget_axis,
    linear_axis,
    mean_line,
    regret_axis,
    row_axis,
)
from armrace.reports.text import BUDGET_LABEL, MEASURE_NAMES, measure_label
from armrace.reports.theme import Style, style_of

COLUMNS = (
    "budget",
    "mean",
    "95% interval",
    "p95",
    "max",
    "spent",
    "best built-in",
    "its mean",
    "factor",
    "searched / held-out",
)


def verdict_cells(verdict: Verdict) -> list[str]:
    """Return the figures of one budget, one for each of ``COLUMNS``."""
    found, rival = verdict.held_out, verdict.builtin_held_out
    return [
        figure(verdict.target.budget),
        figure(found.mean),
        span(found.low, found.high),
        figure(found.p95),
        figure(found.max),
        figure(verdict.charged),
        verdict.builtin.tag(),
        figure(rival.mean),
        f"{verdict.factor:.2f}",
        f"{verdict.selection:.2f}",
    ]


def render_redteam(verdicts: Sequence[Verdict], command: str = "") -> str:
    """Render the page as HTML; the verdicts differ in the budget alone."""
    name = verdicts[0].target.policy.tag()
    sections = [
        kit.header(
            f"Worst attacks on {name}",
            "\n\n".join(verdict.sentence() for verdict in verdicts),
            _setting(verdicts),
        ),
        *map(kit.plot_section, redteam_plots(verdicts)[: -len(verdicts)]),
        _table_section(verdicts),
        *(_attack_section(verdict) for verdict in verdicts),
        kit.rerun_section(
            command,
            "armrace.redteam(**specification)",
            [redteam_specification(verdict) for verdict in verdicts],
            heading="Search again",
            words="The same verdicts, bit for bit, on any machine",
        ),
    ]
    return kit.document(f"worst attacks on {name}", sections)


def redteam_specification(verdict: Verdict) -> dict[str, Any]:
    """Return the arguments of ``armrace.redteam`` that give this verdict."""
    target, search = verdict.target, verdict.search
    return {
        "policy": target.policy.to_builtins(),
        "environment": target.environment.to_builtins(),
        "budget": target.budget,
        "horizon": target.horizon,
        "effort": search.effort,
        "objective": target.objective,
        "measure": target.measure,
        "account": target.account,
        "seed": search.seed,
        **({"searcher": search.searcher} if search.searcher != "evolution" else {}),
        **({"families": list(search.families)} if search.families else {}),
        **({"attacks": list(search.attacks)} if search.attacks else {}),
    }


def redteam_plots(verdicts: Sequence[Verdict]) -> list[Plot]:
    """All figures of searches that differ in the budget alone."""
    curve = [worst_curve_plot(verdicts)] if len(verdicts) > 1 else []
    return [*curve, *map(held_out_plot, verdicts)]


def _setting(verdicts: Sequence[Verdict]) -> str:
    target, searched = verdicts[0].target, verdicts[0].search
    model = f"; {target.model()}" if target.sees_arm else ""
    return (
        f"{count(target.horizon)} rounds{model}; effort {searched.effort}: "
        f"{count(sum(v.search.replications for v in verdicts))} replications of "
        f"{count(sum(v.search.candidates for v in verdicts))} attacks; seed {searched.seed}. "
        "Searching, selecting and confirming use different seeds, and the attack is fixed before "
        "it is confirmed."
    )


def _table_section(verdicts: Sequence[Verdict]) -> Markup:
    rows = [kit.row(first, others) for first, *others in map(verdict_cells, verdicts)]
    words = (
        f"Figures on held-out seeds; {CAUTION}. The factor compares with the best built-in attack "
        "on the same seeds. Searched / held-out divides what the search saw of the attack by what "
        "it achieved on held-out seeds: the part above 1 was luck."
    )
    listed = kit.table(COLUMNS, rows, "Figures at each budget")
    return kit.section("Figures", [listed, kit.note(words)])


def _attack_section(verdict: Verdict) -> Markup:
    name = f"The attack with a budget of {figure(verdict.target.budget)}"
    spent = percent(min(1.0, verdict.charged / verdict.target.budget))
    seen = ", counted by what was seen" if verdict.target.sees_arm else ""
    data = msgspec.json.format(msgspec.json.encode(verdict.attack.to_builtins()), indent=2)
    parts = [
        kit.paragraphs([f"{verdict.description} It spent {spent} of the budget{seen}."]),
        kit.command_block(verdict.command) if verdict.command else "",
        kit.fold("The attack as data", kit.code_block(data.decode())),
        kit.plot_section(held_out_plot(verdict), 3),
    ]
    return kit.section(name, parts)


def worst_curve_plot(verdicts: Sequence[Verdict]) -> Plot:
    """Describe the worst regret found against the budget, with the lines 2C and "all lost"."""
    target = verdicts[0].target
    budgets = [verdict.target.budget for verdict in verdicts]
    data = pl.DataFrame(
        [
            {"budget": verdict.target.budget, "attack": name, "mean": found.mean,
             "low": found.low, "high": found.high, "p95": found.p95, "max": found.max}
            for verdict in verdicts
            for name, found in (
                ("worst found", verdict.held_out),
                (verdict.builtin.tag(), verdict.builtin_held_out),
            )
        ]
    )  # fmt: skip
    style, found = style_of(target.policy.tag()), pl.col("attack") == "worst found"
    worst, rivals = data.filter(found), data.filter(~found)
    tail = worst.select("budget", mean="p95", low="p95", high="p95")
    lines = [
        mean_line("worst found, mean", Style(style.ink), "budget", worst),
        mean_line("worst found, p95", Style(style.ink, (2, 2)), "budget", tail, marker=""),
        mean_line("best built-in, mean", Style("muted", (6, 3)), "budget", rivals),
    ]
    if target.measure == "pseudo_regret":
        lines += [
            Line("2C", "ink", budgets, [2 * budget for budget in budgets], width=1.0),
            Line("all lost", "alarm", budgets, [target.all_lost()] * len(budgets), width=1.0),
        ]
    measure = MEASURE_NAMES[target.measure]
    panel = Panel(
        budget_axis(f"{BUDGET_LABEL}, logarithmic", budgets),
        regret_axis(measure_label(target.measure), lines),
        lines,
    )
    return Plot(
        name="worst",
        heading=f"Worst {measure} against the budget",
        chart=Chart([panel]),
        data=lambda: data,
        description=f"Mean {measure} under the worst attack found at the budgets "
        f"{', '.join(map(figure, budgets))}.",
        caption=f"Means of {count(verdicts[0].held_out.replications)} runs on held-out seeds with "
        "their 95% intervals. A policy that is robust "
        "stays near the line 2C: an attacker who makes two arms look exchanged costs the learner C "
        "on the way in and C on the way out.",
    )


def held_out_plot(verdict: Verdict) -> Plot:
    """Describe the held-out replications of the worst attack and of the best built-in one."""
    target, rival = verdict.target, verdict.builtin.tag()
    measure, budget = MEASURE_NAMES[target.measure], figure(target.budget)
    rows = (
        ("worst found", verdict.held_out, style_of(target.policy.tag()).ink),
        (rival, verdict.builtin_held_out, "muted"),
    )
    shaken = np.random.default_rng(0).uniform(-0.22, 0.22, len(verdict.held_out.sample))
    clouds = [
        Line("", ink, found.sample, [height + aside for aside in shaken], width=0, marker=".")
        for height, (_, found, ink) in enumerate(rows)
    ]
    bars = [
        Bar(height, "ink", found.mean, found.low, found.high, marker="D", hollow=True)
        for height, (_, found, _) in enumerate(rows)
    ]
    ends = [end for _, found, _ in rows for end in (*found.sample, found.low, found.high)]
    marks = {"2C": 2 * target.budget, "all lost": target.all_lost()}
    signs = [
        Sign(words, place)
        for words, place in marks.items()
        if target.measure == "pseudo_regret" and 0.6 * min(ends) <= place <= 1.6 * max(ends)
    ]
    ends += [sign.x or 0.0 for sign in signs]
    room = 0.03 * (max(ends) - min(ends)) or 1.0
    axis = linear_axis(measure_label(target.measure), min(ends) - room, max(ends) + room)
    panel = Panel(axis, row_axis([name for name, _, _ in rows]), clouds, bars, signs)
    return Plot(
        name=f"held-out-{target.budget:g}",
        heading=f"Held-out runs with a budget of {budget}",
        chart=Chart([panel], 190),
        data=lambda: pl.DataFrame(
            [
                {"attack": name, "replication": number, target.measure: value}
                for name, found, _ in rows
                for number, value in enumerate(found.sample)
            ]
        ),
        description=f"The {measure} of each held-out run under the worst attack found and under "
        f"{rival}. {verdict.sentence()}",
        caption=f"Each dot is the {measure} of one of {count(verdict.held_out.replications)} runs "
        "on seeds that took no part in the search; "
        "the diamond is the mean and the bar its 95% interval. Dots are moved up and down at "
        "random so that they can be told apart.",
    )
