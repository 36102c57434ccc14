"""``armrace upgrade``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.service.upgrade import Upgraded

__all__ = ["EPILOG", "upgrade"]

EPILOG = """\
[bold]Examples[/bold]

armrace upgrade clicks.db clicks-2.db

armrace upgrade postgresql://armrace@db/old postgresql://armrace@db/new --keys old-keys \
--new-keys /etc/armrace/keys
"""
_SECONDS_FOR_SPEED = 10.0

Old = Annotated[
    str,
    typer.Argument(
        metavar="OLD",
        help="The store that an earlier version wrote: a file, or postgresql://...",
        show_default=False,
    ),
]
New = Annotated[
    str,
    typer.Argument(
        metavar="NEW",
        help="The new store: a file that does not exist, or an empty database.",
        show_default=False,
    ),
]
OldKeys = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="The secrets of the old store; by default beside it. Its API keys stay valid.",
    ),
]
NewKeys = Annotated[
    str | None,
    typer.Option(
        "--new-keys",
        metavar="FILE",
        help="The secrets of the new store; by default beside it, and needed with a database.",
    ),
]
Backup = Annotated[
    bool,
    typer.Option("--backup", help="The file was made by a backup, so it has no high-water mark."),
]


def upgrade(
    old: Old, new: New, keys: OldKeys = None, new_keys: NewKeys = None, backup: Backup = False
) -> None:
    """Write what an earlier version stored, one log for all experiments, into a new store.

    The old store is read only and must not be in use. All decisions, rewards, rulings and arms are
    kept, and policies go on from what they have learned. Units and requests become keyed hashes.
    Decisions that were open have other names in the new store: rewards that name them as the old
    service did are refused, so let the windows close first.
    """
    from armrace.service.opening import is_database

    if not is_database(new) and Path(new).exists():
        raise InvalidParameter(f"the new store must not exist; {new} does.")
    made = [] if is_database(new) else [Path(new + ending) for ending in ("", "-wal", "-mark")]
    try:
        found = _upgrade(old, new, keys, new_keys, backup)
    except BaseException:
        for each in made:  # a part of a store looks like a whole one
            each.unlink(missing_ok=True)
        raise
    say(
        f"{found.decisions:,} decisions with {found.rewards:,} rewards of {found.experiments:,} "
        f"experiments are in the new store."
    )


def _upgrade(old: str, new: str, keys: str | None, new_keys: str | None, backup: bool) -> Upgraded:
    from armrace.service.opening import is_database, keyring_of, open_store
    from armrace.service.upgrade import upgrade_keys, upgrade_store
    from armrace.simulation.progress import progress_bar

    if keys is not None and not Path(keys).is_file():
        raise InvalidParameter(f"there are no keys {keys}.")
    before = keys or ("" if is_database(old) else f"{old}-keys")
    after = new_keys or ("" if is_database(new) else f"{new}-keys")
    if before and after and Path(before).is_file() and not Path(after).exists():
        upgrade_keys(Path(before), Path(after))
    keyring = keyring_of(new, new_keys)
    with (
        closing(open_store(new, keyring)) as store,
        progress_bar("records", None, _SECONDS_FOR_SPEED) as bar,
    ):
        return upgrade_store(old, store, keyring.store_secret(), backup, bar)
