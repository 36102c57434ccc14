"""Who may do what: API keys, scopes, and how often."""

from __future__ import annotations

import time

from armrace.service.http.problems import Forbidden, TooOften, Unauthorised
from armrace.service.keyring import ApiKey, Keyring, Scope

__all__ = ["Access"]

_REFRESH_SECONDS = 0.1
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class _Bucket:
    """Allows ``rate`` requests a second, and as many at once as come in ``burst`` seconds."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._most = rate, rate * burst
        self._left, self._last = self._most, time.monotonic()

    def take(self, count: int) -> bool:
        now = time.monotonic()
        self._left = min(self._most, self._left + self._rate * (now - self._last))
        self._last = now
        if self._left < count:
            return False
        self._left -= count
        return True


class Access:
    """Decides whether a request may pass.

    As long as there is no key, every request of this machine passes; the server listens on no
    other address then.

    Args:
        keyring: the keys.
        rate: how many events a second each key may send; ``None`` for no limit.
        tenant: whose experiments requests reach while there is no key.
    """

    def __init__(self, keyring: Keyring, rate: float | None, tenant: str) -> None:
        self._keyring = keyring
        self._rate = rate
        self._tenant = tenant
        self._buckets: dict[str, _Bucket] = {}
        self._refreshed = time.monotonic()

    def check(self, authorisation: str, host: str, scope: Scope, events: int = 1) -> str:
        """Return the tenant of a request, or refuse it.

        Args:
            authorisation: the header of that name.
            host: the header of that name.
            scope: what the request needs.
            events: how many events it carries.

        Returns:
            The tenant.
        """
        self.refresh()
        if not self._keyring.has_keys:
            # A web page must not reach the service through a name that leads to this machine.
            if host.rsplit(":", 1)[0] not in _LOCAL_HOSTS:
                raise Forbidden("without keys, the service answers requests to localhost alone.")
            return self._tenant
        kind, _, text = authorisation.partition(" ")
        key = self._keyring.find(text) if kind.lower() == "bearer" else None
        if key is None:
            raise Unauthorised("the header Authorization must be Bearer with a valid key.")
        if not key.allows(scope):
            raise Forbidden(f"the key {key.id} does not have the scope {scope}.")
        self._count(key, events)
        return key.tenant

    def refresh(self) -> None:
        """Look now and then whether another process has changed the keys."""
        now = time.monotonic()
        if now - self._refreshed > _REFRESH_SECONDS:
            self._refreshed = now
            self._keyring.refresh()

    def _count(self, key: ApiKey, events: int) -> None:
        if self._rate is None:
            return
        bucket = self._buckets.setdefault(key.id, _Bucket(self._rate, burst=2.0))
        if not bucket.take(events):
            raise TooOften(f"the key {key.id} may send {self._rate:g} events a second.")
