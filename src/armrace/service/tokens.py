"""Signed names of decisions.

A token says which decision of which experiment it names, which arm was served and when the window
closes. Its signature covers the tenant too, which is not part of it: a token that is shown by
another tenant is refused like any forgery. The layer that a decision was drawn from is not in
it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Mapping
from typing import NamedTuple

from armrace.errors import ForeignTicket

__all__ = ["SigningKeys", "TokenContent"]

_VERSION = 1
_CONTENT = struct.Struct(">BIIQIQ")
_SIGNATURE = 16
_FORGED = "no decision of this service has this token."


class TokenContent(NamedTuple):
    """What a token says."""

    experiment: int
    sequence: int
    place: int
    closes: int


class SigningKeys:
    """The secrets that sign tokens, by number; the newest one signs, all of them are accepted.

    Args:
        secrets: at least one secret of 32 bytes, by the number that tokens carry.
    """

    def __init__(self, secrets: Mapping[int, bytes]) -> None:
        self._secrets = dict(secrets)
        self._newest = max(self._secrets)

    def sign(self, tenant: str, content: TokenContent) -> str:
        """Return the token of a decision."""
        body = _CONTENT.pack(_VERSION, self._newest, *content)
        signed = body + self._signature(self._newest, tenant, body)
        return base64.urlsafe_b64encode(signed).decode()

    def read(self, tenant: str, token: object) -> TokenContent:
        """Return what a token says.

        Raises:
            ForeignTicket: this service has not given it to this tenant.
        """
        if not isinstance(token, str) or len(token) != _LENGTH or not token.isascii():
            raise ForeignTicket(_FORGED)
        if "+" in token or "/" in token:  # which base64 would read as - and _
            raise ForeignTicket(_FORGED)
        try:
            signed = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        except binascii.Error:
            raise ForeignTicket(_FORGED) from None
        body, signature = signed[: _CONTENT.size], signed[_CONTENT.size :]
        version, key, *content = _CONTENT.unpack(body)
        if version != _VERSION or key not in self._secrets:
            raise ForeignTicket(_FORGED)
        if not hmac.compare_digest(signature, self._signature(key, tenant, body)):
            raise ForeignTicket(_FORGED)
        return TokenContent(*content)

    def _signature(self, key: int, tenant: str, body: bytes) -> bytes:
        message = body + tenant.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secrets[key], message, "sha256")[:_SIGNATURE]


_LENGTH = len(base64.b64encode(bytes(_CONTENT.size + _SIGNATURE)))
