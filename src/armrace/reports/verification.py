"""The page of ``armrace verify``: a section for each claim, a row for each setting."""

from __future__ import annotations

from html import escape
from itertools import groupby

from armrace import __version__
from armrace.formatting import count, figure, percent, span
from armrace.reports.growth import growth_plot
from armrace.reports.layout import document, header, interval_mark, rerun_section, row, table
from armrace.reports.plots import Plot, plot_section
from armrace.verification import Check, Verification

__all__ = ["by_claim", "heading", "render_verification", "short_interval", "verification_plots"]

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


def _overview(found: Verification) -> str:
    rows = []
    for position, (claim, checks) in enumerate(by_claim(found).items()):
        failed = sum(check.verdict == "fails" for check in checks)
        cells = (count(len(checks)), count(sum(check.runs for check in checks)))
        outcome = f'<td class="fails">{failed} fail</td>' if failed else "<td>holds</td>"
        rows.append(
            f'<tr><th scope="row" class="claim"><a href="#claim-{position}">{escape(claim)}</a>'
            f"</th>{''.join(f'<td>{cell}</td>' for cell in cells)}{outcome}</tr>"
        )
    listed = table(("claim", "settings", "runs", "verdict"), rows, "At a glance")
    return f"<section><h2>At a glance</h2>{listed}</section>"


def _sections(found: Verification) -> list[str]:
    return [
        f'<section id="claim-{position}"><h2>{escape(heading(claim))}</h2>'
        f"<p>Interval of: {escape(' or '.join(dict.fromkeys(c.measure for c in checks)))}.</p>"
        f"{table(_COLUMNS, map(_row, checks), f'Claim {position + 1}')}</section>"
        for position, (claim, checks) in enumerate(by_claim(found).items())
    ]


def _row(check: Check) -> str:
    failed = check.verdict == "fails"
    return row(
        check.policy,
        (
            check.theorem,
            count(check.runs),
            count(check.failures),
            short_interval(check),
            figure(check.limit),
            f"<td>{interval_mark(*check.interval, check.limit)}</td>",
            f'<td class="fails">{check.verdict}</td>' if failed else check.verdict,
            f'<td class="words">{escape(check.setting)}</td>',
        ),
    )
