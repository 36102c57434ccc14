"""``armrace keys``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from armrace.cli.outputs import say
from armrace.cli.serve import KeysFile, Place
from armrace.errors import InvalidParameter
from armrace.service.keyring import DEFAULT_TENANT

__all__ = ["EPILOG", "keys"]

EPILOG = """\
[bold]Examples[/bold]

armrace keys create --store clicks.db --scopes decide,reward --label shop

armrace keys list --store clicks.db

armrace keys revoke 5f0c1b2a3d4e --store clicks.db
"""
_ACTIONS = ("create", "list", "revoke", "prepare", "rotate")

Action = Annotated[
    str,
    typer.Argument(
        metavar="ACTION",
        help="create, list or revoke a key; prepare or rotate the key that signs decisions.",
    ),
]
Identifier = Annotated[
    str | None, typer.Argument(metavar="ID", help="The key to revoke, as list shows it.")
]
Scopes = Annotated[
    str,
    typer.Option(
        "--scopes", metavar="NAMES", help="Which of decide, reward, read and admin, between commas."
    ),
]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Whose experiments the key reaches.")
]
Label = Annotated[
    str,
    typer.Option(
        "--label", metavar="TEXT", help="Whose key it is, as the log of actions shows it."
    ),
]


def keys(
    action: Action,
    identifier: Identifier = None,
    store: Place = None,
    keys: KeysFile = None,
    scopes: Scopes = "decide,reward",
    tenant: Tenant = DEFAULT_TENANT,
    label: Label = "",
) -> None:
    """Manage the keys of the service.

    A new key is printed once and kept as a digest. A running server notices changes within a
    second. A service that had a key stays closed when the last one is revoked.
    """
    from armrace.service.opening import MEMORY, default_place, keyring_of

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
