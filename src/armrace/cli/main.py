"""The program ``armrace``: its commands, and how it ends."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any

import typer

from armrace import __version__
from armrace.cli import (
    arena,
    attacks,
    compare,
    environments,
    plan,
    policies,
    scenarios,
    simulate,
    verify,
    warm_up,
)
from armrace.cli.outputs import say
from armrace.errors import ArmraceError

__all__ = ["app", "main"]

_BAD_INPUT, _INTERRUPTED = 2, 130

UsageError: Any = typer.BadParameter.__bases__[0]
"""What a wrong command line raises; typer keeps the class itself to itself."""

app = typer.Typer(
    name="armrace",
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"armrace {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="[dim]Start with:[/dim] armrace compare")
def armrace(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Multi-armed bandits whose feedback may be partly corrupted.

    Which policy still finds the best arm when clicks, reviews or measurements are forged?
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("arena", epilog=arena.EPILOG)(arena.arena)
app.command("plan", epilog=plan.EPILOG)(plan.plan)
app.command("simulate", epilog=simulate.EPILOG)(simulate.simulate)
app.command("verify", epilog=verify.EPILOG)(verify.verify)
app.command("warm-up", epilog=warm_up.EPILOG)(warm_up.warm_up)
app.command("policies")(policies.policies)
app.command("attacks")(attacks.attacks)
app.command("environments")(environments.environments)
app.command("scenarios")(scenarios.scenarios)


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code for these arguments; every refusal is one sentence on standard error."""
    try:
        code = app(arguments, prog_name="armrace", standalone_mode=False)
        sys.stdout.flush()
    except ArmraceError as error:
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(_usage_sentence(error))
    except MemoryError:
        return _refuse("this needs more memory than there is; ask for fewer replications or arms.")
    except BrokenPipeError:
        _forget_standard_output()
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _refuse(sentence: str) -> int:
    say(f"armrace: {sentence}")
    return _BAD_INPUT


def _usage_sentence(error: Any) -> str:
    """What typer says of a wrong command line, in one line, and where to read on."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = f"{message[:1].lower()}{message[1:]}".replace(". Did you mean", "; did you mean")
    message = re.sub(r" \(Possible options: (.*)\)$", r"; did you mean \1?", message)
    if message.endswith("?"):
        return message
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path if context else 'armrace'} --help."


def _forget_standard_output() -> None:
    """Nobody reads any more, as in ``armrace policies | head``: write the rest to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
