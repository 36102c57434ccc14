"""``armrace compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.budget_sweep import can_be_swept, sweep
from armrace.cli.comparison_request import Overrides, Request, make_request
from armrace.cli.completion import complete_scenarios
from armrace.cli.execution import end, run_cells
from armrace.cli.experiments import audit_level, warn_of_idle_attack, warn_of_long_run
from armrace.cli.option_groups import Computing, expanded
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    page_place,
    write_figures,
    write_json,
    write_page,
)
from armrace.cli.own_worst import under_own_worst

if TYPE_CHECKING:
    from armrace.simulation import Comparison, Experiment

__all__ = ["EPILOG", "compare"]

_PAGE = "armrace-report.html"

EPILOG = """\
[bold]Examples[/bold]

armrace compare

armrace compare fake-reviews --policies all --measure regret --report reviews.html

armrace compare --policies sharp-race,exp3 --set sharp-race.delta=0.01 --set exp3.learning-rate=0.1

armrace compare click-fraud --attack zero-best --budget 1000 --horizon 1e6 --json figures.json

armrace compare quiet --means 0.9,0.8,0.7 --replications 100 --no-report

armrace compare --horizon 1e6 --folder sweep --executor dask --address tcp://127.0.0.1:8786

armrace compare --policies multi-layer-race,ucb1,tsallis-inf --attack zero-best,swap-best \
--budget 0,100,1000 --horizon 1e5
"""

ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=complete_scenarios,
        help="Arms, attack and length; see [bold]armrace scenarios[/bold].",
    ),
]
PolicySet = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="POLICY.KEY=VALUE",
        help="A parameter of one of the policies; may be repeated.",
    ),
]
Report = Annotated[Path | None, options.usual_report(_PAGE)]
NoReport = Annotated[
    bool,
    typer.Option("--no-report", help="The table only, no page.", rich_help_panel="Output"),
]
NoWorst = Annotated[
    bool,
    typer.Option(
        "--no-worst",
        help="Leave out each policy under its own worst attack, which is played too unless "
        "[bold]--attack[/bold] is given.",
        rich_help_panel="Attack",
    ),
]
NoSweep = Annotated[
    bool,
    typer.Option(
        "--no-sweep",
        help="Leave regret against corruption out of the page; it takes half the time.",
        rich_help_panel="Output",
    ),
]


@expanded
def compare(
    *,
    scenario: ScenarioName = "click-fraud",
    policies: options.Policies = None,
    settings: PolicySet = None,
    measure: options.Measure = "pseudo_regret",
    overrides: Overrides,
    no_worst: NoWorst = False,
    seed: options.Seed = "0",
    computing: Computing,
    audit: options.Audit = False,
    level: options.AuditLevel = None,
    json: options.Json = None,
    folder: options.Folder = None,
    report: Report = None,
    no_report: NoReport = False,
    no_sweep: NoSweep = False,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Compare policies on the same rewards under the same attacks, and write a report.

    A scenario is a story with arms, an attack and a length; every part of it can be overridden.
    Without [bold]--policies[/bold], eight that a user would weigh are compared. Several attacks or
    budgets make a grid, with a table and a verdict for each pair of them. Policies that must know
    the corruption in advance are told the attack's budget. One attack tells little of another, so a
    second table shows each policy under the worst of some attacks that are tried on it, among them
    those that searches have found.
    """
    from armrace.simulation.scenarios import find_scenario

    request = make_request(
        find_scenario(scenario),
        overrides,
        policies=policies,
        settings=settings,
        measure=measure,
        seed=seed,
        workers=computing.number_of_workers,
        audit=audit_level(audit, level),
    )
    page = None if no_report else page_place(report, _PAGE)
    computing.check()
    cells, own_worst = request.cells(), request.could_show_worst and not no_worst
    check_targets(json, page, figures=figures, force=force)
    with computing.start() as executor:
        request = request._replace(executor=executor, folder=folder)
        comparisons = _compare(request, cells, json, own_worst=own_worst)
        swept = can_be_swept(request) and not no_sweep
        if page is not None or figures is not None:
            _write_files(page, figures, request, comparisons, swept=swept)
    end(next(iter(comparisons[0].results.values())))


def _compare(
    request: Request, cells: list[list[Experiment]], json: Path | None, *, own_worst: bool
) -> list[Comparison]:
    """Run the comparison and show its figures."""
    from armrace.cli.tables import print_comparisons, print_story
    from armrace.simulation import Comparison

    if not request.is_grid:
        warn_of_idle_attack(request.scenario.adversary, request.scenario.budget)
    warn_of_long_run([experiment for cell in cells for experiment in cell])
    if json != STANDARD_OUTPUT:
        print_story(request.scenarios)
    if own_worst:
        cells = [*cells, _under_own_worst(request, cells[0])]
    found = run_cells(cells, request.workers, request.executor, request.folder)
    comparisons = [Comparison(results, request.measure) for results in found]
    if json != STANDARD_OUTPUT:
        shared = comparisons[:-1] if own_worst else comparisons
        print_comparisons(shared, comparisons[len(shared) :])
    if json is not None:
        write_json(json, [entry for each in comparisons for entry in each.to_builtins()])
    return comparisons


def _under_own_worst(request: Request, cell: list[Experiment]) -> list[Experiment]:
    """Try attacks on each policy, after the policies are compiled and the user was told so."""
    from armrace.files import make_folder
    from armrace.simulation.compilation import compile_experiments

    if request.folder is not None:
        make_folder(request.folder)  # refused before anything is compiled
    compile_experiments(cell, request.executor)
    return under_own_worst(cell, request.executor, request.workers)


def _write_files(
    page: Path | None,
    figures: Path | None,
    request: Request,
    comparisons: list[Comparison],
    *,
    swept: bool,
) -> None:
    """Write page and figures; an interruption costs them the sweep, not what came before."""
    from armrace.reports.page import comparison_plots, grid_plots, render_grid, render_report

    interrupted = next(iter(comparisons[0].results.values())).interrupted
    main, *worst = comparisons
    sweeps: dict[float, Comparison] = {}
    try:
        if swept and not interrupted:
            sweeps = sweep(request, main)
    finally:
        story, command = request.scenario, request.command()
        if request.could_show_worst and len(comparisons) == 1:
            command += " --no-worst"
        if page is not None and request.is_grid:
            write_page(page, render_grid(comparisons, story.name, story.summary, command))
        elif page is not None:
            text = render_report(main, story.name, story.summary, command, sweeps, worst)
            write_page(page, text)
        if figures is not None:
            plots = (
                grid_plots(comparisons)
                if request.is_grid
                else comparison_plots(main, sweeps, worst)
            )
            write_figures(figures, plots)
