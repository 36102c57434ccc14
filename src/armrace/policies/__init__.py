"""The algorithms. ``POLICIES`` is the catalogue that tests, docs and command line read."""

from armrace.policies.active_arm_elimination import ActiveArmElimination
from armrace.policies.barbar import Barbar
from armrace.policies.barbat import Barbat
from armrace.policies.base import ArmView, Policy
from armrace.policies.best_of_all_worlds import BestOfAllWorlds
from armrace.policies.broad import Broad
from armrace.policies.crucb import CrUcb
from armrace.policies.enlarged_arm_elimination import EnlargedArmElimination
from armrace.policies.exp3 import Exp3
from armrace.policies.exp3_ix import Exp3Ix
from armrace.policies.exp3_plus_plus import Exp3PlusPlus
from armrace.policies.exp3p import Exp3P
from armrace.policies.fast_slow_race import FastSlowRace
from armrace.policies.kl_ucb import KlUcb
from armrace.policies.kl_ucb_cf import KlUcbCf
from armrace.policies.lb_inf import LbInf
from armrace.policies.lb_inf_v import LbInfV
from armrace.policies.log_barrier import LogBarrier
from armrace.policies.moss import Moss
from armrace.policies.multi_layer_race import MultiLayerRace
from armrace.policies.robust_ucb import RobustUcb
from armrace.policies.rucb import RUcb
from armrace.policies.sao import Sao
from armrace.policies.sapo import Sapo
from armrace.policies.sharp_race import SharpRace
from armrace.policies.thompson import Thompson
from armrace.policies.thompson_cf import ThompsonCf
from armrace.policies.tsallis_inf import TsallisInf
from armrace.policies.ucb1 import Ucb1
from armrace.specification import Catalogue

__all__ = [
    "POLICIES",
    "ActiveArmElimination",
    "ArmView",
    "Barbar",
    "Barbat",
    "BestOfAllWorlds",
    "Broad",
    "CrUcb",
    "EnlargedArmElimination",
    "Exp3",
    "Exp3Ix",
    "Exp3P",
    "Exp3PlusPlus",
    "FastSlowRace",
    "KlUcb",
    "KlUcbCf",
    "LbInf",
    "LbInfV",
    "LogBarrier",
    "Moss",
    "MultiLayerRace",
    "Policy",
    "RUcb",
    "RobustUcb",
    "Sao",
    "Sapo",
    "SharpRace",
    "Thompson",
    "ThompsonCf",
    "TsallisInf",
    "Ucb1",
]

POLICIES: Catalogue[Policy] = Catalogue(
    "policy",
    (
        MultiLayerRace,
        SharpRace,
        FastSlowRace,
        EnlargedArmElimination,
        ActiveArmElimination,
        BestOfAllWorlds,
        Barbar,
        Barbat,
        CrUcb,
        RUcb,
        KlUcbCf,
        ThompsonCf,
        Ucb1,
        KlUcb,
        Moss,
        Thompson,
        RobustUcb,
        Exp3,
        Exp3P,
        Exp3Ix,
        Exp3PlusPlus,
        TsallisInf,
        LbInf,
        LbInfV,
        LogBarrier,
        Broad,
        Sao,
        Sapo,
    ),
)
