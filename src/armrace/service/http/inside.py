"""The endpoints as pages of the same server use them: with the same scopes and the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service.http.access import Access, trust
from armrace.service.http.endpoints import ENDPOINTS, Endpoint
from armrace.service.http.front import Front
from armrace.service.http.operations import Call
from armrace.service.http.problems import Forbidden
from armrace.service.http.streams import Streams
from armrace.service.keyring import ApiKey, Keyring

__all__ = ["Inside", "Visitor"]

_FOUND: dict[tuple[str, str], Endpoint] = {(each.method, each.path): each for each in ENDPOINTS}


class Visitor(NamedTuple):
    """Who uses a page: the tenant, and the key that they have signed in with."""

    tenant: str
    key: ApiKey | None
    """``None`` if the service is open."""

    @property
    def may_change(self) -> bool:
        """Whether the visitor may retract and release."""
        return self.key is None or self.key.allows("admin")

    @property
    def key_id(self) -> str:
        """What streams are counted by: the id of the key, empty if there is none."""
        return "" if self.key is None else self.key.id


class Inside:
    """Calls endpoints without a connection.

    Args:
        front: performs requests.
        access: checks who may use a service that is open.
        keyring: the keys.
        tenant: whose experiments are reached without a key.
        streams: the event streams, which end when the server stops.
        when_failed: called when the store has failed.
    """

    def __init__(
        self,
        front: Front,
        access: Access,
        keyring: Keyring,
        tenant: str,
        streams: Streams,
        when_failed: Callable[[], None],
    ) -> None:
        self.keyring = keyring
        self.streams = streams
        self._front = front
        self._access = access
        self._tenant = tenant
        self._when_failed = when_failed

    @property
    def is_open(self) -> bool:
        """Whether visitors on this machine need no key."""
        return self._access.is_open

    def refresh(self) -> None:
        """Reload the keys if their file has changed, at most ten times a second."""
        self._access.refresh()

    def charge(self, visitor: Visitor) -> None:
        """Count a request of a visitor's key; refuse one that is too many.

        Args:
            visitor: who asks.
        """
        self._access.charge(visitor.key)

    def local_visitor(self, http: Mapping[str, Any]) -> Visitor:
        """Return a visitor of a service that is open, or refuse a request from elsewhere.

        Args:
            http: the request as ASGI describes it.
        """
        self._access.check_local(http, dict(http["headers"]))
        trust(http)
        return Visitor(self._tenant, None)

    async def call(
        self, visitor: Visitor, method: str, path: str, name: str = "", body: Any = None
    ) -> Any:
        """Return the answer of an endpoint, or raise its refusal.

        Args:
            visitor: who asks.
            method: the method of the endpoint.
            path: its address, with the names of parameters in braces.
            name: the experiment.
            body: the body as plain data.
        """
        endpoint = _FOUND[method, path]
        key = visitor.key
        if key is not None and not key.allows(endpoint.scope):
            raise Forbidden(f"this needs a key with the scope {endpoint.scope}.")
        content = None
        if endpoint.body is not None:
            try:
                content = msgspec.convert(body or {}, endpoint.body)
            except msgspec.ValidationError as error:
                raise InvalidParameter(f"the request is refused: {error}.") from None
        call = Call(self._front, self.streams, visitor.tenant, {"name": name}, {}, content)
        try:
            return await endpoint.handle(call)
        except (DamagedFile, StoreFailed):
            self._when_failed()
            raise
