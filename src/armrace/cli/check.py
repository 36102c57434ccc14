"""``armrace check``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from armrace.cli import options
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, say, write_json
from armrace.errors import DamagedFile, InvalidParameter
from armrace.formatting import count

__all__ = ["EPILOG", "check"]

_DAMAGED = 1
_SECONDS_FOR_SPEED = 10.0

EPILOG = """\
[bold]Examples[/bold]

armrace check clicks.db

armrace check --backup clicks-20261116T160000Z.db --keys clicks.db-keys

armrace check postgresql://armrace@db/armrace --keys /etc/armrace/keys --json -
"""

Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="The store of the service: a file, or postgresql://...",
        show_default=False,
    ),
]
Backup = Annotated[
    bool,
    typer.Option("--backup", help="The file was made by a backup, so it has no high-water mark."),
]


def check(
    place: Place,
    backup: Backup = False,
    keys: options.KeysFile = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Check that a store of the service is intact, and change nothing.

    For every experiment it checks the chain of digests over all records, which are made with a
    secret of the keys, the index, the high-water marks, and that a replay of the log gives every
    snapshot and the state that a server starts with. A file must not be in use. A database may be:
    each log is read as it is at one moment, without a lock. The exit code is 1 if something is
    damaged.
    """
    from armrace.service.opening import MEMORY, is_database

    if place == MEMORY or (not is_database(place) and not Path(place).is_file()):
        raise InvalidParameter(f"place must be a file that exists; got {place!r:.100}.")
    if backup and is_database(place):
        raise InvalidParameter("--backup is for a file; a database has its marks with the keys.")
    check_targets(json, force=force)
    problem: str | None = None
    found: dict[str, Any] = {}
    try:
        found = _check(place, backup, keys)
    except DamagedFile as error:
        problem = str(error)
    if json is not None:
        write_json(json, {"intact": problem is None, "problem": problem, **found})
    if problem is not None:
        say(f"armrace: {problem}")
        raise typer.Exit(_DAMAGED)
    if json != STANDARD_OUTPUT:
        typer.echo(
            f"The store is intact. Records: {count(found['records'])}; experiments: "
            f"{count(found['experiments'])}; snapshots: {count(found['snapshots'])}."
        )


def _check(place: str, backup: bool, keys: str | None) -> dict[str, Any]:
    import msgspec

    from armrace.service.loading import check_store_content
    from armrace.service.log.marks import Marks, marks_path
    from armrace.service.opening import keyring_of, open_store
    from armrace.simulation.progress import progress_bar

    keyring = keyring_of(place, keys, create=False)
    secret, marks = keyring.store_secret(), None
    with closing(open_store(place, keyring, restored=backup, read_only=True)) as store:
        assert keyring.path is not None
        kept = marks_path(keyring.path, store.name)
        if kept.exists() and not backup:
            marks = Marks(kept, (secret,))
        with progress_bar("experiments", None, _SECONDS_FOR_SPEED) as bar:
            return msgspec.structs.asdict(check_store_content(store, secret, marks, bar))
