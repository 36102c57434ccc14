"""``armrace warm-up``."""

from __future__ import annotations

from typing import Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import ALL, names, whole
from armrace.cli.completion import complete_attacks
from armrace.cli.outputs import say

EPILOG = """\
[bold]Examples[/bold]

armrace warm-up

armrace warm-up --policies sharp-race,tsallis-inf --attacks none

NUMBA_CACHE_DIR=/opt/armrace armrace warm-up --audit
"""

Attacks = Annotated[
    list[str] | None,
    typer.Option(
        "--attacks",
        metavar="NAMES",
        autocompletion=complete_attacks,
        help="Which attacks, between commas, or [bold]all[/bold], as by default; may be repeated.",
    ),
]
NoLearners = Annotated[
    bool, typer.Option("--no-learners", help="Do not compile the learner for live decisions.")
]
Audit = Annotated[bool, typer.Option("--audit", help="Also compile audited simulations.")]
Horizon = Annotated[
    str,
    typer.Option(
        "--horizon",
        metavar="ROUNDS",
        help="The number of rounds you will simulate; above ten million, races run other code.",
    ),
]


def warm_up(
    policies: options.Policies = None,
    attacks: Attacks = None,
    no_learners: NoLearners = False,
    audit: Audit = False,
    horizon: Horizon = "100000",
) -> None:
    """Compile policies and attacks ahead of use.

    Every other command compiles what it needs by itself. The machine code is stored in
    NUMBA_CACHE_DIR, or else in the user's cache directory, and used from there by all later runs.
    """
    from armrace.adversaries import ADVERSARIES
    from armrace.compilation import warm_up as compile_all
    from armrace.kernels.machine_code import trusted_folders
    from armrace.policies import POLICIES

    compile_all(
        names("policies", policies or ALL, POLICIES),
        names("attacks", attacks or ALL, ADVERSARIES),
        learners=not no_learners,
        audit=audit,
        horizon=whole("horizon", horizon),
    )
    for folder in trusted_folders():
        say(f"The machine code is in {folder}.")
        break
