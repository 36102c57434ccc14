"""What audits found, as rows of a table and as a section of the page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from armrace.forensics import Audit
from armrace.formatting import figure, percent
from armrace.reports.layout import table
from armrace.simulation import Comparison, Result

__all__ = ["AUDIT_COLUMNS", "AuditRow", "audit_rows", "audit_section"]

AUDIT_COLUMNS = {
    "alarmed": "runs with\nan alarm",
    "disagreement": "layers\ndisagree",
    "change": "change\nover time",
    "waves": "in waves",
    "failed": "layer\nfailed",
    "mean": "certified,\nmean",
    "max": "certified,\nmax",
    "corruption": "attack\nspent",
    "exceeded": "certified\ntoo much",
}
"""Headings of what :class:`AuditRow` holds beside the policy."""


class AuditRow(NamedTuple):
    """One policy's audits as they are written."""

    policy: str
    alarmed: str
    disagreement: str
    change: str
    waves: str
    failed: str
    mean: str
    max: str
    corruption: str
    exceeded: str


def audit_rows(results: Mapping[str, Result]) -> list[AuditRow]:
    """A row a policy; none if no audit was asked for."""
    rows = []
    for label, result in results.items():
        found = result.audit_summary()
        if found is not None:
            layered = "layers" in found.first.looked_at
            rows.append(
                AuditRow(
                    policy=label,
                    alarmed=_share(found.alarmed, found.replications),
                    disagreement=_share(found.alarms["disagreement"], found.replications, layered),
                    change=_share(found.alarms["change"], found.replications),
                    waves=_share(found.alarms["waves"], found.replications),
                    failed=_share(found.alarms["failed-layer"], found.replications, layered),
                    mean=figure(found.certificate.mean),
                    max=figure(found.certificate.max),
                    corruption=figure(result.figure("corruption").mean),
                    exceeded=_share(found.exceeded, found.replications),
                )
            )
    return rows


def _share(count: int, total: int, applies: bool = True) -> str:
    return percent(count / total) if applies else "-"


def audit_section(comparison: Comparison, level: int = 2) -> str:
    """The table of all policies, and what the audit of each one's first run said."""
    rows = audit_rows(comparison.results)
    if not rows:
        return ""
    first = next(iter(comparison.results.values())).audits[0]
    columns = ["policy", *(heading.replace("\n", " ") for heading in AUDIT_COLUMNS.values())]
    cells = (
        f'<tr><th scope="row">{escape(row.policy)}</th>'
        f"{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    words = "".join(_words(label, result.audits[0]) for label, result in comparison.results.items())
    return (
        f"<section><h{level}>What the feedback shows of the attack</h{level}>"
        f"<p>{escape(_caption(first))}</p>{table(columns, cells)}{words}</section>"
    )


def _caption(found: Audit) -> str:
    return (
        "Each run was audited at its end from what the policy had learned, without knowledge of "
        "the attack. An alarm or a certificate, the least that the attack must have spent, is "
        f"wrong with a probability of at most {found.level:g}, over all times together: without "
        "an attack, at most that share of runs may raise an alarm."
    )


def _words(label: str, found: Audit) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in str(found).splitlines())
    summary = f"What the audit of {label} says in the first replication"
    return f"<details><summary>{escape(summary)}</summary><ul>{lines}</ul></details>"
