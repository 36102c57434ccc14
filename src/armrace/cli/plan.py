"""``armrace plan``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.experiments import attack_names
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, say, write_json
from armrace.cli.parsing import names, number, place, share, shares, whole, worker_count
from armrace.cli.running import INTERRUPTED

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.planning import Plan, Question

__all__ = ["EPILOG", "plan"]

EPILOG = """\
[bold]Examples[/bold]

armrace plan --means 0.05,0.04,0.04,0.035,0.03,0.03 --traffic 200000 --days 5 --forged 0.03%

armrace plan --arms 6 --gap 0.01 --base-rate 0.04 --traffic 200000 --days 5 --forged 0.03%

armrace plan --arms 3 --gap 0.1 --traffic 1e4 --policies multi-layer-race,ucb1,tsallis-inf --json -
"""

_ARMS, _ATTACK, _RUN, _OUTPUT = "Arms", "Attack", "Run", "Output"

Arms = Annotated[
    str | None,
    typer.Option(
        "--arms",
        metavar="NUMBER",
        help="In place of the means: how many arms, of which one is better by the gap.",
        rich_help_panel=_ARMS,
    ),
]
Gap = Annotated[
    str | None,
    typer.Option(
        "--gap",
        metavar="NUMBER",
        help="The smallest difference worth caring about; with [bold]--means[/bold], arms that "
        "lack less are as good as the best.",
        rich_help_panel=_ARMS,
    ),
]
BaseRate = Annotated[
    str | None,
    typer.Option(
        "--base-rate",
        metavar="NUMBER",
        help="The mean of the other arms, with [bold]--arms[/bold]; by default 0.5, the hardest.",
        rich_help_panel=_ARMS,
    ),
]
Traffic = Annotated[
    str,
    typer.Option("--traffic", metavar="NUMBER", help="Decisions a day.", show_default=False),
]
Days = Annotated[str, typer.Option("--days", metavar="NUMBER", help="Days at most.")]
Forged = Annotated[
    str,
    typer.Option(
        "--forged",
        metavar="SHARE",
        help="Which share of all feedback may be forged, as 0.01 or 1%: C is this share of the "
        "decisions, since a forged feedback changes a reward by at most 1. Feedback without a "
        "click counts too: 1% of the clicks at a rate of 5% is a share of 0.05%.",
        rich_help_panel=_ATTACK,
    ),
]
Attacks = Annotated[
    str | None,
    typer.Option(
        "--attacks",
        metavar="NAMES",
        help="Which attacks, between commas, or all; by default one that strikes at once, one that "
        "strikes where it is seen, and one that waits.",
        rich_help_panel=_ATTACK,
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        "--policies",
        metavar="NAMES",
        help="Which policies, between commas, or all; by default some of each kind.",
    ),
]
Delta = Annotated[
    str,
    typer.Option(
        "--delta",
        metavar="NUMBER",
        help="The chance that a policy's guarantee may fail, for those that have one.",
    ),
]
Rounds = Annotated[
    str,
    typer.Option(
        "--rounds",
        metavar="NUMBER",
        help="The most decisions that are simulated, up to 1e7; if the days have more, the plan is "
        "for the first of them.",
        rich_help_panel=_RUN,
    ),
]
Report = Annotated[
    Path,
    typer.Option(
        "--report",
        metavar="FILE",
        parser=place,
        help="Where the HTML page goes.",
        rich_help_panel=_OUTPUT,
    ),
]


def plan(
    traffic: Traffic,
    days: Days = "14",
    policies: Policies = None,
    delta: Delta = "0.05",
    means: options.Means = None,
    arms: Arms = None,
    gap: Gap = None,
    base_rate: BaseRate = None,
    forged: Forged = "1%",
    attacks: Attacks = None,
    rounds: Rounds = "1000000",
    replications: options.Replications = "20",
    seed: options.Seed = "0",
    workers: options.Workers = None,
    executor: options.Executor = "threads",
    address: options.Address = None,
    json: options.Json = None,
    report: Report = Path("armrace-plan.html"),
) -> None:
    """How much corruption each policy survives on your arms and traffic, and what it costs.

    Budgets of corruption C are tried from small to large. A policy survives C if at that and all
    smaller budgets, under every attack, at least 95% of the runs end right: in the last part of
    the run (a quarter of it, up to 44%) more than half of the plays go to the best arm, or to one
    that lacks less than the gap.

    The cost is the mean pseudo-regret, in lost clicks a day; under attack that of the costliest
    attack. A run has decided once it gives 90% of its plays to one arm until the end; the table
    says after how many days 95% of the runs had.

    Rates, shares and probabilities may be given as 0.05 or as 5%.
    """
    from armrace.planning import make_question
    from armrace.policies import POLICIES
    from armrace.simulation.executors import check_executor, chosen_executor

    question = make_question(
        None if means is None else shares("means", means),
        arms=None if arms is None else whole("arms", arms),
        gap=None if gap is None else share("gap", gap),
        base_rate=None if base_rate is None else share("base-rate", base_rate),
        traffic=number("traffic", traffic),
        days=number("days", days),
        forged=share("forged", forged),
        delta=share("delta", delta),
        replications=whole("replications", replications or ""),
        seed=whole("seed", seed),
        rounds=whole("rounds", rounds),
        **{} if policies is None else {"policies": names("policies", policies, POLICIES)},
        **{} if attacks is None else {"attacks": attack_names("attacks", attacks)},
    )
    count = worker_count(workers)
    check_executor(executor, address, count)
    check_targets(json, report)
    with chosen_executor(executor, address, count) as pool:
        found = _answer(question, pool, count)
    if json is not None:
        write_json(json, found.to_builtins())
    if json != STANDARD_OUTPUT:
        from armrace.cli.plan_table import print_plan

        print_plan(found)
    _write_report(report, found)


def _answer(question: Question, executor: Executor | None, workers: int | None) -> Plan:
    from armrace.planning import answer

    try:
        return answer(question, executor, workers)
    except KeyboardInterrupt:
        say("armrace: interrupted; half a plan would mislead, so nothing of it is kept.")
        raise typer.Exit(INTERRUPTED) from None


def _write_report(page: Path, found: Plan) -> None:
    from armrace.files import write_text
    from armrace.reports.planning import render_plan

    write_text(page, render_plan(found, command(found.question)))
    say(f"The report is in {page}.")


def command(question: Question) -> str:
    """The command line that asks the same again, whatever the defaults become."""
    words = {
        "--means": ",".join(f"{mean!r}" for mean in question.means),
        "--gap": f"{question.gap!r}",
        "--traffic": f"{question.traffic!r}",
        "--days": f"{question.days!r}",
        "--forged": f"{question.forged!r}",
        "--delta": f"{question.delta!r}",
        "--policies": ",".join(policy.tag() for policy in question.policies),
        "--attacks": ",".join(attack.tag() for attack in question.attacks),
        "--rounds": str(question.rounds),
        "--replications": str(question.replications),
        "--seed": str(question.seed),
    }
    return shlex.join(["armrace", "plan", *(word for pair in words.items() for word in pair)])
