"""``armrace compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from armrace.cli import options
from armrace.cli.comparison_request import (
    Overrides,
    Request,
    at_least_as_bad,
    can_be_swept,
    make_request,
    sweep,
    under_own_worst,
)
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

if TYPE_CHECKING:
    from armrace.simulation import Comparison, Experiment


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
    typer.Option("--no-report", help="Print tables, write no report.", rich_help_panel="Output"),
]
NoWorst = Annotated[
    bool,
    typer.Option(
        "--no-worst",
        help="Play the scenario's own attack only, not each policy's worst.",
        rich_help_panel="Attack",
    ),
]
NoSweep = Annotated[
    bool,
    typer.Option(
        "--no-sweep",
        help="Leave the plot of other budgets out of the report, which saves time.",
        rich_help_panel="Output",
    ),
]


@expanded
def compare(
    *,
    scenario: ScenarioName = "helpful-answers",
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
    """Compare policies, each under the worst attack known for it, and write a report.

    A scenario has arms, an attack, its budget, a length and a list of policies; options replace any
    part of it. The first table shows each policy under the worst of up to thirteen attacks that are
    tried on it, among them those that searches have found, and what it loses without an attack. The
    second shows all policies under the scenario's own attack. With [bold]--attack[/bold], only the
    attacks that you name are played; several attacks or budgets get a table and a verdict each. A
    policy that has to know the amount of corruption in advance is told the attack's budget.
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
        found = _compare(request, cells, json, own_worst=own_worst)
        swept = can_be_swept(request) and not no_sweep
        if page is not None or figures is not None:
            _write_files(page, figures, request, found, swept=swept)
    end(next(iter(found.shared[0].results.values())))


class _Found(NamedTuple):
    """What was played: under the attacks that all share, under each policy's own, and quiet."""

    shared: list[Comparison]
    worst: list[Comparison]
    quiet: list[Comparison]


def _compare(
    request: Request, cells: list[list[Experiment]], json: Path | None, *, own_worst: bool
) -> _Found:
    """Run the comparison and show its figures."""
    from armrace.cli.tables import print_comparisons, print_headlines, print_story
    from armrace.simulation import Comparison

    if not request.is_grid:
        warn_of_idle_attack(request.scenario.adversary, request.scenario.budget)
    warn_of_long_run([experiment for cell in cells for experiment in cell])
    if json != STANDARD_OUTPUT:
        print_story(request.scenarios)
    played = [*cells]
    if own_worst:
        quiet = request.scenario.experiments(request.policies, budget=0.0, seed=request.seed)
        played += [_under_own_worst(request, cells[0]), quiet]
    results = run_cells(played, request.workers, request.executor, request.folder)
    every = [Comparison(each, request.measure) for each in results]
    found = _Found(every[: len(cells)], every[len(cells) :][:1], every[len(cells) + 1 :])
    if own_worst:
        found = found._replace(worst=[at_least_as_bad(found.worst[0], found.shared[0])])
    if json != STANDARD_OUTPUT:
        if own_worst:
            print_headlines(found.worst[0], found.shared[0], found.quiet[0])
        print_comparisons(found.shared, alone=not own_worst)
    if json is not None:
        told = [*found.shared, *found.worst, *found.quiet]
        write_json(json, [entry for each in told for entry in each.to_builtins()])
    return found


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
    found: _Found,
    *,
    swept: bool,
) -> None:
    """Write page and figures; an interruption costs them the sweep, not what came before."""
    from armrace.reports.comparison import comparison_plots, grid_plots, render_grid, render_report

    main = found.shared[0]
    interrupted = next(iter(main.results.values())).interrupted
    sweeps = {0.0: found.quiet[0]} if found.quiet else {}
    try:
        if swept and not interrupted:
            sweeps = sweep(request, {**sweeps, request.scenario.budget: main})
    finally:
        story, command = request.scenario, request.command()
        if request.could_show_worst and not found.worst:
            command += " --no-worst"
        if page is not None and request.is_grid:
            write_page(page, render_grid(found.shared, story.name, story.summary, command))
        elif page is not None:
            text = render_report(main, story.name, story.summary, command, sweeps, found.worst)
            write_page(page, text)
        if figures is not None:
            plots = (
                grid_plots(found.shared)
                if request.is_grid
                else comparison_plots(main, sweeps, found.worst)
            )
            write_figures(figures, plots)
