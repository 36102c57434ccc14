"""A plan in the terminal, within eighty columns."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from armrace.cli.tables import new_table, print_tables
from armrace.planning import Plan
from armrace.reports.planning import plan_cells, plan_setting

__all__ = ["print_plan"]

_COLUMNS = (
    "policy",
    "no attack\nlost\na day",
    "days to\ndecide",
    "survives\nC",
    "suspected\nruns\nright",
    "lost\na day",
    "days to\ndecide",
)


def print_plan(plan: Plan) -> None:
    """Print the question, one row per policy, and the recommendation."""
    console = Console(highlight=False)
    console.print(f"[dim]{escape(plan_setting(plan.question))}[/dim]\n")
    table = new_table(*_COLUMNS)
    for row in plan_cells(plan):
        table.add_row(*row)
    print_tables(table)
    console.print(plan.recommendation, markup=False)
