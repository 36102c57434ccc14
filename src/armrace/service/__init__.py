"""The decision service: experiments that decide and learn, on a durable log.

The state of all experiments is a fold of an event log. Requests are performed in turns of a
store, and no answer leaves before its events are durable.
"""

from armrace.service.keyring import ApiKey, Keyring
from armrace.service.ledger import Ledger
from armrace.service.opening import open_service, open_store
from armrace.service.requests.arms import ArmAnswer
from armrace.service.requests.decisions import Decision
from armrace.service.requests.exports import DecisionRow
from armrace.service.requests.inspection import RatioCheck, RatioRow
from armrace.service.requests.rulings import QuarantinedReward, RulingAnswer
from armrace.service.service import RewardAnswer, Service
from armrace.service.stores import MemoryStore, Store, Turn
from armrace.service.views import ArmSummary, ExperimentView, LayerView

__all__ = [
    "ApiKey",
    "ArmAnswer",
    "ArmSummary",
    "Decision",
    "DecisionRow",
    "ExperimentView",
    "Keyring",
    "LayerView",
    "Ledger",
    "MemoryStore",
    "QuarantinedReward",
    "RatioCheck",
    "RatioRow",
    "RewardAnswer",
    "RulingAnswer",
    "Service",
    "Store",
    "Turn",
    "open_service",
    "open_store",
]
