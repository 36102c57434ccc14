"""Where figures go: checked before a long run, written whole after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import typer

from armrace.errors import InvalidParameter

__all__ = ["STANDARD_OUTPUT", "check_targets", "say", "write_json"]

STANDARD_OUTPUT = Path("-")


def say(sentence: str) -> None:
    """Tell a person something; standard output is left to figures."""
    typer.echo(sentence, err=True)


def check_targets(json: Path | None, *others: Path | None) -> None:
    """Refuse files that cannot be written, before anything is computed."""
    from armrace.files import check_writable

    if STANDARD_OUTPUT in others:
        raise InvalidParameter("only --json takes - for standard output; give the name of a file.")
    targets = (json, *others)
    files = [target for target in targets if target is not None and target != STANDARD_OUTPUT]
    for target in files:
        check_writable(target)
    resolved = [target.resolve() for target in files]
    if len(set(resolved)) < len(resolved):
        raise InvalidParameter("each output must be a file of its own; got one of them twice.")


def write_json(target: Path, data: Any) -> None:
    """Write plain data to a file or to standard output."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    if target == STANDARD_OUTPUT:
        typer.echo(text)
        return
    from armrace.files import write_text

    write_text(target, text + "\n")
    say(f"The figures are in {target}.")
