"""``armrace restore``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from armrace.cli import options
from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

__all__ = ["EPILOG", "restore"]

EPILOG = """\
[bold]Example[/bold]

armrace restore clicks-20261116T160000Z.db --keys clicks.db-keys
"""

_SECONDS_FOR_SPEED = 10.0

Copy = Annotated[
    str, typer.Argument(metavar="FILE", help="The copy of a log that a backup has made.")
]


def restore(file: Copy, keys: options.KeysFile = None) -> None:
    """Accept a backup of the service's log, so that it can be served.

    A copy is refused otherwise, since it looks like a log that has lost its latest events. All of
    it is checked first, as by [bold]armrace check --backup[/bold]; if something is damaged, nothing
    is changed. The keys must be those of the log, which a backup does not contain.
    """
    from armrace.service.loading import check_store_content
    from armrace.service.log.marks import marks_path
    from armrace.service.opening import is_database, keyring_of, open_store
    from armrace.simulation.progress import progress_bar

    if is_database(file):
        raise InvalidParameter("file must be a file; restore a database with psql and serve it.")
    if not Path(file).is_file():
        raise InvalidParameter(f"file must be a file that exists; got {file!r:.100}.")
    keyring = keyring_of(file, keys, create=False)
    with (
        closing(open_store(file, keyring, restored=True, read_only=True)) as store,
        progress_bar("experiments", None, _SECONDS_FOR_SPEED) as bar,
    ):
        records = check_store_content(store, keyring.store_secret(), note=bar).records
    open_store(file, keyring, restored=True).close()  # writes the high-water mark beside it
    # The marks of its logs may be later than the backup; they are made again when it is served.
    assert keyring.path is not None
    marks_path(keyring.path, str(Path(file).absolute())).unlink(missing_ok=True)
    say(f"{file} can be served; it has {records} records.")
