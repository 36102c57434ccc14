"""The page of ``armrace verify``: a section for each claim, a row for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from armrace import __version__
from armrace.formatting import count, figure, percent, span
from armrace.reports.colours import COLOURS, Style, style_of
from armrace.reports.drawing import (
    PAGE_WIDTH,
    Plot,
    add_legend,
    empty_figure,
    label_measure,
    legend_lines,
    plot_section,
    shorten_ticks,
    tidy,
)
from armrace.reports.kit import (
    cell,
    document,
    header,
    interval_mark,
    paragraphs,
    rerun_section,
    row,
    section,
    table,
)
from armrace.reports.theme import LIGHT
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
        header("The theorems, tried", found.verdict, _setting(found)),
        _overview(found),
        *map(plot_section, verification_plots(found)),
        *_sections(found),
        rerun_section(command, _PYTHON, [found.settings]),
    ]
    return document("verification", sections)


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
        outcome = cell(f"{failed} fail", "fails") if failed else "holds"
        name = Markup('<a href="#claim-{}">{}</a>').format(position, claim)
        rows.append(row(name, [*cells, outcome], kind="claim"))
    listed = table(("claim", "settings", "runs", "verdict"), rows, "At a glance")
    return section("At a glance", [listed])


def _sections(found: Verification) -> list[Markup]:
    sections = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        measures = " or ".join(dict.fromkeys(check.measure for check in checks))
        listed = table(_COLUMNS, map(_row, checks), f"Claim {position + 1}")
        parts = [paragraphs([f"Interval of: {measures}."]), listed]
        sections.append(section(heading(claim), parts, id=f"claim-{position}"))
    return sections


def _row(check: Check) -> Markup:
    failed = check.verdict == "fails"
    return row(
        check.policy,
        (
            check.theorem,
            count(check.runs),
            count(check.failures),
            short_interval(check),
            figure(check.limit),
            Markup("<td>{}</td>").format(interval_mark(*check.interval, check.limit)),
            cell(check.verdict, "fails") if failed else check.verdict,
            cell(check.setting),
        ),
    )


_TITLES = {"T": "rounds T, without corruption", "C": "corruption C, at a trillion rounds"}


def growth_plot(curves: Sequence[Curve]) -> Plot:
    """Describe the figure of the asymptotic form of ``armrace verify``."""
    powers = "; ".join(f"{curve.policy} {exponent_words(curve)}" for curve in curves)
    return Plot(
        name="growth",
        heading="Growth on the paper's axes",
        draw=lambda width: draw_growth(curves, width),
        data=lambda: growth_data(curves),
        description="Mean pseudo-regret of each race against rounds and against corruption, with "
        "its bound.",
        caption=f"Dots are means of {curves[0].runs} runs with their 95% intervals, dashes the "
        f"bounds of the theorems; all axes are logarithmic. Fitted powers: {powers}.",
    )


def growth_data(curves: Sequence[Curve]) -> pl.DataFrame:
    """One row per race, axis and point."""
    return pl.DataFrame(
        [
            {"policy": curve.policy, "axis": curve.axis, "point": point, "mean": mean,
             "low": low, "high": high, "bound": bound}
            for curve in curves
            for point, mean, (low, high), bound in zip(
                curve.points, curve.means, curve.intervals, curve.bounds, strict=True
            )
        ]
    )  # fmt: skip


def draw_growth(curves: Sequence[Curve], width: float = PAGE_WIDTH) -> Figure:
    """Means as lines with dots, bounds as dashes, both axes logarithmic."""
    policies = list(dict.fromkeys(curve.policy for curve in curves))
    styles = _solid_styles(policies)
    needed = [axis for axis in _TITLES if any(curve.axis == axis for curve in curves)]
    beside = width == PAGE_WIDTH
    shape = (1, len(needed)) if beside else (len(needed), 1)
    drawing = empty_figure(width, 4.6 if beside else 0.6 + 2.6 * len(needed))
    panels = drawing.subplots(*shape, squeeze=False, sharey=True).ravel()
    for axes, axis in zip(panels, needed, strict=True):
        for curve in curves:
            if curve.axis == axis:
                _draw(axes, curve, styles[curve.policy].colour)
        _label(axes, _TITLES[axis])
    for axes in panels[: 1 if beside else None]:
        axes.set_ylabel(label_measure("pseudo_regret", "mean ", broken=not beside))
    bound = Line2D([], [], color=LIGHT["muted"], lw=1.0, ls="--", label="its bound")
    add_legend(drawing, [*legend_lines(styles), bound], above=True)
    return drawing


def _solid_styles(policies: Sequence[str]) -> dict[str, Style]:
    """Give every race a colour of its own, since dashes mean bounds here; its usual one if free."""
    found: dict[str, Style] = {}
    for name in sorted(policies, key=lambda name: style_of(name).line != "-"):
        used = {style.colour for style in found.values()}
        wanted = [style_of(name).colour, *COLOURS]
        found[name] = Style(next((each for each in wanted if each not in used), wanted[0]))
    return {name: found[name] for name in policies}


def _draw(axes: Axes, curve: Curve, ink: str) -> None:
    below = [mean - low for mean, (low, _) in zip(curve.means, curve.intervals, strict=True)]
    above = [high - mean for mean, (_, high) in zip(curve.means, curve.intervals, strict=True)]
    axes.errorbar(
        curve.points, curve.means, yerr=(below, above), color=ink, lw=1.6, marker="o", ms=3,
        elinewidth=1.0, capsize=2,
    )  # fmt: skip
    axes.plot(curve.points, curve.bounds, color=ink, lw=1.0, ls="--")


def _label(axes: Axes, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(title)
    shorten_ticks(axes, "x", "y")
    axes.xaxis.set_minor_locator(NullLocator())
    tidy(axes)


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
