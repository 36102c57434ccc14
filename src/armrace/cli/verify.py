"""``armrace verify``."""

from __future__ import annotations

from typing import Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import names, whole
from armrace.cli.options import Computing, complete_policies, expanded
from armrace.cli.outputs import Outputs, explained_interrupt
from armrace.errors import InvalidParameter

_REFUTED = 1

EPILOG = options.examples(
    "armrace verify --quick",
    "armrace verify --policy multi-layer-race --report verification.html",
    "armrace verify --quick --policy optimistic-log-barrier",
    "armrace verify --asymptotic --report growth.html",
    "armrace verify --json verification.json --report verification.html",
)

Quick = Annotated[bool, options.option("--quick", "Fewer and shorter runs: about a minute.")]
Asymptotic = Annotated[
    bool,
    options.option(
        "--asymptotic", "Show how regret grows up to 10^12 rounds and a corruption of 10^6 instead."
    ),
]
Policies = Annotated[
    list[str] | None,
    options.option(
        "--policy --policies NAMES",
        "Which races, guards and leaders, between commas; by default all, with UCB1 under the "
        "lower bounds.",
        autocompletion=complete_policies,
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
    from armrace import verification
    from armrace.cli.tables import print_verification
    from armrace.reports.checks import render_verification, verification_plots

    chosen = names("policy", policies, known=()) or None if policies is not None else None
    number = whole("seed", seed)
    computing.check()
    if figures is not None and not asymptotic:
        raise InvalidParameter("--figures needs --asymptotic; other forms draw tables only.")
    outputs = Outputs(json, report, figures, force)
    outputs.check()
    with (
        computing.start() as executor,
        explained_interrupt(" before all claims were tried."),
    ):
        found = verification.verify(
            chosen,
            quick=quick,
            asymptotic=asymptotic,
            seed=number,
            executor=executor,
            workers=computing.number_of_workers,
        )
    outputs.write(
        found.to_builtins,
        lambda: print_verification(found),
        lambda: render_verification(found, _command(quick, asymptotic, chosen, number)),
        lambda: verification_plots(found),
    )
    if not found.holds:
        raise typer.Exit(_REFUTED)


def _command(quick: bool, asymptotic: bool, chosen: list[str] | None, seed: int) -> str:
    """The command line that tries the same claims."""
    form = (" --quick" if quick else "") + (" --asymptotic" if asymptotic else "")
    policies = "" if chosen is None else f" --policy {','.join(chosen)}"
    return f"armrace verify{form}{policies} --seed {seed}"
