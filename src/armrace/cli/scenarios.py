"""``armrace scenarios``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armrace.cli.catalogue import print_indented
from armrace.cli.options import Force, Json
from armrace.cli.outputs import check_targets, write_json

if TYPE_CHECKING:
    from armrace.simulation import Scenario

__all__ = ["scenarios"]


def scenarios(json: Json = None, force: Force = False) -> None:
    """The ready-made comparisons for ``armrace compare``."""
    from armrace.simulation import SCENARIOS

    check_targets(json, force=force)
    if json is not None:
        write_json(json, [scenario.to_builtins() for scenario in SCENARIOS.values()])
        return
    _print(list(SCENARIOS.values()))


def _print(listed: list[Scenario]) -> None:
    from rich.console import Console
    from rich.text import Text

    from armrace.reports.descriptions import setting

    console = Console(highlight=False)
    for position, scenario in enumerate(listed):
        if position:
            console.print()
        console.print(f"[bold]{scenario.name}[/bold]")
        print_indented(console, Text(scenario.summary), 2)
        print_indented(console, Text(setting(scenario), style="dim"), 2)
