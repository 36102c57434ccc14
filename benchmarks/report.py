"""Figures as a table in the terminal and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import armrace
from benchmarks.agreement import Agreement
from benchmarks.figures import Figure
from benchmarks.side_by_side import Library

__all__ = ["machine", "show", "write_json"]

_MARKS = {True: "[green]reached[/]", False: "[red]missed[/]", None: ""}


def show(console: Console, figures: Sequence[Figure], agreements: Sequence[Agreement]) -> None:
    """Print both tables."""
    console.print(_figures_table(figures))
    if agreements:
        console.print(_agreements_table(agreements))


def _figures_table(figures: Sequence[Figure]) -> Table:
    table = Table(title="armrace, measured")
    for heading in ("figure", "armrace", "against", "ratio", "target", "", "note"):
        right = heading in {"armrace", "ratio", "target"}
        table.add_column(heading, justify="right" if right else "left")
    for figure in figures:
        bound = "" if figure.target is None else f"{'>=' if figure.at_least else '<='} "
        table.add_row(
            figure.name,
            "" if figure.value is None else f"{_number(figure.value)} {figure.unit}",
            figure.against,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            bound + ("" if figure.target is None else f"{figure.target:g}"),
            _MARKS[figure.reached],
            figure.note,
        )
    return table


def _number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _agreements_table(agreements: Sequence[Agreement]) -> Table:
    table = Table(title="do armrace and plain C play the same algorithm?")
    for heading in ("algorithm", "regret of armrace", "regret of C", "largest difference", ""):
        table.add_column(heading)
    for agreement in agreements:
        regrets = zip(agreement.regret, agreement.error, strict=True)
        table.add_row(
            agreement.name,
            *(f"{mean:.1f} +- {error:.1f}" for mean, error in regrets),
            f"{agreement.largest:.1f} standard errors",
            "[green]agree[/]" if agreement.holds else "[red]differ[/]",
        )
    return table


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    information = Path("/proc/cpuinfo")
    names = [
        line.split(":", 1)[1].strip()
        for line in (information.read_text().splitlines() if information.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "armrace": armrace.__version__,
    }


def write_json(
    path: Path,
    figures: Sequence[Figure],
    agreements: Sequence[Agreement],
    libraries: Sequence[Library] = (),
) -> None:
    """Write everything that the tables show."""
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "figures": [figure.to_builtins() for figure in figures],
        "agreements": [{**a._asdict(), "holds": a.holds} for a in agreements],
        "libraries": [library.to_builtins() for library in libraries],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
