"""``armrace serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from armrace.cli.arguments import whole
from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

__all__ = ["EPILOG", "KeysFile", "Place", "serve"]

EPILOG = """\
[bold]Examples[/bold]

armrace serve --store clicks.db

armrace serve --store postgresql://armrace@db/armrace --keys /etc/armrace/keys --host 0.0.0.0
"""

Place = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PLACE",
        envvar="ARMRACE_STORE",
        help="The file of the log, or postgresql://...; by default a file among the user's data.",
    ),
]
KeysFile = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        envvar="ARMRACE_KEYS",
        help="The file of secrets; by default beside the log.",
    ),
]
Host = Annotated[
    str,
    typer.Option("--host", metavar="ADDRESS", envvar="ARMRACE_HOST", help="Where to listen."),
]
Port = Annotated[
    str,
    typer.Option("--port", metavar="NUMBER", envvar="ARMRACE_PORT", help="The port to listen on."),
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="EVENTS",
        envvar="ARMRACE_RATE",
        help="How many requests a second each key may send; by default no limit.",
    ),
]


def serve(
    store: Place = None,
    keys: KeysFile = None,
    host: Host = "127.0.0.1",
    port: Port = "8380",
    rate: Rate = None,
) -> None:
    """Serve decisions over HTTP.

    Answers leave when their events are on the disk. Without keys, only this machine is served.
    """
    from armrace import __version__

    try:
        from armrace.service.http.server import serve as run
    except ModuleNotFoundError as error:
        raise InvalidParameter(
            f"the service needs the package {error.name}; install armrace[service]."
        ) from None
    number = whole("port", port)
    if not 0 < number < 2**16:
        raise InvalidParameter(f"port must be in [1, 65535]; got {number}.")
    limit = None if rate is None else float(whole("rate", rate))
    run(store, host, number, keys, limit, __version__, say)
