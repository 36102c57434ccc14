"""Live use: the same compiled policies, one decision at a time."""

from armrace.kernels.generics import Ticket
from armrace.learner.events import (
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
from armrace.learner.learner import Learner
from armrace.learner.snapshots import Snapshot

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
