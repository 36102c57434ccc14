"""Signed names of decisions.

A token says which decision of which experiment it names, which arm was served and when the window
closes. Its signature covers the tenant too, which is not part of it: a token that is shown by
another tenant is refused like any forgery. The layer that a decision was drawn from is not in
it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from armrace.errors import ForeignTicket

__all__ = ["SigningKeys", "TokenContent"]

_VERSION = 1
_CONTENT = struct.Struct(">BIIQIQ")
_SIGNATURE = 16
_BLOCK = 64
"""The block of SHA-256, in bytes; a secret is shorter."""
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/", b"+/--")
"""Characters outside the URL-safe alphabet of base64 become ones that base64 does not have."""
_FORGED = "no decision of this service has this token."


class TokenContent(NamedTuple):
    """What a token says."""

    experiment: int
    sequence: int
    place: int
    closes: int


class SigningKeys:
    """The secrets that sign tokens, by number; one signs, all of them are accepted.

    Args:
        secrets: at least one secret of 32 bytes, by the number that tokens carry.
        signer: the number of the one that signs; by default the newest.
        newer: returns all secrets as they are now, when a token has a number that is not known:
            another server may sign with a new key before this one has heard of it.
    """

    def __init__(
        self,
        secrets: Mapping[int, bytes],
        signer: int | None = None,
        newer: Callable[[], Mapping[int, bytes]] = dict,
    ) -> None:
        self._macs = {number: _Mac(secret) for number, secret in secrets.items()}
        self._signer = max(self._macs) if signer is None else signer
        self._newer = newer

    def sign(self, tenant: str, content: TokenContent) -> str:
        """Return the token of a decision.

        Args:
            tenant: which tenant the decision was served; part of the signature only.
            content: what the token says.
        """
        body = _CONTENT.pack(_VERSION, self._signer, *content)
        signed = body + self._signature(self._signer, tenant, body)
        return binascii.b2a_base64(signed, newline=False).translate(_TO_URL).decode()

    def read(self, tenant: str, token: object) -> TokenContent:
        """Return what a token says.

        Args:
            tenant: which tenant shows the token.
            token: the token.

        Raises:
            ForeignTicket: this service has not given it to this tenant.
        """
        if not isinstance(token, str) or len(token) != _LENGTH or not token.isascii():
            raise ForeignTicket(_FORGED)
        try:
            signed = binascii.a2b_base64(token.encode().translate(_FROM_URL), strict_mode=True)
        except binascii.Error:
            raise ForeignTicket(_FORGED) from None
        body, signature = signed[: _CONTENT.size], signed[_CONTENT.size :]
        version, key, *content = _CONTENT.unpack(body)
        if version != _VERSION or not self._knows(key):
            raise ForeignTicket(_FORGED)
        if not hmac.compare_digest(signature, self._signature(key, tenant, body)):
            raise ForeignTicket(_FORGED)
        return TokenContent(*content)

    def _knows(self, number: int) -> bool:
        if number not in self._macs:
            found = self._newer().get(number)
            if found is None:
                return False
            self._macs[number] = _Mac(found)
        return True

    def _signature(self, key: int, tenant: str, body: bytes) -> bytes:
        return self._macs[key].digest(body + tenant.encode("utf-8", "surrogatepass"))[:_SIGNATURE]


class _Mac:
    """HMAC-SHA256 whose key is hashed once; ``hmac.digest`` takes three times as long.

    >>> _Mac(b"key").digest(b"message") == hmac.digest(b"key", b"message", "sha256")
    True
    """

    def __init__(self, key: bytes) -> None:
        block = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def digest(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


_LENGTH = len(base64.b64encode(bytes(_CONTENT.size + _SIGNATURE)))
