"""A verification in the terminal: a table for each claim."""

from __future__ import annotations

import typer
from rich.console import Console

from armrace.cli.tables import new_table, print_tables
from armrace.formatting import count, figure
from armrace.reports.checks import by_claim, exponent_words, heading, short_interval
from armrace.verification import Verification

_COLUMNS = ("policy", "runs", "failures", "interval", "limit", "verdict", "setting")


def print_verification(found: Verification) -> None:
    """Print a table per claim, with a row per experiment, and the outcome; failures are bold."""
    console = Console(highlight=False)
    for claim, checks in by_claim(found).items():
        console.print(f"[bold]{heading(claim)}[/bold]")
        table = new_table(*_COLUMNS, words=("policy", "setting"))
        for check in checks:
            table.add_row(
                check.policy, count(check.runs), count(check.failures), short_interval(check),
                figure(check.limit), check.verdict, check.setting,
                style="bold" if check.verdict == "fails" else None,
            )  # fmt: skip
        print_tables(table)
    for curve in found.curves:
        typer.echo(f"{curve.policy} grows like {exponent_words(curve)}.")
    typer.echo(found.verdict)
