"""``armrace restore``."""

from __future__ import annotations

from contextlib import closing
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

_SECONDS_FOR_SPEED = 10.0

Copy = Annotated[
    str, typer.Argument(metavar="FILE", help="The copy of a log that a backup has made.")
]


def restore(file: Copy) -> None:
    """Accept a backup of the service's log, so that it can be served.

    A copy is refused otherwise, since it looks like a log that has lost its latest events. All of
    it is checked first, as by [bold]armrace check --backup[/bold]; if something is damaged, nothing
    is changed.
    """
    from armrace.service.opening import is_database, open_store
    from armrace.service.seal import seal_path
    from armrace.service.store_check import check_store_content
    from armrace.simulation.progress import progress_bar

    if is_database(file):
        raise InvalidParameter("file must be a file; restore a database with psql and serve it.")
    if not Path(file).is_file():
        raise InvalidParameter(f"file must be a file that exists; got {file!r:.100}.")
    with (
        closing(open_store(file, restored=True, read_only=True)) as store,
        progress_bar("records", None, _SECONDS_FOR_SPEED) as bar,
    ):
        records = check_store_content(store, bar).records
    open_store(file, restored=True).close()  # writes the high-water mark beside it
    place = Path(file).absolute()
    seal_path(place.with_name(place.name + "-keys"), str(place)).unlink(missing_ok=True)
    say(f"{file} can be served; it has {records} records.")
