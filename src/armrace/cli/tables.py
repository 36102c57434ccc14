"""Figures as tables in the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table

from armrace.formatting import count, figure, percent, span
from armrace.red_team import Verdict
from armrace.red_team.batches import WORST_COLUMNS
from armrace.reports.text import (
    AUDIT_COLUMNS,
    HEADLINE_COLUMNS,
    LEADERBOARD_COLUMNS,
    MEASURE_NAMES,
    audit_rows,
    cell_name,
    half_width,
    headlines,
    interval,
    never_searched,
    own_worst_name,
    own_worst_verdict,
    setting,
    standings,
)
from armrace.simulation import Comparison, Result, Scenario

if TYPE_CHECKING:
    from armrace.offline import Estimate, PolicyReplay, Replay
    from armrace.planning import Plan
    from armrace.verification import Verification

_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_PARTS = 6
_SHOWN_LEAVES = 12


def can_draw(console: Console) -> bool:
    """Whether the output is a terminal that has block characters; what is piped stays plain."""
    return console.is_terminal and console.encoding.startswith("utf")


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as blocks between 0 and the largest of them.

    >>> sparkline([8, 4, 2, 1, 0]) == "\u2588\u2585\u2583\u2582\u2581"
    True
    """
    largest = max(values)
    if largest <= 0:
        return _BLOCKS[0] * len(values)
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(top * max(0.0, value) / largest)] for value in values)


def loss_over_time(result: Result, measure: str) -> str:
    """Draw the mean loss in each sixth of the run: it falls for a policy that learns."""
    curve = result.curves.group_by("round").mean().sort("round")
    rounds = [0.0, *curve["round"].to_list()]
    losses = [0.0, *curve[measure].to_list()]
    edges = np.linspace(0, result.horizon, _PARTS + 1)
    return sparkline(np.diff(np.interp(edges, rounds, losses)).tolist())


_PAID = ("attack\nspent", "seen of\nthat")
_WORDS_WIDTH = 28
"""The width that a column of words is given before a table is printed in parts."""


def new_table(
    *columns: str, words: Collection[str] = (), rows: Iterable[Sequence[str]] = ()
) -> Table:
    """A table of figures, with names in its first column."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        is_left = place == 0 or column in words
        justify: JustifyMethod = "left" if is_left else "right"
        table.add_column(column, justify=justify, no_wrap=column not in words)
    for row in rows:
        table.add_row(*row)
    return table


def print_tables(*tables: Table) -> None:
    """Print tables within the width of the terminal, or within 80 columns where there is none.

    A table that is too wide is printed in parts, each with the first column in front.
    """
    console = Console(highlight=False, markup=False)  # names may have brackets
    for table in tables:
        for part in _parts(table, console):
            console.print(part)
            console.print()


def _parts(table: Table, console: Console) -> list[Table]:
    """The columns in groups that fit; every group begins with the first column."""
    # Measured without a limit: within the width of the terminal every table would seem to fit.
    wide = console.options.update(max_width=10_000)
    first, *others = table.columns
    groups: list[list[Column]] = [[]]
    for column in others:
        together = _with_columns(table, [first, *groups[-1], column], _WORDS_WIDTH)
        if groups[-1] and Measurement.get(console, wide, together).maximum > console.width:
            groups.append([])
        groups[-1].append(column)
    return [_with_columns(table, [first, *group]) for group in groups]


def _with_columns(table: Table, columns: Sequence[Column], most: int | None = None) -> Table:
    """Some of the columns of a table; those of words take the width ``most`` if there is one."""
    part = new_table()
    for column in columns:
        part.add_column(
            column.header, justify=column.justify, no_wrap=column.no_wrap,
            max_width=None if column.no_wrap else most,
        )  # fmt: skip
    texts = [list(column.cells) for column in columns]
    for position, row in enumerate(table.rows):
        part.add_row(*(cells[position] for cells in texts), style=row.style)
    return part


def print_result(result: Result) -> None:
    """One policy: the ledger's figures, and how often each arm was played."""
    table = new_table(result.policy, "mean", "95% interval", "p05", "p50", "p95", "max")
    for measure in result.measures:
        summary = result.figure(measure)
        cells = [figure(summary.mean), interval(result, measure)]
        cells += [figure(number) for number in summary[2:]]
        table.add_row(measure.replace("_", "-"), *cells)
    print_tables(table, _arms(result))
    print_audits({result.policy: result})
    if can_draw(Console(highlight=False)):
        drawn = loss_over_time(result, "pseudo_regret")
        typer.echo(f"Pseudo-regret in each sixth of the run: {drawn}\n")
    typer.echo(
        f"{count(result.replications)} x {count(result.horizon)} rounds in "
        f"{result.seconds:.2g} s: "
        f"{result.horizon * result.replications / max(result.seconds, 1e-9) / 1e6:.2g} million "
        f"rounds a second.{_leapt(result)}"
    )


def _leapt(result: Result) -> str:
    if result.engine == "plain":
        return ""
    played = (1 - result.share_leapt) * result.horizon
    return f" The engine leapt over all but {count(round(played))} of each run's."


def print_audits(results: Mapping[str, Result]) -> None:
    """Print what audits found, if any were made; for a single policy, its first run in words."""
    rows = audit_rows(results)
    if not rows:
        return
    print_tables(new_table("audit", *AUDIT_COLUMNS.values(), rows=rows))
    if len(rows) == 1:
        found = next(iter(results.values())).audits[0]
        typer.echo(f"The first replication:\n{found}\n")


_SHOWN_ARMS = 20


def _arms(result: Result) -> Table:
    """The most played arms first if there are too many to show them all."""
    pulls = result.summary()["pulls"]["mean"]
    corruption = result.final["arm_corruption"].to_numpy().mean(axis=0)
    table = new_table("arm", "mean", "pulls", "share", "corruption")
    order = sorted(range(len(pulls)), key=lambda arm: -pulls[arm])
    for arm in sorted(order[:_SHOWN_ARMS]):
        share = f"{100 * pulls[arm] / result.horizon:.1f}%"
        mean = result.means[arm]
        row = (str(arm), f"{mean:.4g}", figure(pulls[arm]), share, figure(corruption[arm]))
        table.add_row(*row, style="bold" if mean == result.means.max() else None)
    if len(order) > _SHOWN_ARMS:
        table.add_row(f"and {len(order) - _SHOWN_ARMS} arms that were played less")
    return table


def print_story(scenarios: Sequence[Scenario]) -> None:
    """Describe the comparison before its figures are available."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(scenarios[0].name)}[/bold]: {escape(scenarios[0].summary)}")
    console.print(f"[dim]{escape(setting(*scenarios))}[/dim]\n")


def print_comparisons(cells: Sequence[Comparison], *, alone: bool = True) -> None:
    """Many policies, for each attack and budget, and the verdict in words."""
    console = Console(highlight=False)
    for cell in cells:
        if len(cells) > 1 or not alone:
            name = cell_name(next(iter(cell.results.values())).spec)
            console.print(f"[bold]{escape(name)}, for all policies[/bold]")
        _print_comparison(cell)
        print_audits(cell.results)
        if len(cell.results) > 1:
            opening = "" if alone else "Under this attack alone, "
            console.print(f"{opening}{cell.verdict()}\n", markup=False)


def print_headlines(worst: Comparison, shared: Comparison, quiet: Comparison) -> None:
    """Print each policy under its own worst attack, and what it loses under others and none."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(own_worst_verdict(worst, quiet))}[/bold]\n")
    console.print(f"{MEASURE_NAMES[worst.measure]}, {own_worst_name(worst)}", markup=False)
    columns = (name.replace(" ", "\n") for name in HEADLINE_COLUMNS)
    print_tables(new_table(*columns, rows=headlines(worst, shared, quiet)))
    if note := never_searched(worst):
        console.print(f"{note}\n", markup=False)


def _print_comparison(comparison: Comparison) -> None:
    """The smallest mean of the comparison's measure first."""
    drawn = can_draw(Console(highlight=False))
    table = new_table(
        "policy", _heading(comparison.measure), "95%\n+/-", "above best,\njointly 95%",
        "p95\n(rank)", "attack\nspent", *(["loss\nover\ntime"] if drawn else []),
    )  # fmt: skip
    for row in standings(comparison):
        result = comparison.results[row["policy"]]
        table.add_row(
            row["policy"],
            row["mean"],
            half_width(comparison, row["policy"]),
            row["excess"],
            f"{row['p95']} ({row['rank_p95']})",
            row["corruption"],
            *([loss_over_time(result, comparison.measure)] if drawn else []),
        )
    print_tables(table)


def _heading(measure: str) -> str:
    return "mean\n" + MEASURE_NAMES[measure].replace("-", "-\n").replace(" ", "\n")


def print_leaderboard(board: pl.DataFrame) -> None:
    """The arena's policies, those first that lose least under attack."""
    _print_board(board, {k: name.replace(" ", "\n") for k, name in LEADERBOARD_COLUMNS.items()})


def print_worst_standings(board: pl.DataFrame) -> None:
    """The arena's policies under their own worst attacks, those first that lose least."""
    _print_board(board, WORST_COLUMNS)


def _print_board(board: pl.DataFrame, columns: Mapping[str, str]) -> None:
    rows = (
        (row["policy"], *(figure(row[name]) for name in columns))
        for row in board.iter_rows(named=True)
    )
    print_tables(new_table("policy", *columns.values(), rows=rows))


def print_verdict(verdict: Verdict) -> None:
    """Print the worst attack found: its figures, what it does, and how to play it again."""
    spent = ("largest\nchanges", "seen /\nbudget") if verdict.target.sees_arm else _PAID
    table = new_table("attack", "mean", "95%\n+/-", "p95", "max", *spent)
    rows = {"worst found": verdict.held_out, verdict.builtin.tag(): verdict.builtin_held_out}
    for name, found in rows.items():
        half = (found.high - found.low) / 2
        texts = [figure(number) for number in (found.mean, half, found.p95, found.max, found.spent)]
        limit = f" / {figure(verdict.target.budget)}" if verdict.target.sees_arm else ""
        table.add_row(name, *texts, f"{figure(found.seen)}{limit}")
    console = Console(highlight=False)
    console.print(verdict.sentence(), soft_wrap=False, markup=False)
    console.print()
    print_tables(table)
    searched = verdict.search
    console.print(
        f"{verdict.description} It costs {verdict.factor:.2f} times as much as "
        f"{verdict.builtin.tag()}, the best built-in attack. {count(searched.candidates)} attacks "
        f"in {count(searched.replications)} replications; the search saw {verdict.selection:.2f} "
        "times the held-out figure.",
        markup=False,
    )
    typer.echo(
        f"\n{verdict.command or '(a parameter is too long for a command that replays it)'}\n"
    )


_PLAN_COLUMNS = (
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
    from armrace.reports.studies import plan_cells, plan_setting

    console = Console(highlight=False)
    console.print(f"[dim]{escape(plan_setting(plan.question))}[/dim]\n")
    print_tables(new_table(*_PLAN_COLUMNS, rows=plan_cells(plan)))
    console.print(plan.recommendation, markup=False)
    if plan.contexts is not None:
        console.print("\n" + " ".join(plan.contexts.sentences), markup=False)


def print_replay(found: Replay) -> None:
    """Print what became of the rows, the estimates with their intervals, and the verdicts."""
    from armrace.offline import ESTIMATORS

    console = Console(highlight=False)
    for sentence in [*found.row_report.sentences(), found.setting(), *found.warnings]:
        console.print(sentence, markup=False)
    console.print()
    shown = [name for name in ESTIMATORS if name in _names(found)]
    headings = (ESTIMATORS[name].replace(" ", "\n") for name in shown)
    table = new_table("policy", "the\nlog", "rounds", *headings)
    for each in found.policies:
        name = escape(each.policy if each.title == each.policy else f"  {each.form}")
        cells = [_cell(each.estimate(estimator)) for estimator in shown]
        table.add_row(name, figure(each.logged_mean), count(round(each.rounds)), *cells)
    print_tables(table)
    typer.echo(
        f"Mean reward a round, with {100 * (1 - found.level):g}% intervals. A question mark says "
        "that there\nis not enough data to conclude anything.\n"
    )
    for each in found.policies:
        console.print(each.words, markup=False)
    segmented = [each for each in found.policies if len(each.leaves) > 1]
    if segmented:
        console.print()
    for each in segmented:
        _print_leaves(each)


def _print_leaves(each: PolicyReplay) -> None:
    """Print what became of the leaves that have the most rows."""
    table = new_table("leaf", "rows", "the\nlog", "rounds", "effective\nrows", "favourite arm")
    shown = sorted(each.leaves, key=lambda leaf: -leaf.rows)[:_SHOWN_LEAVES]
    for leaf in shown:
        favourite = f"{leaf.favourite} ({percent(leaf.share)})" if leaf.rounds else "-"
        mark = "" if leaf.is_enough else "?"
        table.add_row(
            escape(leaf.leaf), count(leaf.rows), figure(leaf.logged_mean),
            count(round(leaf.rounds)), f"{figure(leaf.effective_rows)}{mark}", escape(favourite),
        )  # fmt: skip
    typer.echo(f"{each.title}, by segment:")
    print_tables(table)
    left = len(each.leaves) - len(shown)
    if left:
        typer.echo(f"And {count(left)} smaller segments.")


def _names(found: Replay) -> set[str]:
    return {estimate.estimator for each in found.policies for estimate in each.estimates}


def _cell(estimate: Estimate) -> str:
    """The estimate above its interval; a question mark where nothing can be concluded."""
    value = "-" if estimate.value is None else figure(estimate.value)
    mark = "" if estimate.is_enough else "?"
    return f"{value}{mark}\n{span(estimate.low, estimate.high)}"


_CLAIM_COLUMNS = ("policy", "runs", "failures", "interval", "limit", "verdict", "setting")


def print_verification(found: Verification) -> None:
    """Print a table per claim, with a row per experiment, and the outcome; failures are bold."""
    from armrace.reports.checks import by_claim, exponent_words, heading, short_interval

    console = Console(highlight=False)
    for claim, checks in by_claim(found).items():
        console.print(f"[bold]{heading(claim)}[/bold]")
        table = new_table(*_CLAIM_COLUMNS, words=("policy", "setting"))
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
