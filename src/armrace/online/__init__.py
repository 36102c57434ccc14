"""Live use: the same compiled policies, one decision at a time."""

from armrace.online.learner import Learner, Ticket
from armrace.online.snapshots import Snapshot

__all__ = ["Learner", "Snapshot", "Ticket"]
