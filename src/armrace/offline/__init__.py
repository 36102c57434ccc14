"""Logs that other systems have written, and what policies and attacks would have done on them.

What replays is loaded when first used: audits and the service only read logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armrace.offline.log import Log, LogRows, open_log
from armrace.offline.readers import SAMPLES, Columns, make_columns, read_columns
from armrace.offline.rows import RowProblem, RowReport

if TYPE_CHECKING:
    from armrace.offline.replaying import POLICIES_REPLAYED, replay
    from armrace.offline.results import (
        ESTIMATORS,
        AttackOnLog,
        Estimate,
        Gain,
        LeafReplay,
        PolicyReplay,
        Replay,
    )
    from armrace.offline.suggesting import Suggestion, suggest_schema
    from armrace.offline.visitors import VisitorsOfLog, visitors_of

__all__ = [
    "ESTIMATORS",
    "POLICIES_REPLAYED",
    "SAMPLES",
    "AttackOnLog",
    "Columns",
    "Estimate",
    "Gain",
    "LeafReplay",
    "Log",
    "LogRows",
    "PolicyReplay",
    "Replay",
    "RowProblem",
    "RowReport",
    "Suggestion",
    "VisitorsOfLog",
    "make_columns",
    "open_log",
    "read_columns",
    "replay",
    "suggest_schema",
    "visitors_of",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'armrace.offline' has no attribute {name!r}")
    from armrace.offline import replaying, results, suggesting, visitors

    homes = (replaying, results, suggesting, visitors)
    return getattr(next(home for home in homes if hasattr(home, name)), name)
