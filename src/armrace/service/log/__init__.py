"""One log an experiment: records chained by keyed digests, and the stores that keep them."""

from armrace.service.log.memory import MemoryStore
from armrace.service.log.store import Store, Transaction

__all__ = ["MemoryStore", "Store", "Transaction"]
