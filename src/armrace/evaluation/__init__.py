"""Evaluation of policies, and of attacks on them, on logs that other systems have made."""

from armrace.evaluation.estimates import ESTIMATORS, Estimate
from armrace.evaluation.replay import POLICIES_REPLAYED, replay
from armrace.evaluation.results import AttackOnLog, Gain, PolicyReplay, Replay

__all__ = [
    "ESTIMATORS",
    "POLICIES_REPLAYED",
    "AttackOnLog",
    "Estimate",
    "Gain",
    "PolicyReplay",
    "Replay",
    "replay",
]
