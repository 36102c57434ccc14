"""Signed sessions: who has signed in with which key, without the key itself.

A session is a signed text in a cookie. It names the key and ends with it: whether the key is still
valid, and what it may do, is looked up in every request. All servers that share a file of keys
accept the sessions of one another.
"""

from __future__ import annotations

import hmac
import secrets
import time

from armrace.service.keyring import ApiKey, Keyring

__all__ = ["COOKIE", "Sessions"]

COOKIE = "armrace-session"
LIFETIME = 12 * 3600
_INVITATION_LIFETIME = 24 * 3600
_SESSION, _INVITATION, _TOKEN, _SEAL = "session", "invitation", "form", "seal"


class Sessions:
    """Signs sessions and recognises them.

    Args:
        keyring: the keys, whose file also holds the secret that signs.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._used: set[str] = set()

    def begin(self, key: ApiKey) -> str:
        """Return the text of a new session."""
        return self._sign(_SESSION, key.id, LIFETIME)

    def key_of(self, session: str) -> ApiKey | None:
        """Return the key of a session, unless it is forged, has expired, or its key is revoked."""
        return self._read(_SESSION, session)

    def invite(self, key: ApiKey) -> str:
        """Return a text that begins a session once, for a link."""
        return self._sign(_INVITATION, key.id, _INVITATION_LIFETIME)

    def accept(self, invitation: str) -> ApiKey | None:
        """Return the key of an invitation that is valid and has not been used."""
        key = self._read(_INVITATION, invitation)
        if key is None or invitation in self._used:
            return None
        self._used.add(invitation)
        return key

    def form_token(self, session: str) -> str:
        """Return the session's CSRF token, which its forms must send."""
        return self._signatures(_TOKEN, session)[0]

    def is_form_token(self, session: str, token: str) -> bool:
        """Whether a form belongs to a session."""
        return _is_among(token, self._signatures(_TOKEN, session))

    def seal(self, session: str, *words: str) -> str:
        """Return a signature of words that is valid in a session alone."""
        return self._signatures(_SEAL, "\0".join((session, *words)))[0]

    def is_seal(self, session: str, seal: str, *words: str) -> bool:
        """Whether words were sealed in a session."""
        return _is_among(seal, self._signatures(_SEAL, "\0".join((session, *words))))

    def _sign(self, purpose: str, key: str, lifetime: int) -> str:
        text = f"{key}.{int(time.time()) + lifetime}.{secrets.token_hex(8)}"
        return f"{text}.{self._signatures(purpose, text)[0]}"

    def _read(self, purpose: str, signed: str) -> ApiKey | None:
        text, _, signature = signed.rpartition(".")
        if not signed.isascii() or not _is_among(signature, self._signatures(purpose, text)):
            return None
        key, end, _ = text.split(".")
        return self._keyring.get(key) if time.time() < int(end) else None

    def _signatures(self, purpose: str, text: str) -> list[str]:
        """Return the signatures of a text by all keys that are accepted, the one in use first."""
        return [
            hmac.digest(secret, text.encode(), "sha256").hex()
            for secret in self._keyring.derived_secrets(f"dashboard {purpose}")
        ]


def _is_among(signature: str, expected: list[str]) -> bool:
    # All are compared, so that the time does not tell which secret has signed.
    found = [hmac.compare_digest(signature.encode(), each.encode()) for each in expected]
    return any(found)
