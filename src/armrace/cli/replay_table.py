"""A replay in the terminal: a row for each policy and form of the log, then the verdicts."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

from armrace.cli.tables import new_table, print_tables
from armrace.formatting import count, figure, span
from armrace.offline import ESTIMATORS, Estimate, Replay
from armrace.offline.results import AS_LOGGED

__all__ = ["print_replay"]


def print_replay(found: Replay) -> None:
    """Print what became of the rows, the estimates with their intervals, and the verdicts."""
    console = Console(highlight=False)
    for sentence in [*found.row_report.sentences(), found.setting(), *found.warnings]:
        console.print(sentence, markup=False)
    console.print()
    shown = [name for name in ESTIMATORS if name in _names(found)]
    headings = (ESTIMATORS[name].replace(" ", "\n") for name in shown)
    table = new_table("policy", "the\nlog", "rounds", *headings)
    for each in found.policies:
        name = escape(each.policy if each.form == AS_LOGGED else f"  {each.form}")
        cells = [_cell(each.estimate(estimator)) for estimator in shown]
        table.add_row(name, figure(each.logged_mean), count(round(each.rounds)), *cells)
    print_tables(table)
    typer.echo(
        f"Mean reward a round, with {100 * (1 - found.level):g}% intervals. A question mark says "
        "that there\nis not enough data to conclude anything.\n"
    )
    for each in found.policies:
        console.print(each.words, markup=False)


def _names(found: Replay) -> set[str]:
    return {estimate.estimator for each in found.policies for estimate in each.estimates}


def _cell(estimate: Estimate) -> str:
    """The estimate above its interval; a question mark where nothing can be concluded."""
    value = "-" if estimate.value is None else figure(estimate.value)
    mark = "" if estimate.is_enough else "?"
    return f"{value}{mark}\n{span(estimate.low, estimate.high)}"
