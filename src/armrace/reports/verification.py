"""The page of ``armrace verify``: a section for each claim, a row for each setting."""

from __future__ import annotations

from html import escape
from itertools import groupby

from armrace import __version__
from armrace.formatting import count, figure, span
from armrace.reports.growth import draw_growth, exponent_words
from armrace.reports.layout import document, figure_section, table
from armrace.reports.plot_style import own_style
from armrace.verification import Check, Verification

__all__ = ["by_claim", "heading", "render_verification", "short_interval"]

_COLUMNS = ("race", "theorem", "setting", "runs", "failures", "interval", "limit", "verdict")


def render_verification(found: Verification, command: str) -> str:
    """Render the page as HTML."""
    sections = [_header(found), _overview(found), *_sections(found), _rerun_section(command)]
    if found.curves:
        with own_style():
            sections.insert(2, _growth_section(found))
    return document("verification", sections)


def _growth_section(found: Verification) -> str:
    return figure_section(
        "Growth on the paper's axes",
        draw_growth(found.curves),
        "growth",
        "Mean pseudo-regret of each race against rounds and against corruption, with its bound.",
        "Fitted powers: "
        + "; ".join(f"{curve.policy} {exponent_words(curve)}" for curve in found.curves)
        + ".",
    )


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


def _header(found: Verification) -> str:
    reading = (
        f"An interval estimates the quantity named above its table, and misses it with a "
        f"probability of at most {found.error_probability:g} divided "
        f"by {len(found.checks)}, the number of rows, so that all true claims hold together here "
        f"with probability {1 - found.error_probability:.0%}. A row fails if its interval lies "
        "wholly on the wrong side of its limit; where growth is to be shown, also if it does "
        "not lie wholly on the right side."
    )
    form = "The quick form" if found.quick else "The full form"
    return (
        f"<header><h1>The theorems, tried</h1><p>{escape(found.verdict)}</p>"
        f'<p class="setting">{form}; seed {found.seed}; armrace {__version__}. '
        f"{escape(reading)}</p></header>"
    )


def _overview(found: Verification) -> str:
    rows = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        failed = sum(check.verdict == "fails" for check in checks)
        cells = (count(len(checks)), count(sum(check.runs for check in checks)))
        outcome = f"{failed} fail" if failed else "holds"
        rows.append(
            f'<tr><th scope="row"><a href="#claim-{position}">{escape(claim)}</a></th>'
            f"{''.join(f'<td>{cell}</td>' for cell in cells)}<td>{outcome}</td></tr>"
        )
    columns = ("claim", "settings", "runs", "verdict")
    return f"<section><h2>At a glance</h2>{table(columns, rows)}</section>"


def _sections(found: Verification) -> list[str]:
    return [
        f'<section id="claim-{position}"><h2>{escape(heading(claim))}</h2>'
        f"<p>Interval of: {escape(' or '.join(dict.fromkeys(c.measure for c in checks)))}.</p>"
        f"{table(_COLUMNS, map(_row, checks))}</section>"
        for position, (claim, checks) in enumerate(by_claim(found).items())
    ]


def _row(check: Check) -> str:
    verdict = f"<strong>{check.verdict}</strong>" if check.verdict == "fails" else check.verdict
    return (
        f'<tr><th scope="row">{escape(check.policy)}</th>'
        f"<td>{escape(check.theorem)}</td>"
        f'<td class="words">{escape(check.setting)}</td>'
        f"<td>{count(check.runs)}</td><td>{count(check.failures)}</td>"
        f"<td>{short_interval(check)}</td><td>{figure(check.limit)}</td><td>{verdict}</td></tr>"
    )


def _rerun_section(command: str) -> str:
    return (
        "<section><h2>Run it again</h2><p>The same figures, bit for bit, on any machine:</p>"
        f'<pre class="command"><code>{escape(command)}</code></pre></section>'
    )
