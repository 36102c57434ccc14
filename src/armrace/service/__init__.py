"""The decision service: experiments that decide and learn, on a durable log.

The state of all experiments is a fold of an event log. Requests are performed in turns of a
store, and no answer leaves before its events are durable.

Names are loaded when they are first used, so that clients need not load the compiled core.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "armrace.service.answers": (
        "ArmAnswer",
        "ArmSummary",
        "Decision",
        "DecisionRow",
        "Deletion",
        "ExperimentHealth",
        "ExperimentView",
        "HistoryView",
        "LayerView",
        "QuarantinedReward",
        "RatioCheck",
        "RatioRow",
        "RewardAnswer",
        "RulingAnswer",
        "RulingView",
        "SourceDayView",
        "SourceView",
    ),
    "armrace.service.keyring": (
        "ApiKey",
        "Keyring",
    ),
    "armrace.service.ledger": ("Ledger",),
    "armrace.service.opening": (
        "open_service",
        "open_store",
    ),
    "armrace.service.service": ("Service",),
    "armrace.service.stores": (
        "MemoryStore",
        "Store",
        "Turn",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from armrace.service.answers import (
        ArmAnswer,
        ArmSummary,
        Decision,
        DecisionRow,
        Deletion,
        ExperimentHealth,
        ExperimentView,
        HistoryView,
        LayerView,
        QuarantinedReward,
        RatioCheck,
        RatioRow,
        RewardAnswer,
        RulingAnswer,
        RulingView,
        SourceDayView,
        SourceView,
    )
    from armrace.service.keyring import ApiKey, Keyring
    from armrace.service.ledger import Ledger
    from armrace.service.opening import open_service, open_store
    from armrace.service.service import Service
    from armrace.service.stores import MemoryStore, Store, Turn

__all__ = [
    "ApiKey",
    "ArmAnswer",
    "ArmSummary",
    "Decision",
    "DecisionRow",
    "Deletion",
    "ExperimentHealth",
    "ExperimentView",
    "HistoryView",
    "Keyring",
    "LayerView",
    "Ledger",
    "MemoryStore",
    "QuarantinedReward",
    "RatioCheck",
    "RatioRow",
    "RewardAnswer",
    "RulingAnswer",
    "RulingView",
    "Service",
    "SourceDayView",
    "SourceView",
    "Store",
    "Turn",
    "open_service",
    "open_store",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'armrace.service' has no attribute {name!r}")
