"""The modes in which servers share a log: exact and relaxed."""

from __future__ import annotations

from typing import Any, Literal

from armrace.errors import InvalidParameter
from armrace.service.ledger import Ledger
from armrace.service.relaxed.ledger import RelaxedLedger

__all__ = ["Mode", "ledger_of"]

Mode = Literal["exact", "relaxed"]

_LEDGERS: dict[Any, type[Ledger]] = {each.mode: each for each in (Ledger, RelaxedLedger)}


def ledger_of(mode: Any, several_writers: bool) -> type[Ledger]:
    """Return the class of the ledger of a mode, or refuse the mode.

    Args:
        mode: the mode.
        several_writers: whether several processes can write to the store.
    """
    if mode not in _LEDGERS:
        raise InvalidParameter(f"mode must be one of exact, relaxed; got {mode!r:.100}.")
    if mode == RelaxedLedger.mode and not several_writers:
        raise InvalidParameter(
            "mode must be exact unless the store is a PostgreSQL: one process writes to any other "
            "store, so that a relaxed mode gains nothing."
        )
    return _LEDGERS[mode]
