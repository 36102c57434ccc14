"""The attacks. ``ADVERSARIES`` is the catalogue that tests, docs and command line read."""

from armrace.adversaries.aae_opening import AaeOpening
from armrace.adversaries.adaptive_constant import AdaptiveConstant
from armrace.adversaries.base import Adversary, Setting
from armrace.adversaries.clean_objective import CleanObjective
from armrace.adversaries.click_bots import ClickBots
from armrace.adversaries.construction import Construction
from armrace.adversaries.fake_reviews import FakeReviews
from armrace.adversaries.jun_greedy import JunGreedy
from armrace.adversaries.jun_ucb import JunUcb
from armrace.adversaries.lower_bound_switch import LowerBoundSwitch
from armrace.adversaries.none import NoAttack
from armrace.adversaries.observation_free import ObservationFree
from armrace.adversaries.oracle import Oracle
from armrace.adversaries.outage import Outage
from armrace.adversaries.random_flips import RandomFlips
from armrace.adversaries.sleeper_bots import SleeperBots
from armrace.adversaries.spam_wave import SpamWave
from armrace.adversaries.swap_best import SwapBest
from armrace.adversaries.zero_best import ZeroBest
from armrace.adversaries.zero_best_when_likely import ZeroBestWhenLikely
from armrace.specification import Catalogue

__all__ = [
    "ADVERSARIES",
    "AaeOpening",
    "AdaptiveConstant",
    "Adversary",
    "CleanObjective",
    "ClickBots",
    "Construction",
    "FakeReviews",
    "JunGreedy",
    "JunUcb",
    "LowerBoundSwitch",
    "NoAttack",
    "ObservationFree",
    "Oracle",
    "Outage",
    "RandomFlips",
    "Setting",
    "SleeperBots",
    "SpamWave",
    "SwapBest",
    "ZeroBest",
    "ZeroBestWhenLikely",
]

ADVERSARIES: Catalogue[Adversary] = Catalogue(
    "attack",
    (
        NoAttack,
        ZeroBest,
        ZeroBestWhenLikely,
        SwapBest,
        AaeOpening,
        RandomFlips,
        Outage,
        JunUcb,
        JunGreedy,
        Oracle,
        AdaptiveConstant,
        ObservationFree,
        LowerBoundSwitch,
        CleanObjective,
        ClickBots,
        SleeperBots,
        FakeReviews,
        Construction,
        SpamWave,
    ),
)
