"""Audits as rows of a table and as a section of the report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from armrace.forensics import Audit
from armrace.forensics.sentences import describe_report
from armrace.formatting import figure, percent
from armrace.reports.layout import fold, row, table
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
"""Headings of the fields of :class:`AuditRow` after the policy."""


class AuditRow(NamedTuple):
    """One policy's audits, formatted."""

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
    """One row for each policy that was audited."""
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
    """A table of all policies, and the sentences of the audit of each one's first run."""
    rows = audit_rows(comparison.results)
    if not rows:
        return ""
    first = next(iter(comparison.results.values())).audits[0]
    columns = ["policy", *(heading.replace("\n", " ") for heading in AUDIT_COLUMNS.values())]
    cells = [row(found.policy, found[1:]) for found in rows]
    words = "".join(_words(label, result.audits[0]) for label, result in comparison.results.items())
    return (
        f"<section><h{level}>What the feedback shows of the attack</h{level}>"
        f"<p>{escape(describe_report(first.level))}</p>{table(columns, cells, 'Audits')}{words}"
        "</section>"
    )


def _words(label: str, found: Audit) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in str(found).splitlines())
    return fold(f"What the audit of {label} says in the first replication", f"<ul>{lines}</ul>")
