"""``armrace restore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

__all__ = ["EPILOG", "restore"]

EPILOG = """\
[bold]Example[/bold]

armrace restore clicks-20261116T160000Z.db
"""

Copy = Annotated[
    str, typer.Argument(metavar="FILE", help="The copy of a log that a backup has made.")
]


def restore(file: Copy) -> None:
    """Accept a backup of the service's log, so that it can be served.

    A copy is refused otherwise, since it looks like a log that has lost its latest events. It is
    read from beginning to end and its digests are checked.
    """
    from armrace.service.keyring import Keyring
    from armrace.service.opening import is_database, open_store
    from armrace.service.service import Service

    if is_database(file):
        raise InvalidParameter("file must be a file; restore a database with psql and serve it.")
    if not Path(file).is_file():
        raise InvalidParameter(f"file must be a file that exists; got {file!r:.100}.")
    with Service(open_store(file, restored=True), Keyring()) as service:
        records = service.ledger.sequence
    say(f"{file} can be served; it has {records} records.")
