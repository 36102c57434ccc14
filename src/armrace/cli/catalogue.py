"""The commands that list what there is, and ``armrace bibtex``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from armrace.cli import options
from armrace.cli.arguments import place, split, warn_of_long_run
from armrace.cli.options import Computing, Force, Json, complete_policies, expanded
from armrace.cli.outputs import check_targets, explained_interrupt, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from armrace.specification import Parameter, Specification


def policies(json: Json = None, force: Force = False) -> None:
    """The algorithms, their parameters and where they come from."""
    from armrace.policies import POLICIES

    _show(POLICIES.values(), "--set", json, force=force)


def attacks(json: Json = None, force: Force = False) -> None:
    """The attacks, their parameters and where they come from."""
    from armrace.adversaries import ADVERSARIES

    _show(ADVERSARIES.values(), "--attack-set", json, force=force)


def environments(json: Json = None, force: Force = False) -> None:
    """The reward laws that arms may have, and their parameters."""
    from armrace.environments import ENVIRONMENTS

    _show(ENVIRONMENTS.values(), "--environment-set", json, force=force)


def scenarios(json: Json = None, force: Force = False) -> None:
    """The ready-made comparisons for ``armrace compare``."""
    from armrace.simulation import SCENARIOS

    check_targets(json, force=force)
    if json is not None:
        write_json(json, [scenario.to_builtins() for scenario in SCENARIOS.values()])
        return
    from rich.console import Console
    from rich.text import Text

    from armrace.reports.text import setting

    console = Console(highlight=False)
    for position, scenario in enumerate(SCENARIOS.values()):
        if position:
            console.print()
        console.print(f"[bold]{scenario.name}[/bold]")
        _print_indented(console, Text(scenario.summary), 2)
        _print_indented(console, Text(setting(scenario), style="dim"), 2)


def _show(
    members: Iterable[type[Specification]], option: str, json: Path | None, *, force: bool
) -> None:
    """List the classes of a catalogue for a person, or as JSON; ``option`` sets parameters."""
    check_targets(json, force=force)
    if json is not None:
        write_json(json, [_describe(member) for member in members])
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for position, member in enumerate(members):
        if position:
            console.print()
        console.print(f"[bold]{member.tag()}[/bold]")
        _print_indented(console, Text(member.summary().replace("``", "")), 2)
        for parameter in member.parameters():
            _print_indented(console, _line(parameter, option), 4)
        if member.reference:
            _print_indented(console, Text(member.reference, style="dim"), 2)


def _print_indented(console: Console, text: Text, spaces: int) -> None:
    """Print a paragraph behind some spaces, without the trailing ones that rich would add."""
    for line in text.wrap(console, console.width - spaces):
        line.rstrip()
        line.pad_left(spaces)
        console.print(line)


def _describe(member: type[Specification]) -> dict[str, Any]:
    """A specification as plain data."""
    return {
        "name": member.tag(),
        "summary": member.summary(),
        "parameters": [msgspec.to_builtins(parameter) for parameter in member.parameters()],
        "reference": member.reference,
    }


def _line(parameter: Parameter, option: str) -> Text:
    from rich.text import Text

    default = {"required": "...", None: "none"}.get(parameter.default, parameter.default)
    shown = str(default).lower() if isinstance(default, bool) else default
    line = Text.assemble((f"{option} {parameter.name}={shown}", "cyan"), f"  {parameter.meaning}")
    if parameter.limits:
        line.append(f", {parameter.limits}", style="dim")
    return line


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
    from armrace.reproduction.running import read_archive
    from armrace.reproduction.running import rerun as run_again

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
