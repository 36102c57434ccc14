"""The secrets of a service, in a file of their own: API keys and the keys that sign tokens.

The file is readable by its owner alone. Of API keys it holds digests, which cannot be used in their
place; signing keys must be kept as they are.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from armrace.errors import AlreadyExists, DamagedFile, ForeignTicket, InvalidParameter, UnknownName
from armrace.files import atomic_path, folder_locked
from armrace.files.private import check_private
from armrace_client.operations import Scope

DECISION, LEASE = 2, 3
"""What a token names; tokens of the first design had the number 1."""
_CONTENT = struct.Struct(">BIIQIQ")
_SIGNATURE = 16
_LENGTH = len(binascii.b2a_base64(bytes(_CONTENT.size + _SIGNATURE), newline=False))
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/", b"+/--")
"""Characters outside the URL-safe alphabet of base64 become ones that base64 does not have."""
_FORGED = "no decision of this service has this token."


class TokenContent(NamedTuple):
    """What a token says."""

    log: int
    sequence: int
    arm: int
    closes: int


class SigningKeys:
    """The secrets of 32 bytes that sign tokens, by the number that tokens carry.

    A signature covers the tenant too: a token that is shown by another one is refused like any
    forgery. The layer that a decision was drawn from is not in a token.

    One signs, by default the newest; all of them are accepted. ``newer`` returns all as they are
    now, when a token has a number that is not known: another server may sign with a new key before
    this one has heard of it.
    """

    def __init__(
        self,
        secrets: Mapping[int, bytes],
        signer: int | None = None,
        newer: Callable[[], Mapping[int, bytes]] = dict,
    ) -> None:
        self._macs = {number: _keyed(secret) for number, secret in secrets.items()}
        self._signer = max(self._macs) if signer is None else signer
        self._newer = newer

    def sign(self, tenant: str, content: TokenContent, kind: int = DECISION) -> str:
        """Return the token of a decision or of a lease."""
        body = _CONTENT.pack(kind, self._signer, *content)
        signed = body + self._signature(self._signer, tenant, body)
        # base64.urlsafe_b64encode takes twice as long.
        return binascii.b2a_base64(signed, newline=False).translate(_TO_URL).decode()

    def read(self, tenant: str, token: object, kind: int = DECISION) -> TokenContent:
        """Return what a token says; refuse one that this service has not given to this tenant."""
        if not isinstance(token, str) or len(token) != _LENGTH or not token.isascii():
            raise ForeignTicket(_FORGED)
        try:
            signed = binascii.a2b_base64(token.encode().translate(_FROM_URL), strict_mode=True)
        except binascii.Error:
            raise ForeignTicket(_FORGED) from None
        body, signature = signed[: _CONTENT.size], signed[_CONTENT.size :]
        version, key, *content = _CONTENT.unpack(body)
        if version != kind or not self._knows(key):
            raise ForeignTicket(_FORGED)
        if not hmac.compare_digest(signature, self._signature(key, tenant, body)):
            raise ForeignTicket(_FORGED)
        return TokenContent(*content)

    def _knows(self, number: int) -> bool:
        if number not in self._macs:
            found = self._newer().get(number)
            if found is None:
                return False
            self._macs[number] = _keyed(found)
        return True

    def _signature(self, key: int, tenant: str, body: bytes) -> bytes:
        mac = self._macs[key].copy()
        mac.update(body + tenant.encode("utf-8", "surrogatepass"))
        return mac.digest()


def _keyed(secret: bytes) -> hashlib.blake2b:
    """Return a keyed digest, to be copied: its key is hashed once."""
    return hashlib.blake2b(key=secret, digest_size=_SIGNATURE)


DEFAULT_TENANT = "main"
"""Whose experiments are reached; its keys are the operator's."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
_SECRET_BYTES = 32
_PREFIX = "armrace"


class ApiKey(msgspec.Struct, frozen=True):
    """An API key without its secret."""

    id: str
    tenant: str
    scopes: tuple[Scope, ...]
    created: int
    digest: bytes
    """SHA-256 of the secret, which has 256 random bits."""
    revoked: int | None = None
    label: str = ""
    """Whose key it is, as the log of actions shows it."""

    def allows(self, scope: Scope) -> bool:
        """Whether the key may be used for this; a key with the scope admin may do everything.

        Args:
            scope: what the key is used for.
        """
        return scope in self.scopes or "admin" in self.scopes


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signing: dict[int, bytes]
    keys: list[ApiKey]
    store: bytes
    """What logs are chained and identifiers hashed with; it is never changed."""
    format: int = 2
    signer: int | msgspec.UnsetType = msgspec.UNSET
    """The key that signs, as long as a newer one is prepared; otherwise the newest signs."""
    ended: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Sessions that were ended before their time, and that time in seconds."""

    @property
    def signs(self) -> int:
        """The number of the key that signs."""
        newest = max(self.signing, default=0)
        return newest if isinstance(self.signer, msgspec.UnsetType) else self.signer


class Keyring:
    """API keys and signing keys.

    Args:
        path: the file, which is written when something changes; ``None`` to keep nothing.
        create: whether to make the file, with a new signing key, if there is none.

    Raises:
        UnknownName: there is no file, and none is to be made.
        DamagedFile: the file cannot be read.
    """

    def __init__(self, path: Path | None = None, *, create: bool = True) -> None:
        self.path = path
        """The file of the keys, if they are kept."""
        self._stamp: tuple[int, int] | None = None
        self.problem: str | None = None
        """Why the file cannot be read now, although it could be; the keys of then stay valid."""
        if path is not None and path.exists():
            self._read()
            return
        if not create:
            raise UnknownName(f"there are no keys: {path} does not exist.")
        with nullcontext() if path is None else folder_locked(path.parent):
            if path is not None and path.exists():  # another process was faster
                self._read()
            else:
                self._write(_Content({1: _new_secret()}, [], _new_secret()))

    def _read(self) -> None:
        assert self.path is not None
        try:
            self._stamp = _stamp(self.path)
            check_private(self.path)
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except (msgspec.MsgspecError, ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise DamagedFile(f"the keys in {self.path} cannot be read: {reason}.") from error
        sound = content.signs in content.signing and all(
            # A short secret, in a file that was edited by hand, would make tokens easy to forge.
            len(secret) == _SECRET_BYTES
            for secret in (*content.signing.values(), content.store)
        )
        if not sound:
            raise DamagedFile(f"the keys in {self.path} have no sound signing key.")
        self._take(content)

    def _take(self, content: _Content) -> None:
        self._content = content
        self._signing = SigningKeys(content.signing, content.signs, self._newer_secrets)
        self.problem = None

    def _newer_secrets(self) -> Mapping[int, bytes]:
        """Return the signing keys as they are in the file now."""
        self.refresh()
        return self._content.signing

    def _write(self, content: _Content) -> None:
        if self.path is not None:
            with atomic_path(self.path, private=True) as path:
                path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
            self._stamp = _stamp(self.path)
        self._take(content)

    @contextmanager
    def _changing(self) -> Iterator[_Content]:
        """Keep others from changing the file; yield what it holds, with what they have changed."""
        if self.path is None:
            yield self._content
            return
        with folder_locked(self.path.parent):
            if self.problem is not None or _stamp(self.path) != self._stamp:
                self._read()
            yield self._content

    def refresh(self) -> None:
        """Read the file again if another process has changed it.

        If it cannot be read, the keys that were known stay valid, and :attr:`problem` says why.
        """
        if self.path is not None and _stamp(self.path) != self._stamp:
            try:
                self._read()
            except DamagedFile as error:
                self.problem = str(error)

    def signing_keys(self) -> SigningKeys:
        """Return the keys that sign the names of decisions."""
        return self._signing

    def store_secret(self) -> bytes:
        """Return the secret that logs are chained with, which stays the same for ever."""
        return self._content.store

    def derived_secrets(self, purpose: str) -> list[bytes]:
        """Derive a secret for another purpose from each signing key, the signer first.

        Args:
            purpose: a text that tells this use from all others.
        """
        signing, signs = self._content.signing, self._content.signs
        order = sorted(signing, key=lambda number: (number != signs, -number))
        return [hmac.digest(signing[number], purpose.encode(), "sha256") for number in order]

    def prepare(self) -> None:
        """Accept a new signing key before it signs, so that all servers know it when it does."""
        with self._changing() as content:
            signing = {**content.signing, max(content.signing) + 1: _new_secret()}
            if content.signs != max(content.signing):
                raise AlreadyExists("a signing key is prepared already; rotate makes it sign.")
            self._write(msgspec.structs.replace(content, signing=signing, signer=content.signs))

    def rotate(self, kept: int = 2) -> None:
        """Sign with the prepared key from now on, or else with a new one.

        Args:
            kept: how many of the latest keys are accepted, the new one included.
        """
        with self._changing() as content:
            signing = content.signing
            if content.signs == max(signing):
                signing = {**signing, max(signing) + 1: _new_secret()}
            latest = {number: signing[number] for number in sorted(signing)[-max(1, kept) :]}
            self._write(msgspec.structs.replace(content, signing=latest, signer=msgspec.UNSET))

    # --- sessions -------------------------------------------------------------------------

    def has_ended(self, session: str) -> bool:
        """Whether a session was ended before its time.

        Args:
            session: its name.
        """
        ended = self._content.ended
        return ended is not msgspec.UNSET and session in ended

    def end_session(self, session: str, until: int) -> None:
        """End a session before its time, for all servers that share the file.

        Args:
            session: its name.
            until: when it would have ended, in seconds.
        """
        with self._changing() as content:
            ended = {} if content.ended is msgspec.UNSET else content.ended
            kept = {name: end for name, end in ended.items() if end > time.time()}
            self._write(msgspec.structs.replace(content, ended={**kept, session: until}))

    # --- API keys -------------------------------------------------------------------------

    def list(self) -> list[ApiKey]:
        """Return all keys, revoked ones included, in the order of creation."""
        return [*self._content.keys]

    @property
    def has_keys(self) -> bool:
        """Whether there ever was a key: a service whose keys are all revoked stays closed."""
        return bool(self._content.keys)

    def create(
        self, scopes: Iterable[str], tenant: str = DEFAULT_TENANT, label: str = ""
    ) -> tuple[ApiKey, str]:
        """Create a key.

        Args:
            scopes: what it may be used for: decide, reward, read, admin.
            tenant: whose experiments it reaches.
            label: whose key it is, for the log of actions.

        Returns:
            The key, and the text that its user sends, which is not kept.
        """
        from armrace.service.model.settings import check_label  # which loads all of numba

        wanted = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in wanted if scope not in SCOPES]
        if unknown or not wanted:
            got = ", ".join(map(str, wanted)) or "none"
            raise InvalidParameter(f"scopes must be among {', '.join(SCOPES)}; got {got}.")
        check_label("tenant", tenant)
        if label:
            check_label("label", label)
        name, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
        created = time.time_ns() // 1_000_000
        made = ApiKey(name, tenant, wanted, created, _digest(secret), label=label)  # type: ignore[arg-type]  # checked above
        with self._changing() as content:
            self._write(msgspec.structs.replace(content, keys=[*content.keys, made]))
        return made, f"{_PREFIX}_{name}_{secret}"

    def revoke(self, name: str) -> ApiKey:
        """Revoke a key by its id.

        Args:
            name: the key's id.
        """
        with self._changing() as content:
            known = {key.id: key for key in content.keys}
            if name not in known:
                raise UnknownName(f"there is no key {name!r:.100}; see armrace keys list.")
            now = known[name].revoked or time.time_ns() // 1_000_000
            revoked = msgspec.structs.replace(known[name], revoked=now)
            keys = [revoked if key.id == name else key for key in content.keys]
            self._write(msgspec.structs.replace(content, keys=keys))
        return revoked

    def get(self, name: str) -> ApiKey | None:
        """Return a key by its id, unless there is none or it is revoked.

        Args:
            name: the key's id.
        """
        return next((k for k in self._content.keys if k.id == name and k.revoked is None), None)

    def find(self, text: str) -> ApiKey | None:
        """Return the key that a text stands for, unless there is none or it is revoked.

        Args:
            text: the key as its holder has it.
        """
        prefix, _, rest = text.partition("_")
        name, _, secret = rest.partition("_")
        found = self.get(name) if prefix == _PREFIX else None
        # Compared even if there is no such key, so that the time does not tell.
        expected = _digest("") if found is None else found.digest
        return found if hmac.compare_digest(_digest(secret), expected) else None


def _new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    # The inode too: two changes within one tick of the file system's clock have the same time.
    return status.st_mtime_ns, status.st_ino
