"""How the catalogues of policies, attacks and environments are shown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from armrace.cli.outputs import check_targets, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from armrace.specification import Parameter, Specification

__all__ = ["describe", "print_indented", "show"]


def show(
    members: Iterable[type[Specification]], option: str, json: Path | None, *, force: bool
) -> None:
    """List specifications for a person, or as JSON.

    Args:
        members: the classes of a catalogue.
        option: the option that sets their parameters.
        json: where JSON goes; None prints text.
        force: whether a file that exists may be replaced.
    """
    check_targets(json, force=force)
    if json is not None:
        write_json(json, [describe(member) for member in members])
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for position, member in enumerate(members):
        if position:
            console.print()
        console.print(f"[bold]{member.tag()}[/bold]")
        print_indented(console, Text(member.summary().replace("``", "")), 2)
        for parameter in member.parameters():
            print_indented(console, _line(parameter, option), 4)
        if member.reference:
            print_indented(console, Text(member.reference, style="dim"), 2)


def print_indented(console: Console, text: Text, spaces: int) -> None:
    """Print a paragraph behind some spaces, without the trailing ones that rich would add."""
    for line in text.wrap(console, console.width - spaces):
        line.rstrip()
        line.pad_left(spaces)
        console.print(line)


def describe(member: type[Specification]) -> dict[str, Any]:
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
