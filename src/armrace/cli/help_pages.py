"""The layout of ``--help``: paragraphs that wrap, and flags without a type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup


def help_text(command: Callable[..., Any]) -> str:
    """The docstring of a command with each paragraph in one line, for the terminal to wrap.

    >>> def listen() -> None:
    ...     '''Hear ``armrace``
    ...     out.
    ...     '''
    >>> help_text(listen)
    'Hear [bold]armrace[/bold] out.'
    """
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    flowing = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return re.sub(r"``(.+?)``", r"[bold]\1[/bold]", flowing)


def _without_type(parameters: list[Any]) -> list[Any]:
    """Keep typer from writing ``<bool>`` behind a flag, which takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, in the order in which the help page lists them."""
        return _without_type(super().get_params(ctx))


class Group(TyperGroup):
    """The program itself, whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, in the order in which the help page lists them."""
        return _without_type(super().get_params(ctx))
