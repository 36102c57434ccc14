"""The options that several commands share, declared once.

Numbers are taken as text and read by :mod:`armrace.cli.arguments`, so that ``1e6`` is a whole
number and every refusal is the same kind of sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from armrace.cli.arguments import place
from armrace.cli.completion import (
    complete_attacks,
    complete_environments,
    complete_executors,
    complete_measures,
    complete_policies,
)

_ARMS, _ATTACK, _RUN, _AUDIT, _OUTPUT = "Arms", "Attack", "Run", "Audit", "Output"

Means = Annotated[
    list[str] | None,
    typer.Option(
        "--means",
        metavar="NUMBERS",
        help="Means of Bernoulli arms, between commas, as 0.05 or 5%; may be repeated.",
        rich_help_panel=_ARMS,
    ),
]
Environment = Annotated[
    str | None,
    typer.Option(
        "--environment",
        metavar="NAME",
        autocompletion=complete_environments,
        help="Arms with other rewards than 0 and 1; see [bold]armrace environments[/bold].",
        rich_help_panel=_ARMS,
    ),
]
EnvironmentSet = Annotated[
    list[str] | None,
    typer.Option(
        "--environment-set",
        metavar="KEY=VALUE",
        help="A parameter of the environment; may be repeated.",
        rich_help_panel=_ARMS,
    ),
]
Attack = Annotated[
    str | None,
    typer.Option(
        "--attack",
        metavar="NAME",
        autocompletion=complete_attacks,
        help="Who corrupts the feedback; see [bold]armrace attacks[/bold].",
        rich_help_panel=_ATTACK,
    ),
]
Attacks = Annotated[
    list[str] | None,
    typer.Option(
        "--attack",
        metavar="NAMES",
        autocompletion=complete_attacks,
        help="Who corrupts the feedback, one or several between commas; may be repeated; see "
        "[bold]armrace attacks[/bold].",
        rich_help_panel=_ATTACK,
    ),
]
AttackSet = Annotated[
    list[str] | None,
    typer.Option(
        "--attack-set",
        metavar="KEY=VALUE",
        help="A parameter of the attack; may be repeated.",
        rich_help_panel=_ATTACK,
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="NUMBER",
        help="The most that the attack may spend: the sum over rounds of its largest change.",
        rich_help_panel=_ATTACK,
    ),
]
Budgets = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        "--budgets",
        metavar="NUMBERS",
        help="The most that an attack may spend, one or several between commas; may be repeated.",
        rich_help_panel=_ATTACK,
    ),
]
Account = Annotated[
    str,
    typer.Option(
        "--account",
        metavar="NAME",
        help="What a round costs the attack: largest, its largest change to any arm, as in the "
        "paper; seen, its change to the arm that is played, for an attacker who sees that first.",
        rich_help_panel=_ATTACK,
    ),
]
Refresh = Annotated[
    str,
    typer.Option(
        "--refresh",
        metavar="NUMBER",
        help="Where the policy's probabilities are slow to compute, as in Thompson sampling, "
        "compute them for the attack only when an arm's plays have grown by this share; 0: in "
        "every round.",
        rich_help_panel=_ATTACK,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policies",
        metavar="NAMES",
        autocompletion=complete_policies,
        help="Which policies, between commas, or [bold]all[/bold]; may be repeated. A class of "
        "your own is named as module:Class.",
    ),
]
PolicySet = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the policy; may be repeated."),
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        metavar="NUMBER",
        help="Short for [bold]--set delta=NUMBER[/bold]: the chance that the policy's guarantee "
        "may fail.",
    ),
]
Measure = Annotated[
    str,
    typer.Option(
        "--measure",
        metavar="NAME",
        autocompletion=complete_measures,
        help="The figure that ranks: pseudo_regret, regret, clean_regret or corruption.",
    ),
]
Horizon = Annotated[
    str | None,
    typer.Option("--horizon", metavar="NUMBER", help="Rounds, also as 1e6.", rich_help_panel=_RUN),
]
Replications = Annotated[
    str | None,
    typer.Option(
        "--replications", metavar="NUMBER", help="Independent runs.", rich_help_panel=_RUN
    ),
]
Seed = Annotated[
    str,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        help="The same seed gives the same figures, bit for bit.",
        rich_help_panel=_RUN,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="plain plays every round, leap skips those that cannot matter to a race, auto leaps "
        "beyond ten million rounds.",
        rich_help_panel=_RUN,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="NUMBER",
        help="Threads or processes; by default one per core. Changes no figure.",
        rich_help_panel=_RUN,
    ),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="NAME",
        autocompletion=complete_executors,
        help="What runs the simulations: threads, processes or dask. Changes no figure.",
        rich_help_panel=_RUN,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="The address of a running cluster, for [bold]--executor[/bold] dask; by "
        "default one is started on this machine.",
        rich_help_panel=_RUN,
    ),
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        parser=place,
        help="Write the figures as JSON to this file; - prints them, and nothing else.",
        rich_help_panel=_OUTPUT,
    ),
]
Audit = Annotated[
    bool,
    typer.Option(
        "--audit",
        help="Audit each run for signs of forged rewards, and show what the attack really did "
        "beside it. Changes no other figure; a race that is audited plays every round.",
        rich_help_panel=_AUDIT,
    ),
]
AuditLevel = Annotated[
    str | None,
    typer.Option(
        "--audit-level",
        metavar="NUMBER",
        help="The probability with which an audit may raise a false alarm or certify too much at "
        "any time of a run; 0.05 unless given. Implies [bold]--audit[/bold].",
        rich_help_panel=_AUDIT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        parser=place,
        help="Save everything: .parquet for [bold]armrace.load[/bold]; .csv, .json and .ndjson "
        "have the rows without the specification.",
        rich_help_panel=_OUTPUT,
    ),
]
KeysFile = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        envvar="ARMRACE_KEYS",
        help="The file of secrets; by default beside the log, and needed with a database.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace files that exist. Without it, a file that you name must not exist yet.",
        rich_help_panel=_OUTPUT,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        parser=place,
        help="Store finished results in this folder; after an interruption, the same command "
        "continues from there.",
        rich_help_panel=_OUTPUT,
    ),
]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar="FOLDER",
        parser=place,
        help="Write each figure to this folder, at the width of a paper's column: SVG, PDF and "
        "PNG, and its data as CSV.",
        rich_help_panel=_OUTPUT,
    ),
]
ReportOnRequest = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        parser=place,
        help="Write an HTML report to this file.",
        rich_help_panel=_OUTPUT,
    ),
]


def usual_report(name: str) -> Any:
    """Return the option of a page that is written even if it is not named."""
    return typer.Option(
        "--report",
        metavar="FILE",
        parser=place,
        help=f"Write the HTML report to this file; by default {name}, or the next free number.",
        rich_help_panel=_OUTPUT,
    )
