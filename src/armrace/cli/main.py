"""The program ``armrace``: its commands, the layout of their help, errors and exit codes."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from armrace import FIGURES, __version__
from armrace.cli import (
    arena,
    catalogue,
    compare,
    follow,
    import_log,
    logs,
    options,
    plan,
    redteam,
    reproduce,
    rulings,
    schema,
    serve,
    simulate,
    stores,
    verify,
)
from armrace.cli.outputs import INTERRUPTED, say
from armrace.errors import ArmraceError, BrokenExtension


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


class CommandGroup(TyperGroup):
    """The program itself, whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, in the order in which the help page lists them."""
        return _without_type(super().get_params(ctx))


_BAD_INPUT = 2

UsageError: Any = typer.BadParameter.__bases__[0]
"""What a wrong command line raises; typer does not export the class."""

app = typer.Typer(
    name="armrace",
    cls=CommandGroup,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"armrace {__version__} (figures {FIGURES})")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="[dim]Start with:[/dim] armrace compare")
def armrace(
    context: typer.Context,
    version: Annotated[
        bool,
        options.option(
            "--version",
            "Show the version, and the number that changes whenever seeds give other figures.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Multi-armed bandits whose feedback may be partly corrupted.

    Which policy still finds the best arm when clicks, reviews or measurements are forged?
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMMANDS: dict[Callable[..., None], str | None] = {
    compare.compare: compare.EPILOG,
    arena.arena: arena.EPILOG,
    redteam.redteam: redteam.EPILOG,
    plan.plan: plan.EPILOG,
    logs.replay: logs.REPLAY_EPILOG,
    logs.audit: logs.AUDIT_EPILOG,
    schema.schema: schema.EPILOG,
    import_log.import_log: import_log.IMPORT_EPILOG,
    import_log.export_log: import_log.EXPORT_EPILOG,
    rulings.void: rulings.EPILOGS["void"],
    rulings.retract: rulings.EPILOGS["retract"],
    rulings.hold: rulings.EPILOGS["hold"],
    rulings.release: rulings.EPILOGS["release"],
    follow.follow: follow.EPILOG,
    simulate.simulate: simulate.EPILOG,
    verify.verify: verify.EPILOG,
    reproduce.reproduce: reproduce.EPILOG,
    catalogue.rerun: catalogue.RERUN_EPILOG,
    catalogue.cite: catalogue.CITE_EPILOG,
    serve.serve: serve.EPILOG,
    stores.keys: stores.KEYS_EPILOG,
    stores.restore: stores.RESTORE_EPILOG,
    stores.check: stores.CHECK_EPILOG,
    stores.upgrade: stores.UPGRADE_EPILOG,
    simulate.warm_up: simulate.WARM_UP_EPILOG,
    catalogue.policies: None,
    catalogue.attacks: None,
    catalogue.environments: None,
    catalogue.scenarios: None,
}
for _command, _epilog in _COMMANDS.items():
    # ``import`` is a keyword of Python, so that the function cannot have the command's name.
    _name, _words = _command.__name__.removesuffix("_log").replace("_", "-"), help_text(_command)
    app.command(_name, cls=Command, help=_words, epilog=_epilog)(_command)


def main() -> None:
    """Run the command line and leave with its exit code."""
    _allow_modules_of_this_folder()
    sys.exit(run(sys.argv[1:]))


def _allow_modules_of_this_folder() -> None:
    """Let ``module:Class`` name a module of the current folder.

    The folder comes last, so that no file in it hides a module of an installed package.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; every error is one sentence on standard error."""
    with warnings.catch_warnings():
        _show_warnings_as_sentences()
        return _run(arguments)


def _show_warnings_as_sentences() -> None:
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, BrokenExtension):
            say(f"armrace: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    warnings.simplefilter("always", BrokenExtension)


def _run(arguments: list[str]) -> int:
    if sys.stdout is None:
        return _refuse("cannot write standard output: it is closed.")
    try:
        code = app(arguments, prog_name="armrace", standalone_mode=False)
        # Flushed here, so that a full disk or a closed pipe is reported like any other error.
        sys.stdout.flush()
    except ArmraceError as error:
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(_usage_sentence(error))
    except MemoryError:
        return _refuse("this needs more memory than there is; ask for fewer replications or arms.")
    except BrokenPipeError:  # the reader has gone, as in ``armrace policies | head``
        _forget_standard_output()
        return 0
    except OSError as error:
        _forget_standard_output()
        place = "standard output" if error.filename is None else str(error.filename)
        return _refuse(f"cannot write {place}: {error.strerror or error}.")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _refuse(sentence: str) -> int:
    say(f"armrace: {sentence}")
    return _BAD_INPUT


def _usage_sentence(error: Any) -> str:
    """Return typer's message about a wrong command line in one line, with a pointer to help."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = f"{message[:1].lower()}{message[1:]}".replace(". Did you mean", "; did you mean")
    message = re.sub(r" \(Possible options: (.*)\)$", r"; did you mean \1?", message)
    if message.endswith("?"):
        return message
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path if context else 'armrace'} --help."


def _forget_standard_output() -> None:
    """Discard buffered output, since Python would fail again to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
