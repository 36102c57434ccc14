"""Signed names of decisions and leases.

A token says which decision of which experiment it names, which arm was served and when the window
closes. Its signature covers the tenant too, which is not part of it: a token that is shown by
another tenant is refused like any forgery. The layer that a decision was drawn from is not in
it.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from armrace.errors import ForeignTicket

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
