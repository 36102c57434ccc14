"""Signed sessions: who has signed in with which key, without the key itself.

A session is a signed text in a cookie. It names the key and ends with it: whether the key is still
valid, and what it may do, is looked up in every request. All servers that share a file of keys
accept the sessions of one another, and end them together.
"""

from __future__ import annotations

import hmac
import secrets
import time
from contextlib import suppress

from armrace.errors import ArmraceError
from armrace.service.keyring import ApiKey, Keyring

COOKIE = "armrace-session"
LIFETIME = 12 * 3600
_SESSION, _TOKEN, _SEAL = "session", "form", "seal"


class Sessions:
    """Signs sessions and recognises them."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._ended: set[str] = set()

    def begin(self, key: ApiKey) -> str:
        """Return the text of a new session."""
        text = f"{key.id}.{int(time.time()) + LIFETIME}.{secrets.token_hex(8)}"
        return f"{text}.{self._signatures(_SESSION, text)[0]}"

    def key_of(self, session: str) -> ApiKey | None:
        """Return the key of a session, unless it is forged or over, or its key is revoked."""
        text, _, signature = session.rpartition(".")
        if not session.isascii() or not _is_among(signature, self._signatures(_SESSION, text)):
            return None
        key, end, name = text.split(".")
        over = time.time() >= int(end) or name in self._ended or self._keyring.has_ended(name)
        return None if over else self._keyring.get(key)

    def end(self, session: str) -> None:
        """End a session, so that its text is of no use any more."""
        if self.key_of(session) is not None:
            _, end, name, _ = session.split(".")
            self._ended.add(name)
            with suppress(ArmraceError, OSError):  # of a file that cannot be written
                self._keyring.end_session(name, int(end))

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
