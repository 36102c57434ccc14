"""The page of ``armrace verify``: a section for each claim, a row for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl
from markupsafe import Markup

from armrace import __version__
from armrace.formatting import count, figure, percent, span
from armrace.reports import kit
from armrace.reports.charts import Chart, Line, Panel, Plot, log_axis, mean_line, regret_axis
from armrace.reports.text import measure_label
from armrace.reports.theme import SERIES, Style, style_of
from armrace.verification import Check, Verification
from armrace.verification.asymptotics import Curve

_PYTHON = "from armrace.verification import verify; verify(**specification)"
_COLUMNS = (
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
        kit.header("The theorems, tried", found.verdict, _setting(found)),
        _overview(found),
        *map(kit.plot_section, verification_plots(found)),
        *_sections(found),
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


def _setting(found: Verification) -> str:
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


def _sections(found: Verification) -> list[Markup]:
    sections = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        measures = " or ".join(dict.fromkeys(check.measure for check in checks))
        listed = kit.table(_COLUMNS, map(_row, checks), f"Claim {position + 1}")
        parts = [kit.paragraphs([f"Interval of: {measures}."]), listed]
        sections.append(kit.section(heading(claim), parts, id=f"claim-{position}"))
    return sections


def _row(check: Check) -> Markup:
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
