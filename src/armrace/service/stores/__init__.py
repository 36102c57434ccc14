"""Where the log is kept: one contract, and the stores that fulfil it."""

from armrace.service.stores.base import Store, Turn
from armrace.service.stores.memory import MemoryStore

__all__ = ["MemoryStore", "Store", "Turn"]
