"""``armrace replay``."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from armrace.cli import log_options, options
from armrace.cli.arguments import names, number, share, whole, worker_count
from armrace.cli.completion import complete_efforts
from armrace.cli.experiments import make_attack
from armrace.cli.option_groups import expanded
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    write_figures,
    write_json,
    write_page,
)

EPILOG = """\
[bold]Examples[/bold]

armrace replay sample:open-bandit --arm item_id --reward click --propensity propensity_score

armrace replay clicks.parquet --columns columns.toml --attack zero-best --budget 300

armrace replay clicks.csv.gz --arm ad --reward click --source network --retract bad-network

armrace replay clicks.ndjson --arm ad --reward stars --rewards 1,5 --redteam quick --budget 100
"""

_ATTACK, _RUN = "Attack", "Run"

Floor = Annotated[
    str | None,
    typer.Option(
        "--floor",
        metavar="NUMBER",
        help="Raise smaller propensities to this: more rows are accepted, at the price of a bias. "
        "By default the smallest propensity of the log, but for one in 10,000 rows if theirs are "
        "ten times smaller.",
        rich_help_panel=_RUN,
    ),
]
Estimators = Annotated[
    str,
    typer.Option(
        "--estimators",
        metavar="NAME",
        help="all, or replay for rejection replay alone, which is faster.",
        rich_help_panel=_RUN,
    ),
]
Redteam = Annotated[
    str | None,
    typer.Option(
        "--redteam",
        metavar="EFFORT",
        autocompletion=complete_efforts,
        help="Search for the worst attack on each policy, on arms with the log's rates, and inject "
        "it: quick, usual or full.",
        rich_help_panel=_ATTACK,
    ),
]
Retract = Annotated[
    str | None,
    typer.Option(
        "--retract",
        metavar="SOURCE",
        help="Replay also as if the rows of this source had been found and left out.",
        rich_help_panel=_ATTACK,
    ),
]
Level = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="NUMBER",
        help="The probability with which an interval may be wrong.",
        rich_help_panel=_RUN,
    ),
]


@expanded
def replay(
    *,
    log: log_options.LogPlace,
    policies: options.Policies = None,
    columns: log_options.ColumnOptions,
    attack: options.Attack = None,
    attack_settings: options.AttackSet = None,
    budget: options.Budget = None,
    redteam: Redteam = None,
    retract: Retract = None,
    floor: Floor = None,
    horizon: options.Horizon = None,
    estimators: Estimators = "all",
    replications: options.Replications = "10",
    level: Level = "0.05",
    seed: options.Seed = "0",
    workers: options.Workers = None,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Estimate what policies would have earned on a log that another system made.

    Each policy meets the rows in their order and draws an arm for each. Where it draws the arm of
    the row, the row may become its next round and it learns the reward; other rows change nothing.

    Four estimates of its mean reward a round: rejection replay (the rounds alone), inverse
    propensity, self-normalised and doubly robust (all rows, weighted). Where a log is too thin, the
    answer is "not enough data". Rows that cannot be used are counted, with the reason.

    Rewards under an attack are what the policy truly earned while it learned forged ones.
    """
    from armrace.cli.tables import print_replay
    from armrace.offline import POLICIES_REPLAYED
    from armrace.offline import replay as evaluate
    from armrace.policies import POLICIES

    check_targets(json, report, figures=figures, force=force)
    chosen = POLICIES_REPLAYED if policies is None else names("policies", policies, POLICIES)
    corrupter = make_attack(attack, attack_settings) if attack or attack_settings else None
    found = evaluate(
        log,
        chosen,
        **columns.arguments(),
        floor=None if floor is None else share("floor", floor),
        horizon=None if horizon is None else whole("horizon", horizon),
        estimators=estimators,
        attack=corrupter,
        budget=None if budget is None else number("budget", budget),
        redteam=redteam,
        retract=retract,
        replications=whole("replications", replications or ""),
        level=share("level", level),
        seed=whole("seed", seed),
        workers=worker_count(workers),
    )
    if json is not None:
        write_json(json, found.to_builtins())
    if json != STANDARD_OUTPUT:
        print_replay(found)
    if report is not None:
        from armrace.reports.studies import render_replay

        write_page(report, render_replay(found, _command()))
    if figures is not None:
        from armrace.reports.studies import replay_plots

        write_figures(figures, replay_plots(found))


def _command() -> str:
    """Return the command line as it was given."""
    import sys

    return shlex.join(["armrace", *sys.argv[1:]])
