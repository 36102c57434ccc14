"""``armrace compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.experiments import audit_level, warn_of_idle_attack, warn_of_long_run
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    say,
    write_json,
)
from armrace.cli.parsing import place
from armrace.cli.requests import Request, make_request, override
from armrace.cli.running import end, run_batches
from armrace.cli.sweeping import can_be_swept, sweep

if TYPE_CHECKING:
    from armrace.simulation import Comparison, Experiment

__all__ = ["EPILOG", "compare"]

EPILOG = """\
[bold]Examples[/bold]

armrace compare

armrace compare fake-reviews --policies multi-layer-race,ucb1 --report reviews.html

armrace compare click-fraud --attack zero-best --budget 1000 --horizon 1e6 --json figures.json

armrace compare quiet --means 0.9,0.8,0.7 --replications 100 --no-report

armrace compare --horizon 1e6 --folder sweep --executor dask --address tcp://127.0.0.1:8786

armrace compare --policies multi-layer-race,ucb1,tsallis-inf --attack zero-best,swap-best \
--budget 0,100,1000 --horizon 1e5
"""

ScenarioName = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="The story; see [bold]armrace scenarios[/bold]."),
]
Policies = Annotated[
    str | None,
    typer.Option("--policies", metavar="NAMES", help="Which policies, between commas; or all."),
]
Attacks = Annotated[
    str | None,
    typer.Option(
        "--attack",
        metavar="NAMES",
        help="Who corrupts the feedback, one or several between commas; see "
        "[bold]armrace attacks[/bold].",
        rich_help_panel="Attack",
    ),
]
Budgets = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="NUMBERS",
        help="The most that the attack may spend, one or several between commas.",
        rich_help_panel="Attack",
    ),
]
Report = Annotated[
    Path,
    typer.Option(
        "--report",
        metavar="FILE",
        parser=place,
        help="Where the HTML page goes.",
        rich_help_panel="Output",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        parser=place,
        help="Keep what is finished there, as Parquet files; what is there is not played again.",
        rich_help_panel="Output",
    ),
]
NoReport = Annotated[
    bool,
    typer.Option("--no-report", help="The table only, no page.", rich_help_panel="Output"),
]
NoSweep = Annotated[
    bool,
    typer.Option(
        "--no-sweep",
        help="Leave regret against corruption out of the page; it takes half the time.",
        rich_help_panel="Output",
    ),
]


def compare(
    scenario: ScenarioName = "click-fraud",
    policies: Policies = None,
    means: options.Means = None,
    attack: Attacks = None,
    attack_settings: options.AttackSet = None,
    budget: Budgets = None,
    horizon: options.Horizon = None,
    replications: options.Replications = None,
    seed: options.Seed = "0",
    workers: options.Workers = None,
    executor: options.Executor = "threads",
    address: options.Address = None,
    audit: options.Audit = False,
    level: options.AuditLevel = None,
    json: options.Json = None,
    folder: Folder = None,
    report: Report = Path("armrace-report.html"),
    no_report: NoReport = False,
    no_sweep: NoSweep = False,
) -> None:
    """Compare policies on the same rewards under the same attacks, and write a report.

    A scenario is a story with arms, an attack and a length; every part of it can be overridden.
    Several attacks or budgets make a grid, with a table and a verdict for each pair of them.
    Policies that must know the corruption in advance are told the attack's budget.
    """
    from armrace.simulation.executors import check_executor, chosen_executor
    from armrace.simulation.scenarios import find_scenario

    stories, words = override(
        find_scenario(scenario),
        means,
        attack,
        attack_settings or [],
        budget,
        horizon,
        replications,
    )
    request = make_request(stories, policies, seed, workers, words, audit_level(audit, level))
    page = None if no_report else report
    check_executor(executor, address, request.workers)
    batches = request.batches()
    check_targets(json, page)
    with chosen_executor(executor, address, request.workers) as chosen:
        request = request._replace(executor=chosen, folder=folder)
        cells = _compare(request, batches, json)
        if page is not None:
            _write_report(page, request, cells, swept=can_be_swept(request) and not no_sweep)
    end(next(iter(cells[0].results.values())))


def _compare(
    request: Request, batches: Sequence[Sequence[Experiment]], json: Path | None
) -> list[Comparison]:
    """Run the comparison and show its figures."""
    from armrace.cli.tables import print_comparisons, print_story
    from armrace.simulation import Comparison

    if not request.is_grid:
        warn_of_idle_attack(request.scenario.adversary, request.scenario.budget)
    warn_of_long_run([experiment for batch in batches for experiment in batch])
    if json != STANDARD_OUTPUT:
        print_story(request.scenarios)
    found = run_batches(batches, request.workers, request.executor, request.folder)
    cells = [Comparison(results) for results in found]
    if json != STANDARD_OUTPUT:
        print_comparisons(cells)
    if json is not None:
        write_json(json, [entry for cell in cells for entry in cell.to_builtins()])
    return cells


def _write_report(page: Path, request: Request, cells: list[Comparison], *, swept: bool) -> None:
    """Write the page; an interruption costs it the sweep, not what came before."""
    from armrace.files import write_text
    from armrace.reports.page import render_grid, render_report

    interrupted = next(iter(cells[0].results.values())).interrupted
    sweeps: dict[float, Comparison] = {}
    try:
        if swept and not interrupted:
            sweeps = sweep(request, cells[0])
    finally:
        story, command = request.scenario, request.command()
        if request.is_grid:
            text = render_grid(cells, story.name, story.summary, command)
        else:
            text = render_report(cells[0], story.name, story.summary, command, sweeps)
        write_text(page, text)
        say(f"The report is in {page}.")
