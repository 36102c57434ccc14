"""``armrace redteam``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import names, numbers, whole, worker_count
from armrace.cli.completion import complete_attacks
from armrace.cli.execution import INTERRUPTED, say_how_to_go_on
from armrace.cli.experiments import make_environment, make_policy
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    say,
    write_figures,
    write_json,
    write_page,
)
from armrace.cli.simulate import PolicyName

if TYPE_CHECKING:
    from armrace.policies import Policy
    from armrace.red_team import Verdict

__all__ = ["EPILOG", "redteam"]

EPILOG = """\
[bold]Examples[/bold]

armrace redteam thompson --means 0.6,0.4 --budget 100

armrace redteam sharp-race --budgets 30,100,316,1000 --report worst.html

armrace redteam tsallis-inf --budget 300 --objective p95 --effort full --folder search

armrace redteam my_module:MyPolicy --budget 100 --family my_module:MyAttack --json -
"""

Families = Annotated[
    list[str] | None,
    typer.Option(
        "--family",
        metavar="NAMES",
        autocompletion=complete_attacks,
        help="Attacks whose parameters are searched, between commas; may be repeated. By default "
        "two-phase, and blind-two-phase where the policy's distribution is costly.",
        rich_help_panel="Attack",
    ),
]
Effort = Annotated[
    str,
    typer.Option(
        "--effort",
        metavar="NAME",
        help="quick, usual or full: some 500, 2,000 or 10,000 replications for each budget.",
        rich_help_panel="Run",
    ),
]
Objective = Annotated[
    str,
    typer.Option("--objective", metavar="NAME", help="What is made large: mean or p95."),
]


def redteam(
    policy: PolicyName,
    settings: options.PolicySet = None,
    delta: options.Delta = None,
    objective: Objective = "mean",
    measure: options.Measure = "pseudo_regret",
    means: options.Means = None,
    environment: options.Environment = None,
    environment_settings: options.EnvironmentSet = None,
    budget: options.Budgets = None,
    family: Families = None,
    account: options.Account = "largest",
    horizon: options.Horizon = "100000",
    effort: Effort = "usual",
    seed: options.Seed = "0",
    workers: options.Workers = None,
    executor: options.Executor = "threads",
    address: options.Address = None,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    folder: options.Folder = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Search for the attack that costs a policy most, and confirm it on held-out seeds.

    Every built-in attack is tried, the winners of earlier searches, and a family of attacks with
    two phases whose parameters are searched. The figure is the worst found: a lower bound on the
    worst case. Without [bold]--budget[/bold], it is the square root of the horizon. Policies that
    must know the corruption in advance are told the budget.
    """
    from armrace.cli.tables import print_verdict
    from armrace.red_team import redteam as search
    from armrace.reports.redteam import redteam_plots, render_redteam
    from armrace.simulation.executors import check_executor, chosen_executor

    rounds, count = whole("horizon", horizon or ""), worker_count(workers)
    budgets = numbers("budget", budget) if budget else [float(round(rounds**0.5))]
    described = make_environment(means, environment, environment_settings)
    check_executor(executor, address, count)
    check_targets(json, report, figures=figures, force=force)
    verdicts: list[Verdict] = []
    with chosen_executor(executor, address, count) as chosen, _explained_interrupt(folder):
        for spent in sorted(budgets):
            learner = _told(policy, settings, delta, spent)
            verdicts.append(
                search(
                    learner,
                    described,
                    spent,
                    rounds,
                    effort=effort,
                    objective=objective,
                    measure=measure.strip().replace("-", "_"),
                    families=names("family", family, ()) if family else (),
                    attacks=[verdict.attack for verdict in verdicts],
                    account=account,
                    seed=whole("seed", seed),
                    folder=folder,
                    executor=chosen,
                    workers=count,
                )
            )
            if json != STANDARD_OUTPUT:
                print_verdict(verdicts[-1])
    if json is not None:
        data = [verdict.to_builtins() for verdict in verdicts]
        write_json(json, data[0] if len(data) == 1 else data)
    if report is not None:
        write_page(report, render_redteam(verdicts, _command(verdicts)))
    if figures is not None:
        write_figures(figures, redteam_plots(verdicts))


def _told(name: str, settings: list[str] | None, delta: str | None, budget: float) -> Policy:
    """The policy; one that must know the corruption is told the budget unless it is set."""
    from armrace.policies import POLICIES

    given = list(settings or ())
    needs = "corruption" in POLICIES.find(name).__struct_fields__
    if needs and not any(text.startswith("corruption=") for text in given):
        given.append(f"corruption={budget!r}")
    return make_policy(name, given, delta)


@contextmanager
def _explained_interrupt(folder: Path | None) -> Iterator[None]:
    """Turn Ctrl-C into a sentence and an exit code; with a folder, the search can go on."""
    if folder is not None:
        with say_how_to_go_on(folder):
            yield
        return
    try:
        yield
    except KeyboardInterrupt:
        say("armrace: interrupted; give a --folder to keep what is played.")
        raise typer.Exit(INTERRUPTED) from None


def _command(verdicts: list[Verdict]) -> str:
    """The command that searches again; it tells a policy each budget by itself."""
    from armrace.red_team.descriptions import subject_words

    first = verdicts[0]
    target = first.target
    subject = subject_words(target.experiment("none", 1, 0), without=("corruption",))
    budgets = ",".join(f"{verdict.target.budget:g}" for verdict in verdicts)
    options = {
        "--budget": budgets,
        "--horizon": str(target.horizon),
        "--objective": target.objective,
        "--measure": target.measure,
        "--account": target.account,
        "--effort": first.search.effort,
        "--seed": str(first.search.seed),
    }
    flat = [word for pair in options.items() for word in pair]
    return shlex.join(["armrace", "redteam", *subject, *flat])
