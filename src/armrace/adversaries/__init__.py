"""The attacks. ``ADVERSARIES`` is the catalogue that tests, docs and command line read."""

from armrace.adversaries.aae_opening import AaeOpening
from armrace.adversaries.base import Adversary, Setting
from armrace.adversaries.none import NoAttack
from armrace.adversaries.outage import Outage
from armrace.adversaries.random_flips import RandomFlips
from armrace.adversaries.swap_best import SwapBest
from armrace.adversaries.zero_best import ZeroBest
from armrace.adversaries.zero_best_when_likely import ZeroBestWhenLikely
from armrace.specification import Catalogue

__all__ = [
    "ADVERSARIES",
    "AaeOpening",
    "Adversary",
    "NoAttack",
    "Outage",
    "RandomFlips",
    "Setting",
    "SwapBest",
    "ZeroBest",
    "ZeroBestWhenLikely",
]

ADVERSARIES: Catalogue[Adversary] = Catalogue(
    "attack",
    (NoAttack, ZeroBest, ZeroBestWhenLikely, SwapBest, AaeOpening, RandomFlips, Outage),
)
