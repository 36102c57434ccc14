"""``armrace compare``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from armrace.cli import options
from armrace.cli.arguments import (
    attack_names,
    audit_level,
    make_attack,
    make_environment,
    names,
    numbers,
    policy_assignments,
    warn_of_idle_attack,
    warn_of_long_run,
    whole,
)
from armrace.cli.options import Computing, complete_scenarios, expanded
from armrace.cli.outputs import (
    INTERRUPTED,
    STANDARD_OUTPUT,
    check_targets,
    end,
    page_place,
    run_cells,
    write_figures,
    write_json,
    write_page,
)
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.simulation import Comparison, Experiment, Scenario


class Overrides(NamedTuple):
    """The options that change a scenario, as they were given."""

    means: options.Means = None
    environment: options.EnvironmentName = None
    environment_settings: options.EnvironmentSet = None
    attack: options.Attacks = None
    attack_settings: options.AttackSet = None
    budget: options.Budgets = None
    horizon: options.Horizon = None
    replications: options.Replications = None

    @property
    def changes_arms(self) -> bool:
        """Whether the arms are others than the scenario's."""
        return bool(self.means or self.environment or self.environment_settings)

    def words(self) -> list[str]:
        """The options that say more than a number, to be given again."""
        attacks = attack_names("attack", self.attack) if self.attack else []
        lists: dict[str, Sequence[str]] = {
            "--means": self.means or (),
            "--environment": [self.environment] if self.environment else (),
            "--environment-set": self.environment_settings or (),
            "--attack": [",".join(attacks)] if attacks else (),
            "--attack-set": self.attack_settings or (),
        }
        return [
            word for option, texts in lists.items() for text in texts for word in (option, text)
        ]


class Request(NamedTuple):
    """A comparison before it is run."""

    scenarios: list[Scenario]
    """One for each attack and budget; all else they share."""
    policies: list[dict[str, Any]]
    """Names and parameters."""
    policy_settings: list[str]
    """The parameters of policies as they were given."""
    seed: int
    workers: int | None
    overrides: Overrides
    audit: float | None
    """The level of an audit, if one is asked for."""
    measure: str
    """The figure that ranks the policies."""
    executor: Executor | None = None
    """What runs the replications, once it is started; None stands for threads."""
    folder: Path | None = None
    """Where finished results are kept, if anywhere."""

    @property
    def scenario(self) -> Scenario:
        """The only scenario, or the first for all that they share."""
        return self.scenarios[0]

    @property
    def is_grid(self) -> bool:
        """Whether there are several attacks or budgets."""
        return len(self.scenarios) > 1

    @property
    def could_show_worst(self) -> bool:
        """Whether each policy can also be shown under an attack of its own: none was named."""
        return not self.is_grid and not self.overrides.attack and self.scenario.budget > 0

    def cells(self) -> list[list[Experiment]]:
        """Make a cell for each attack and budget: one experiment for each policy."""
        return [
            each.experiments(self.policies, seed=self.seed, audit=self.audit)
            for each in self.scenarios
        ]

    def command(self) -> str:
        """Return the command line that runs it again, independently of future defaults."""
        story = self.scenario
        budgets = dict.fromkeys(f"{each.budget:.17g}" for each in self.scenarios)
        words = ["armrace", "compare", story.name]
        words += ["--policies", ",".join(policy["name"] for policy in self.policies)]
        words += [word for text in self.policy_settings for word in ("--set", text)]
        words += self.overrides.words()
        words += ["--budget", ",".join(budgets), "--horizon", str(story.horizon)]
        words += ["--replications", str(story.replications), "--seed", str(self.seed)]
        words += ["--measure", self.measure]
        if self.audit is not None:
            words += ["--audit-level", repr(self.audit)]
        return shlex.join(words)


def make_request(
    scenario: Scenario,
    overrides: Overrides,
    *,
    policies: Sequence[str] | None,
    settings: Sequence[str] | None,
    measure: str,
    seed: str,
    workers: int | None,
    audit: float | None,
) -> Request:
    """Make a request from the text of its options."""
    from armrace.policies import POLICIES

    listed = names("policies", policies, POLICIES) if policies else list(scenario.policies)
    for name in listed:
        POLICIES.find(name)  # a wrong name is refused before a parameter of it
    parameters = policy_assignments(settings or (), listed)
    return Request(
        scenarios=override(scenario, overrides),
        policies=[{"name": name, **parameters.get(name, {})} for name in listed],
        policy_settings=list(settings or ()),
        seed=whole("seed", seed),
        workers=workers,
        overrides=overrides,
        audit=audit,
        measure=_measure(measure),
    )


def _measure(text: str) -> str:
    from armrace.simulation.results import check_measure

    name = text.strip().replace("-", "_")
    check_measure(name)
    return name


def override(scenario: Scenario, given: Overrides) -> list[Scenario]:
    """The scenario with what the options change, for each attack and budget."""
    changes: dict[str, Any] = {}
    if given.changes_arms:
        changes["environment"] = make_environment(
            given.means, given.environment, given.environment_settings
        )
    if given.horizon is not None:
        changes["horizon"] = whole("horizon", given.horizon)
    if given.replications is not None:
        changes["replications"] = whole("replications", given.replications)
    if changes.keys() - {"replications"} or given.attack or given.attack_settings or given.budget:
        changes["summary"] = f"A variation of the scenario {scenario.name}."
    changed = msgspec.structs.replace(scenario, **changes)
    budgets = numbers("budget", given.budget) if given.budget else [scenario.budget]
    return [
        msgspec.structs.replace(changed, adversary=adversary, budget=budget)
        for adversary in _attacks(scenario, given)
        for budget in budgets
    ]


def _attacks(scenario: Scenario, given: Overrides) -> list[Any]:
    if not given.attack:
        return [make_attack(None, given.attack_settings, usual=scenario.adversary)]
    listed = attack_names("attack", given.attack)
    if given.attack_settings and len(listed) > 1:
        raise InvalidParameter(f"--attack-set needs a single --attack; got {', '.join(listed)}.")
    return [make_attack(name, given.attack_settings, usual=scenario.adversary) for name in listed]


_FACTORS = (1 / 16, 1 / 4, 4)
_SHARE_OF_REPLICATIONS = 4
"""The sweep has this many times fewer replications than the comparison: it shows the trend."""


def can_be_swept(request: Request) -> bool:
    """Whether there is exactly one attack and it has a budget."""
    story = request.scenario
    return not request.is_grid and story.adversary.tag() != "none" and story.budget > 0


def budgets_around(budget: float) -> list[float]:
    """No budget, a few smaller ones and a larger one.

    >>> budgets_around(4000)
    [0.0, 250.0, 1000.0, 16000.0]
    """
    return [0.0, *(float(budget * factor) for factor in _FACTORS)]


def sweep(request: Request, known: dict[float, Comparison]) -> dict[float, Comparison]:
    """Run the same comparison at the budgets that are not known yet, with fewer replications.

    All policies are played, even those that the plot leaves out. A distribution that is costly to
    compute is not refreshed in every round for attacks that read it.
    """
    from armrace.simulation import Comparison

    asked = request.scenario.replications
    fewer = min(asked, max(2, asked // _SHARE_OF_REPLICATIONS))
    quick = msgspec.structs.replace(request.scenario, replications=fewer)
    budgets = [each for each in budgets_around(quick.budget) if each not in known]
    cells = [
        quick.experiments(request.policies, budget=each, seed=request.seed, refreshed=True)
        for each in budgets
    ]
    results = run_cells(cells, request.workers, request.executor, request.folder)
    if results[0][0].interrupted:
        raise typer.Exit(INTERRUPTED)
    compared = [Comparison(each, request.measure) for each in results]
    return {**known, **dict(zip(budgets, compared, strict=True))}


def under_own_worst(
    cell: Sequence[Experiment], executor: Executor | None, workers: int | None
) -> list[Experiment]:
    """Return the same experiments, each with the attack that trials showed to be its worst.

    Tried are the cell's own attack, what searches have found for the policy in similar settings,
    and some fixed attacks; the trials have other seeds than the experiments.
    """
    from armrace.red_team.library import worst_known
    from armrace.red_team.target import Target
    from armrace.simulation.experiment import refresh_for

    attacked = []
    for experiment in cell:
        target = Target(
            policy=experiment.policy,
            environment=experiment.environment,
            budget=experiment.budget,
            horizon=experiment.horizon,
        )
        own = experiment.adversary
        attack = worst_known(target, experiment.seed, [own], executor, workers)
        refresh = refresh_for(experiment.policy, attack)
        attacked.append(msgspec.structs.replace(experiment, adversary=attack, refresh=refresh))
    return attacked


def at_least_as_bad(own: Comparison, shared: Comparison) -> Comparison:
    """Return ``own`` with the shared attack for policies to which that has cost more after all.

    A few trials choose an attack, so the choice can be wrong; the table would then show a worst
    attack that costs less than the one beside it.
    """
    from armrace.simulation import Comparison

    pairs = zip(own.results.values(), shared.results.values(), strict=True)
    costlier = [max(pair, key=lambda result: result.figure(own.measure).mean) for pair in pairs]
    return Comparison(costlier, own.measure)


_PAGE = "armrace-report.html"

EPILOG = options.examples(
    "armrace compare",
    "armrace compare fake-reviews --policies all --measure regret --report reviews.html",
    "armrace compare --policies sharp-race,exp3 --set sharp-race.delta=0.01 --set "
    "exp3.learning-rate=0.1",
    "armrace compare click-fraud --attack zero-best --budget 1000 --horizon 1e6 --json "
    "figures.json",
    "armrace compare quiet --means 0.9,0.8,0.7 --replications 100 --no-report",
    "armrace compare --horizon 1e6 --folder sweep --executor dask --address tcp://127.0.0.1:8786",
    "armrace compare --policies multi-layer-race,ucb1,tsallis-inf --attack "
    "zero-best,swap-best --budget 0,100,1000 --horizon 1e5",
)

ScenarioName = Annotated[
    str,
    options.argument(
        "SCENARIO",
        "Arms, attack and length; see [bold]armrace scenarios[/bold].",
        autocompletion=complete_scenarios,
    ),
]
PolicySet = Annotated[
    list[str] | None,
    options.option(
        "--set POLICY.KEY=VALUE", "A parameter of one of the policies; may be repeated."
    ),
]
Report = Annotated[Path | None, options.usual_report(_PAGE)]
NoReport = Annotated[bool, options.output_option("--no-report", "Print tables, write no report.")]
NoWorst = Annotated[
    bool,
    options.attack_option(
        "--no-worst", "Play the scenario's own attack only, not each policy's worst."
    ),
]
NoSweep = Annotated[
    bool,
    options.output_option(
        "--no-sweep", "Leave the plot of other budgets out of the report, which saves time."
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
