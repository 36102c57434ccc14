"""Live use: the same compiled policies, one decision at a time."""

from armrace.kernels.generics import Ticket
from armrace.online.events import (
    ArmAdded,
    ArmPaused,
    ArmResumed,
    Assigned,
    Decision,
    DecisionBatch,
    Dropped,
    Event,
    EventLog,
    Learned,
)
from armrace.online.learner import Learner
from armrace.online.snapshots import Snapshot

__all__ = [
    "ArmAdded",
    "ArmPaused",
    "ArmResumed",
    "Assigned",
    "Decision",
    "DecisionBatch",
    "Dropped",
    "Event",
    "EventLog",
    "Learned",
    "Learner",
    "Snapshot",
    "Ticket",
]
