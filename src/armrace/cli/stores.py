"""``armrace keys``, ``check``, ``restore`` and ``upgrade``: stores of the service and keys."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armrace.cli import options, serve
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, say, write_json
from armrace.errors import DamagedFile, InvalidParameter
from armrace.formatting import count
from armrace.service.keyring import DEFAULT_TENANT

if TYPE_CHECKING:
    from armrace.service.upgrade import Upgraded


KEYS_EPILOG = options.examples(
    "armrace keys create --store clicks.db --scopes decide,reward --label shop",
    "armrace keys list --store clicks.db",
    "armrace keys revoke 5f0c1b2a3d4e --store clicks.db",
)
_ACTIONS = ("create", "list", "revoke", "prepare", "rotate")

Action = Annotated[
    str,
    options.argument(
        "ACTION", "create, list or revoke a key; prepare or rotate the key that signs decisions."
    ),
]
Identifier = Annotated[str | None, options.argument("ID", "The key to revoke, as list shows it.")]
Scopes = Annotated[
    str,
    options.option("--scopes NAMES", "Which of decide, reward, read and admin, between commas."),
]
Tenant = Annotated[str, options.option("--tenant NAME", "Whose experiments the key reaches.")]
Label = Annotated[
    str, options.option("--label TEXT", "Whose key it is, as the log of actions shows it.")
]


def keys(
    action: Action,
    identifier: Identifier = None,
    store: serve.Place = None,
    keys: options.KeysFile = None,
    scopes: Scopes = "decide,reward",
    tenant: Tenant = DEFAULT_TENANT,
    label: Label = "",
) -> None:
    """Manage the keys of the service.

    A new key is printed once and kept as a digest. A running server notices changes within a
    second. A service that had a key stays closed when the last one is revoked.
    """
    from armrace.service.service import MEMORY, default_place, keyring_of

    if action not in _ACTIONS:
        raise InvalidParameter(f"action must be one of {', '.join(_ACTIONS)}; got {action!r}.")
    if action == "revoke" and identifier is None:
        raise InvalidParameter("revoke needs the id of a key; see armrace keys list.")
    if store == MEMORY and keys is None:
        raise InvalidParameter(
            f"keys must name a file if the store is {MEMORY}: no server would know the key."
        )
    place = default_place() if store is None else store
    # The first key is made before there is a server, or a store: it cannot listen without one.
    keyring = keyring_of(place, keys, create=action == "create")
    if action == "create":
        key, text = keyring.create([scope.strip() for scope in scopes.split(",")], tenant, label)
        if keys is None and not Path(place).is_file():
            say(f"There is no store {place} yet; serve it to use the key.")
        say(f"The key {key.id}, which is not shown again:")
        typer.echo(text)
    elif action == "list":
        for key in keyring.list():
            made = datetime.fromtimestamp(key.created / 1000, UTC).isoformat(timespec="seconds")
            state = "revoked" if key.revoked else "valid"
            label = f"  {key.label}" if key.label else ""
            typer.echo(f"{key.id}  {key.tenant}  {','.join(key.scopes)}  {made}  {state}{label}")
    elif action == "revoke":
        keyring.revoke(identifier or "")
        say(f"The key {identifier} is revoked.")
    elif action == "prepare":
        keyring.prepare()
        say("A new key is accepted; when all servers have the file, armrace keys rotate uses it.")
    else:
        keyring.rotate()
        say("A new key signs decisions; names that the one before it signed stay valid.")


_DAMAGED = 1
_SECONDS_FOR_SPEED = 10.0

CHECK_EPILOG = options.examples(
    "armrace check clicks.db",
    "armrace check --backup clicks-20261116T160000Z.db --keys clicks.db-keys",
    "armrace check postgresql://armrace@db/armrace --keys /etc/armrace/keys --json -",
)

Place = Annotated[
    str,
    options.argument(
        "PLACE", "The store of the service: a file, or postgresql://...", show_default=False
    ),
]
Backup = Annotated[
    bool, options.option("--backup", "The file was made by a backup, so it has no high-water mark.")
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
    from armrace.service.service import MEMORY, is_database

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
    from armrace.service.service import keyring_of, open_store
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


RESTORE_EPILOG = options.examples(
    "armrace restore clicks-20261116T160000Z.db --keys clicks.db-keys"
)


Copy = Annotated[str, options.argument("FILE", "The copy of a log that a backup has made.")]


def restore(file: Copy, keys: options.KeysFile = None) -> None:
    """Accept a backup of the service's log, so that it can be served.

    A copy is refused otherwise, since it looks like a log that has lost its latest events. All of
    it is checked first, as by [bold]armrace check --backup[/bold]; if something is damaged, nothing
    is changed. The keys must be those of the log, which a backup does not contain.
    """
    from armrace.service.loading import check_store_content
    from armrace.service.log.marks import marks_path
    from armrace.service.service import is_database, keyring_of, open_store
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


UPGRADE_EPILOG = options.examples(
    "armrace upgrade clicks.db clicks-2.db",
    "armrace upgrade postgresql://armrace@db/old postgresql://armrace@db/new --keys old-keys "
    "--new-keys /etc/armrace/keys",
)

Old = Annotated[
    str,
    options.argument(
        "OLD",
        "The store that an earlier version wrote: a file, or postgresql://...",
        show_default=False,
    ),
]
New = Annotated[
    str,
    options.argument(
        "NEW",
        "The new store: a file that does not exist, or an empty database.",
        show_default=False,
    ),
]
OldKeys = Annotated[
    str | None,
    options.option(
        "--keys FILE",
        "The secrets of the old store; by default beside it. Its API keys stay valid.",
    ),
]
NewKeys = Annotated[
    str | None,
    options.option(
        "--new-keys FILE",
        "The secrets of the new store; by default beside it, and needed with a database.",
    ),
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
    from armrace.service.service import is_database

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
    from armrace.service.service import is_database, keyring_of, open_store
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
        return upgrade_store(old, store, keyring, backup, bar)
