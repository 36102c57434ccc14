"""The algorithms. ``POLICIES`` is the catalogue that tests, docs and command line read."""

from armrace.policies.active_arm_elimination import ActiveArmElimination
from armrace.policies.base import ArmView, Policy
from armrace.policies.enlarged_arm_elimination import EnlargedArmElimination
from armrace.policies.exp3 import Exp3
from armrace.policies.fast_slow_race import FastSlowRace
from armrace.policies.multi_layer_race import MultiLayerRace
from armrace.policies.ucb1 import Ucb1
from armrace.specification import Catalogue

__all__ = [
    "POLICIES",
    "ActiveArmElimination",
    "ArmView",
    "EnlargedArmElimination",
    "Exp3",
    "FastSlowRace",
    "MultiLayerRace",
    "Policy",
    "Ucb1",
]

POLICIES: Catalogue[Policy] = Catalogue(
    "policy",
    (
        MultiLayerRace,
        FastSlowRace,
        EnlargedArmElimination,
        ActiveArmElimination,
        Ucb1,
        Exp3,
    ),
)
