"""The seal: how far a log was acknowledged, signed with the keys of the service and kept with them.

Digests chain the records, but whoever can write the log can write a whole chain anew. The seal
holds the digest of the last record, so that a log that was rewritten or shortened is noticed when
it is opened, in a database too. It is not waited for: a loss of power may set it back.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from armrace.errors import DamagedFile
from armrace.service.chain import BEGINNING, Head
from armrace.service.keyring import Keyring
from armrace.service.stores.base import Store
from armrace.service.stores.high_water import HighWaterMark

__all__ = ["Seal", "seal_path"]


def seal_path(keys: Path, store: str) -> Path:
    """Return the file of a seal, beside the keys.

    Args:
        keys: the file of the keys.
        store: the name of the store.
    """
    return keys.with_name(f"{keys.name}-seal-{hashlib.blake2b(store.encode()).hexdigest()[:8]}")


class Seal:
    """The end of a log, signed.

    Args:
        mark: where it is written.
        keyring: the keys that sign it.
    """

    def __init__(self, mark: HighWaterMark, keyring: Keyring) -> None:
        self._mark = mark
        self._keyring = keyring
        self._signing = keyring.signing_keys()

    @classmethod
    def open(cls, store: Store, keyring: Keyring) -> Seal | None:
        """Return the seal of a store, after the log was found to fit it.

        There is none if the keys have no file, or one in a folder that cannot be written. Without a
        seal, as the log of an earlier version has none, the log is sealed as it is.

        Raises:
            DamagedFile: the log was rewritten or shortened, or the seal is not one of these keys.
        """
        if keyring.path is None or not store.name:
            return None
        path, secrets = seal_path(keyring.path, store.name), _secrets(keyring)
        if store.restored or not path.exists():
            if not os.access(path.parent, os.W_OK):
                return None
            with store.turn() as turn:
                return cls(HighWaterMark.create(path, turn.head, secrets), keyring)
        mark = HighWaterMark(path, secrets)
        try:
            _check(store, mark.head, path)
        except BaseException:
            mark.close()
            raise
        return cls(mark, keyring)

    def move(self, head: Head) -> None:
        """Seal the log up to a later end."""
        if head == self._mark.head:
            return
        if self._keyring.signing_keys() is not self._signing:  # another key signs by now
            self._signing = self._keyring.signing_keys()
            self._mark.secrets = _secrets(self._keyring)
        self._mark.move(head, lasting=False)

    def close(self) -> None:
        """Close the file."""
        self._mark.close()


def _secrets(keyring: Keyring) -> list[bytes]:
    return keyring.derived_secrets("the end of the log")


def _check(store: Store, sealed: Head, path: Path) -> None:
    if sealed == BEGINNING:
        return
    with store.turn() as turn:
        found = [record.digest for record in turn.read_many([sealed.sequence])]
    if found != [sealed.digest]:
        raise DamagedFile(
            f"the log was rewritten or has lost acknowledged events: it does not hold record "
            f"{sealed.sequence} as {path} knows it; remove that file if the log is from a backup."
        )
