"""The page of ``armrace redteam``: the worst attack found at each budget, and their curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from armrace.formatting import count, figure, percent, span
from armrace.red_team.verdict import CAUTION, HeldOut, Verdict
from armrace.reports.colours import Style, style_of
from armrace.reports.drawing import (
    PAGE_WIDTH,
    End,
    Plot,
    floor_regrets,
    is_narrow,
    label_measure,
    name_lines,
    new_figure,
    plot_section,
    scale_budgets,
    scale_regrets,
    shorten_ticks,
    tidy,
)
from armrace.reports.kit import (
    code_block,
    command_block,
    document,
    fold,
    header,
    note,
    paragraphs,
    rerun_section,
    row,
    section,
    table,
)
from armrace.reports.text import MEASURE_NAMES
from armrace.reports.theme import LIGHT

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
    curve = [worst_curve_plot(verdicts)] if len(verdicts) > 1 else []
    sections = [
        header(
            f"Worst attacks on {name}",
            "\n\n".join(verdict.sentence() for verdict in verdicts),
            _setting(verdicts),
        ),
        *map(plot_section, curve),
        _table_section(verdicts),
        *(_attack_section(verdict) for verdict in verdicts),
        rerun_section(
            command,
            "armrace.redteam(**specification)",
            [redteam_specification(verdict) for verdict in verdicts],
            heading="Search again",
            words="The same verdicts, bit for bit, on any machine",
        ),
    ]
    return document(f"worst attacks on {name}", sections)


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
    rows = [row(first, others) for first, *others in map(verdict_cells, verdicts)]
    words = (
        f"Figures on held-out seeds; {CAUTION}. The factor compares with the best built-in attack "
        "on the same seeds. Searched / held-out divides what the search saw of the attack by what "
        "it achieved on held-out seeds: the part above 1 was luck."
    )
    listed = table(COLUMNS, rows, "Figures at each budget")
    return section("Figures", [listed, note(words)])


def _attack_section(verdict: Verdict) -> Markup:
    name = f"The attack with a budget of {figure(verdict.target.budget)}"
    spent = percent(min(1.0, verdict.charged / verdict.target.budget))
    seen = ", counted by what was seen" if verdict.target.sees_arm else ""
    data = msgspec.json.format(msgspec.json.encode(verdict.attack.to_builtins()), indent=2)
    parts = [
        paragraphs([f"{verdict.description} It spent {spent} of the budget{seen}."]),
        command_block(verdict.command) if verdict.command else "",
        fold("The attack as data", code_block(data.decode())),
        plot_section(held_out_plot(verdict), 3),
    ]
    return section(name, parts)


_LEAST = 1.0


def worst_curve_plot(verdicts: Sequence[Verdict]) -> Plot:
    """Describe the worst regret found against the budget."""
    measure = MEASURE_NAMES[verdicts[0].target.measure]
    budgets = ", ".join(figure(verdict.target.budget) for verdict in verdicts)
    return Plot(
        name="worst",
        heading=f"Worst {measure} against the budget",
        draw=lambda width: draw_worst(verdicts, width),
        data=lambda: _curve_data(verdicts),
        description=f"Mean {measure} under the worst attack found at the budgets {budgets}.",
        caption=f"Means of {count(verdicts[0].held_out.replications)} runs on held-out seeds with "
        "their 95% intervals. A policy that is robust "
        "stays near the line 2C: an attacker who makes two arms look exchanged costs the learner C "
        "on the way in and C on the way out.",
    )


def _curve_data(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    return pl.DataFrame(
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


def draw_worst(verdicts: Sequence[Verdict], width: float = PAGE_WIDTH) -> Figure:
    """Draw the worst regret found against the budget, with the lines 2C and "all lost"."""
    drawing, axes = new_figure(width, 4.2 if width == PAGE_WIDTH else 1.1 * width)
    target = verdicts[0].target
    budgets = [verdict.target.budget for verdict in verdicts]
    ink = style_of(target.policy.tag()).colour
    found = [verdict.held_out for verdict in verdicts]
    rivals = [verdict.builtin_held_out for verdict in verdicts]
    upper = [_positive(each.p95) for each in found]
    axes.plot(budgets, upper, color=ink, ls=":", lw=1.4)
    ends = [
        _draw_means(axes, budgets, found, "worst found, mean", Style(ink)),
        End(upper[-1], "worst found, p95", Style(ink, ":")),
        _draw_means(axes, budgets, rivals, "best built-in, mean", Style(LIGHT["muted"], "--")),
    ]
    if target.measure == "pseudo_regret":
        doubled, all_lost = [2 * budget for budget in budgets], target.all_lost()
        axes.plot(budgets, doubled, color=LIGHT["ink"], lw=0.9)
        axes.plot(budgets, [all_lost] * len(budgets), color=LIGHT["alarm"], lw=0.9)
        ends += [
            End(doubled[-1], "2C", Style(LIGHT["ink"])),
            End(all_lost, "all lost", Style(LIGHT["alarm"])),
        ]
    heights = [_positive(each.low) for each in (*found, *rivals)]
    scale_regrets(axes, min(heights), max(target.all_lost(), *(each.high for each in found)))
    floor_regrets(axes, [_positive(each.mean) for each in (*found, *rivals)], heights)
    scale_budgets(axes, budgets)
    axes.set_ylabel(label_measure(target.measure))
    tidy(axes)
    name_lines(axes, budgets[-1], ends)
    return drawing


def _draw_means(
    axes: Axes, budgets: list[float], found: list[HeldOut], label: str, style: Style
) -> End:
    """Draw means with their intervals, and return the end of their line."""
    means = np.array([_positive(each.mean) for each in found])
    below = means - [_positive(each.low) for each in found]
    above = np.array([_positive(each.high) for each in found]) - means
    axes.errorbar(
        budgets, means, yerr=(below, above), color=style.colour, ls=style.line, marker="o", ms=3.5,
        lw=1.5, capsize=2,
    )  # fmt: skip
    return End(float(means[-1]), label, style)


def _positive(height: float) -> float:
    """A height on a logarithmic axis, which has no zero."""
    return max(_LEAST, height)


def held_out_plot(verdict: Verdict) -> Plot:
    """Describe the held-out replications of the worst attack and of the best built-in one."""
    measure = MEASURE_NAMES[verdict.target.measure]
    budget = figure(verdict.target.budget)
    return Plot(
        name=f"held-out-{verdict.target.budget:g}",
        heading=f"Held-out runs with a budget of {budget}",
        draw=lambda width: draw_held_out(verdict, width),
        data=lambda: _held_out_data(verdict),
        description=f"The {measure} of each held-out run under the worst attack found and under "
        f"{verdict.builtin.tag()}. {verdict.sentence()}",
        caption=f"Each dot is the {measure} of one of {count(verdict.held_out.replications)} runs "
        "on seeds that took no part in the search; "
        "the diamond is the mean and the bar its 95% interval. Dots are moved up and down at "
        "random so that they can be told apart.",
    )


def _held_out_data(verdict: Verdict) -> pl.DataFrame:
    samples = {
        "worst found": verdict.held_out.sample,
        verdict.builtin.tag(): verdict.builtin_held_out.sample,
    }
    return pl.DataFrame(
        [
            {"attack": name, "replication": number, verdict.target.measure: value}
            for name, sample in samples.items()
            for number, value in enumerate(sample)
        ]
    )


def draw_held_out(verdict: Verdict, width: float = PAGE_WIDTH) -> Figure:
    """Draw every held-out run as a dot, and the means with their intervals."""
    drawing, axes = new_figure(width, 2.3)
    ink = style_of(verdict.target.policy.tag()).colour
    rows = (
        ("worst found", verdict.held_out, ink),
        (verdict.builtin.tag(), verdict.builtin_held_out, LIGHT["muted"]),
    )
    shaken = np.random.default_rng(0)
    for height, (_, found, colour) in enumerate(rows):
        places = height + shaken.uniform(-0.22, 0.22, len(found.sample))
        axes.plot(found.sample, places, "o", color=colour, ms=2.5, alpha=0.35, mew=0)
        mean, low, high = found.mean, found.low, found.high
        axes.plot([low, high], [height] * 2, color=LIGHT["ink"], lw=1.6)
        axes.plot(mean, height, "D", color=LIGHT["ink"], mfc=LIGHT["paper"], ms=5)
    marks = {"2C": 2 * verdict.target.budget, "all lost": verdict.target.all_lost()}
    highest = max(verdict.held_out.max, verdict.builtin_held_out.max)
    if verdict.target.measure == "pseudo_regret":
        for words, place in marks.items():
            if place <= 1.6 * highest:
                axes.axvline(place, color=LIGHT["rule-strong"], lw=0.9, ls="--", zorder=1)
                axes.annotate(
                    words, (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                    textcoords="offset points", ha="center", color=LIGHT["muted"], fontsize="small",
                )  # fmt: skip
    names = [name.replace("-", "-\n", 1) if is_narrow(axes) else name for name, _, _ in rows]
    axes.set_yticks([0, 1], names)
    axes.set_ylim(1.5, -0.5)
    shorten_ticks(axes, "x")
    axes.set_xlabel(label_measure(verdict.target.measure))
    tidy(axes)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])
    return drawing
