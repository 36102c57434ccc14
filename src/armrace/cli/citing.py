"""``armrace cite`` and ``armrace rerun``: what a paper quotes, and what its referee runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import place, split, warn_of_long_run
from armrace.cli.options import Computing, complete_policies, expanded
from armrace.cli.outputs import explained_interrupt

CITE_EPILOG = options.examples("armrace cite sharp-race tsallis-inf adaptive-constant")
RERUN_EPILOG = options.examples("armrace rerun comparison.zip")

_DIFFERENT = 1

Cited = Annotated[
    list[str],
    options.argument(
        "POLICY...",
        "Policies and attacks, by name.",
        autocompletion=complete_policies,
        show_default=False,
    ),
]
Archive = Annotated[
    Path,
    options.argument(
        "FILE",
        "What [bold]save[/bold] of a comparison or a result wrote.",
        parser=place,
        show_default=False,
    ),
]


def cite(names: Cited) -> None:
    """Print BibTeX for policies and attacks, and for armrace.

    References are those of the catalogue: the papers from which the rules are.
    """
    from armrace.reports.citing import cite as entries

    typer.echo(entries([name for each in names for name in split(each)]))


@expanded
def rerun(*, archive: Archive, computing: Computing) -> None:
    """Run a saved comparison or result again, and say whether every figure is the same.

    The file is checked before anything is run, and may name only what comes with the library. The
    exit code is 1 if a figure differs; the first place is then named.
    """
    from armrace.reproduction.rerunning import read_archive
    from armrace.reproduction.rerunning import rerun as run_again

    labels, results, experiments = read_archive(archive)
    computing.check()
    warn_of_long_run(experiments)
    with computing.start() as executor, explained_interrupt(" before all figures were compared."):
        found = run_again(labels, results, experiments, executor, computing.number_of_workers)
    for each in found:
        words = "equal" if each.equal else f"differs: {each.difference}"
        typer.echo(f"{each.label}, {each.runs:,} runs: {words}")
    if not all(each.equal for each in found):
        from armrace import FIGURES, __version__

        typer.echo(f"This is armrace {__version__}, figures {FIGURES}.")
        raise typer.Exit(_DIFFERENT)
