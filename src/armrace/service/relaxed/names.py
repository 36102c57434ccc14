"""Names of decisions that are read before a turn and signed after it, to keep the turn short."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from armrace.errors import ForeignTicket
from armrace.service.answers import Decision
from armrace.service.tokens import SigningKeys, TokenContent

__all__ = ["NamesAside"]


class NamesAside(SigningKeys):
    """Signing keys that defer all signatures to the end of a turn.

    Args:
        keys: the keys that sign.
    """

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._contents: dict[tuple[str, str], TokenContent] = {}
        self._unsigned: list[tuple[str, TokenContent]] = []

    def read_ahead(self, tenant: str, token: object) -> None:
        """Read a name before the turn; a forged one is refused later, by :meth:`read`."""
        if isinstance(token, str):
            with suppress(ForeignTicket):
                self._contents[tenant, token] = self._keys.read(tenant, token)

    def read(self, tenant: str, token: object) -> TokenContent:
        found = self._contents.get((tenant, token)) if isinstance(token, str) else None
        return self._keys.read(tenant, token) if found is None else found

    def sign(self, tenant: str, content: TokenContent) -> str:
        """Queue the content for signing; return an empty placeholder."""
        self._unsigned.append((tenant, content))
        return ""

    def sign_answers(self, batches: Iterable[Iterable[Any]]) -> list[list[Any]]:
        """Return all answers of a turn with their names.

        Args:
            batches: the answers in the order in which their names were queued: all batches of the
                turn at once, since a decision is told apart by its place in the queue alone.
        """
        unsigned = iter(self._unsigned)
        return [
            [
                msgspec.structs.replace(each, decision=self._keys.sign(*next(unsigned)))
                if type(each) is Decision
                else each
                for each in batch
            ]
            for batch in batches
        ]
