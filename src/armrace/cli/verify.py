"""``armrace verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import names, whole
from armrace.cli.completion import complete_policies
from armrace.cli.execution import INTERRUPTED
from armrace.cli.option_groups import Computing, expanded
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    say,
    write_figures,
    write_json,
    write_page,
)
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.verification import Verification


_REFUTED = 1

EPILOG = """\
[bold]Examples[/bold]

armrace verify --quick

armrace verify --policy multi-layer-race --report verification.html

armrace verify --quick --policy optimistic-log-barrier

armrace verify --asymptotic --report growth.html

armrace verify --json verification.json --report verification.html
"""

Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer and shorter runs: about a minute."),
]
Asymptotic = Annotated[
    bool,
    typer.Option(
        "--asymptotic",
        help="Show how regret grows up to 10^12 rounds and a corruption of 10^6 instead.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "--policies",
        metavar="NAMES",
        autocompletion=complete_policies,
        help="Which races, guards and leaders, between commas; by default all, with UCB1 under the "
        "lower bounds.",
    ),
]


@expanded
def verify(
    *,
    quick: Quick = False,
    asymptotic: Asymptotic = False,
    policies: Policies = None,
    seed: options.Seed = "0",
    computing: Computing,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Check theorems by experiment, and that races, guards and leaders run as proofs assume.

    Each row is a claim about a policy: the theorem that it tries, how many runs there were, in how
    many it failed, and a confidence interval of what is measured. A claim fails only where chance
    would hardly explain it: with probability 99%, no true claim of the whole table is called
    refuted. The exit code is 1 if some claim fails.
    """
    chosen, number = _chosen(policies), whole("seed", seed)
    computing.check()
    if figures is not None and not asymptotic:
        raise InvalidParameter("--figures needs --asymptotic; other forms draw tables only.")
    check_targets(json, report, figures=figures, force=force)
    with computing.start() as executor:
        found = _run(chosen, quick, asymptotic, number, executor, computing.number_of_workers)
    if json is not None:
        write_json(json, found.to_builtins())
    if json != STANDARD_OUTPUT:
        _print(found)
    if report is not None:
        _write_report(report, found, _command(quick, asymptotic, chosen, number))
    if figures is not None:
        from armrace.reports.checks import verification_plots

        write_figures(figures, verification_plots(found))
    if not found.holds:
        raise typer.Exit(_REFUTED)


def _chosen(policies: list[str] | None) -> list[str] | None:
    """Return the policies that are named; None for all, as without a name."""
    if policies is None:
        return None
    return names("policy", policies, known=()) or None


def _run(
    chosen: list[str] | None,
    quick: bool,
    asymptotic: bool,
    seed: int,
    executor: Executor | None,
    workers: int | None,
) -> Verification:
    from armrace import verification

    try:
        return verification.verify(
            chosen,
            quick=quick,
            asymptotic=asymptotic,
            seed=seed,
            executor=executor,
            workers=workers,
        )
    except KeyboardInterrupt:
        say("armrace: interrupted before all claims were tried.")
        raise typer.Exit(INTERRUPTED) from None


def _print(found: Verification) -> None:
    from armrace.cli.tables import print_verification

    print_verification(found)


def _write_report(page: Path, found: Verification, command: str) -> None:
    from armrace.reports.checks import render_verification

    write_page(page, render_verification(found, command))


def _command(quick: bool, asymptotic: bool, chosen: list[str] | None, seed: int) -> str:
    """The command line that tries the same claims."""
    form = (" --quick" if quick else "") + (" --asymptotic" if asymptotic else "")
    policies = "" if chosen is None else f" --policy {','.join(chosen)}"
    return f"armrace verify{form}{policies} --seed {seed}"
