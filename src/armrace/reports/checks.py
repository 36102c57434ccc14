"""The pages of ``armrace redteam`` (the worst attacks found) and ``armrace verify`` (theorems)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import polars as pl
from markupsafe import Markup

from armrace import __version__
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
    log_axis,
    mean_line,
    regret_axis,
    row_axis,
)
from armrace.reports.text import BUDGET_LABEL, MEASURE_NAMES, measure_label
from armrace.reports.theme import SERIES, Style, style_of
from armrace.verification import Check, Verification
from armrace.verification.theorems import Curve

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
    words = (
        f"Figures on held-out seeds; {CAUTION}. The factor compares with the best built-in attack "
        "on the same seeds. Searched / held-out divides what the search saw of the attack by what "
        "it achieved on held-out seeds: the part above 1 was luck."
    )
    listed = kit.listing(COLUMNS, map(verdict_cells, verdicts), "Figures at each budget")
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


_PYTHON = "from armrace.verification import verify; verify(**specification)"
_CHECK_COLUMNS = (
    "policy",
    "theorem",
    "runs",
    "failures",
    "interval",
    "limit",
    "interval and limit",
    "verdict",
    "setting",
)


def render_verification(found: Verification, command: str = "") -> str:
    """Render the page as HTML."""
    sections = [
        kit.header("The theorems, tried", found.verdict, _verification_setting(found)),
        _overview(found),
        *map(kit.plot_section, verification_plots(found)),
        *_claim_sections(found),
        kit.rerun_section(command, _PYTHON, [found.settings]),
    ]
    return kit.document("verification", sections)


def verification_plots(found: Verification) -> list[Plot]:
    """All figures of a verification; the asymptotic form has one."""
    return [growth_plot(found.curves)] if found.curves else []


def by_claim(found: Verification) -> dict[str, list[Check]]:
    """Rows of each claim, in the order of the claims' first appearance.

    The keys are the claims with the theorems and lemmas that they try.
    """
    order = list(dict.fromkeys(check.claim for check in found.checks))
    rows = sorted(found.checks, key=lambda check: order.index(check.claim))
    groups = [list(group) for _, group in groupby(rows, lambda check: check.claim)]
    return {_with_theorems(group): group for group in groups}


def _with_theorems(checks: list[Check]) -> str:
    theorems = dict.fromkeys(check.theorem for check in checks)
    return f"{checks[0].claim} ({', '.join(theorems)})"


def heading(claim: str) -> str:
    """A claim as a heading.

    >>> heading("regret grows with C")
    'Regret grows with C'
    """
    return f"{claim[0].upper()}{claim[1:]}"


def short_interval(check: Check) -> str:
    """An interval with the digits that matter."""
    return span(*check.interval)


def _verification_setting(found: Verification) -> str:
    form = "The quick form" if found.quick else "The full form"
    return (
        f"{form}; seed {found.seed}; armrace {__version__}. An interval estimates the quantity "
        "named above its table, and misses it with a probability of at most "
        f"{found.error_probability:g} divided by {len(found.checks)}, the number of rows, so that "
        "all true claims hold together here with probability "
        f"{percent(1 - found.error_probability)}. A row fails if its interval lies wholly on the "
        "wrong side of its limit; where growth is to be shown, also if it does not lie wholly on "
        "the right side."
    )


def _overview(found: Verification) -> Markup:
    rows = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        failed = sum(check.verdict == "fails" for check in checks)
        cells = (count(len(checks)), count(sum(check.runs for check in checks)))
        outcome = kit.cell(f"{failed} fail", "fails") if failed else "holds"
        name = Markup('<a href="#claim-{}">{}</a>').format(position, claim)
        rows.append(kit.row(name, [*cells, outcome], kind="claim"))
    listed = kit.table(("claim", "settings", "runs", "verdict"), rows, "At a glance")
    return kit.section("At a glance", [listed])


def _claim_sections(found: Verification) -> list[Markup]:
    sections = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        measures = " or ".join(dict.fromkeys(check.measure for check in checks))
        listed = kit.table(_CHECK_COLUMNS, map(_check_row, checks), f"Claim {position + 1}")
        parts = [kit.paragraphs([f"Interval of: {measures}."]), listed]
        sections.append(kit.section(heading(claim), parts, id=f"claim-{position}"))
    return sections


def _check_row(check: Check) -> Markup:
    failed = check.verdict == "fails"
    return kit.row(
        check.policy,
        (
            check.theorem,
            count(check.runs),
            count(check.failures),
            short_interval(check),
            figure(check.limit),
            Markup("<td>{}</td>").format(kit.interval_mark(*check.interval, check.limit)),
            kit.cell(check.verdict, "fails") if failed else check.verdict,
            kit.cell(check.setting),
        ),
    )


_TITLES = {"T": "rounds T, without corruption", "C": "corruption C, at a trillion rounds"}


def growth_plot(curves: Sequence[Curve]) -> Plot:
    """Describe the figure of the asymptotic form: means with dots, bounds as dashes."""
    data = pl.DataFrame(
        [
            {"policy": curve.policy, "axis": curve.axis, "point": point, "mean": mean,
             "low": low, "high": high, "bound": bound}
            for curve in curves
            for point, mean, (low, high), bound in zip(
                curve.points, curve.means, curve.intervals, curve.bounds, strict=True
            )
        ]
    )  # fmt: skip
    styles = _solid_styles(list(dict.fromkeys(curve.policy for curve in curves)))
    drawn: dict[str, list[Line]] = {}
    for curve in curves:
        own = (pl.col("policy") == curve.policy) & (pl.col("axis") == curve.axis)
        style = styles[curve.policy]
        lines = drawn.setdefault(curve.axis, [])
        lines.append(mean_line(curve.policy, style, "point", data.filter(own)))
        bounds = list(curve.bounds)
        lines.append(Line("", style.ink, curve.points, bounds, dashes=(6, 3), width=1.0))
    height = regret_axis(
        measure_label("pseudo_regret", "mean "), [line for each in drawn.values() for line in each]
    )
    panels = []
    for axis in (each for each in _TITLES if each in drawn):
        points = [point for line in drawn[axis] for point in line.x]
        rounds = log_axis(_TITLES[axis], 0.8 * min(points), 1.25 * max(points))
        panels.append(Panel(rounds, height, drawn[axis]))
    keys = [Line(name, style.ink, (), ()) for name, style in styles.items()]
    keys.append(Line("its bound", "muted", (), (), dashes=(6, 3), width=1.0))
    powers = "; ".join(f"{curve.policy} {exponent_words(curve)}" for curve in curves)
    return Plot(
        name="growth",
        heading="Growth on the paper's axes",
        chart=Chart(panels, columns=len(panels), keys=keys),
        data=lambda: data,
        description="Mean pseudo-regret of each race against rounds and against corruption, with "
        "its bound.",
        caption=f"Dots are means of {curves[0].runs} runs with their 95% intervals, dashes the "
        f"bounds of the theorems; all axes are logarithmic. Fitted powers: {powers}.",
    )


def _solid_styles(policies: Sequence[str]) -> dict[str, Style]:
    """Give every race a colour of its own, since dashes mean bounds here; its usual one if free."""
    found: dict[str, Style] = {}
    for name in sorted(policies, key=lambda name: style_of(name).dashes != ()):
        used = {style.ink for style in found.values()}
        wanted = [style_of(name).ink, *SERIES]
        found[name] = Style(next((each for each in wanted if each not in used), wanted[0]))
    return {name: found[name] for name in policies}


def exponent_words(curve: Curve) -> str:
    """The fitted power in words.

    >>> ends = ((2.0, 4.0), (5.0, 7.0))
    >>> curve = Curve("ucb1", "C", (1, 2), (3, 6), (9, 18), (1.0, 0.9, 1.1), 1.0, ends, 9)
    >>> exponent_words(curve)
    'C^1.00 (0.90 to 1.10); the bound C^1.00'
    """
    unit = "(ln T)" if curve.axis == "T" else "C"
    value, low, high = curve.exponent
    found = f"{unit}^{value:.2f} ({low:.2f} to {high:.2f})"
    return f"{found}; the bound {unit}^{curve.exponent_of_bound:.2f}"
