"""``armrace reproduce``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import split, whole
from armrace.cli.options import Computing, complete_papers, expanded
from armrace.cli.outputs import Outputs, explained_interrupt
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.reproduction import Reproduction

EPILOG = options.examples(
    "armrace reproduce --list",
    "armrace reproduce lykouris-mirrokni-paes-leme-2018 --quick",
    "armrace reproduce lykouris-mirrokni-paes-leme-2018 --study layers,agnostic --figures drawn",
)

PaperName = Annotated[
    str | None,
    options.argument(
        "[PAPER]",
        "The paper; see [bold]--list[/bold].",
        autocompletion=complete_papers,
        show_default=False,
    ),
]
List = Annotated[bool, options.option("--list", "List the papers and their studies.")]
Quick = Annotated[
    bool, options.option("--quick", "Fewer and shorter runs: at most two minutes on two cores.")
]
Studies = Annotated[
    list[str] | None,
    options.option("--study NAMES", "Which studies, between commas; by default all."),
]


@expanded
def reproduce(
    *,
    paper: PaperName = None,
    list_papers: List = False,
    studies: Studies = None,
    quick: Quick = False,
    seed: options.Seed = "0",
    computing: Computing,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Run a published experiment again, and say what agrees with the paper and what does not.

    Each study is a figure or a claim of the paper, played in the paper's own settings as far as
    they are known. Every statement of the paper that can be tried is printed with its verdict.
    """
    from armrace.reproduction.pages import render_reproduction, reproduction_plots
    from armrace.reproduction.running import find_paper
    from armrace.reproduction.running import reproduce as run_again

    if list_papers:
        _list_papers()
        return
    if paper is None:
        raise InvalidParameter(
            "paper must be one of the papers that armrace reproduce --list shows."
        )
    find_paper(paper)
    chosen = None if studies is None else [name for each in studies for name in split(each)]
    computing.check()
    outputs = Outputs(json, report, figures, force)
    outputs.check()
    with computing.start() as executor, explained_interrupt(" before all studies were run."):
        found = run_again(
            paper,
            chosen,
            quick=quick,
            seed=whole("seed", seed),
            executor=executor,
            workers=computing.number_of_workers,
        )
    outputs.write(
        lambda: found,
        lambda: _show(found),
        lambda: render_reproduction(found),
        lambda: reproduction_plots(found),
    )


def _list_papers() -> None:
    """Print each paper with its studies."""
    from armrace.reproduction import PAPERS

    for paper in PAPERS.values():
        typer.echo(f"{paper.name}\n  {paper.reference}")
        for study in paper.studies:
            typer.echo(f"    {study.name}: {study.title} ({study.source})")


def _show(found: Reproduction) -> None:
    """Print each study with its statements, and the outcome."""
    from armrace.reproduction.pages import finding_words, pairs, setting_words
    from armrace.reproduction.running import find_paper

    paper = find_paper(found.paper)
    typer.echo(f"{paper.reference}\n{paper.sources}")
    for study, done in pairs(found):
        typer.echo(f"\n{study.title} ({study.source}; {done.seconds:.1f} s)\n{study.published}")
        for finding in done.findings:
            typer.echo(f"  {finding_words(finding)}")
    typer.echo(f"\n{found.verdict} {setting_words(found)}")
