"""The Multi-layer Active Arm Elimination Race, which need not know the corruption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np

from armrace.errors import InvalidParameter
from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import paper_rule, sharp_rule
from armrace.policies.races.race import Race, make_race
from armrace.specification import Confidence
from armrace.theory import agnostic_regret, race_tolerances


class MultiLayerRace(RacePolicy, frozen=True, tag="multi-layer-race"):
    """A race of arm eliminations, each slower and more robust than the one before.

    Layer ``l`` of ``ceil(lg T)`` gets a round with probability ``2^-l`` (what remains goes to
    layer 1), so that it sees a corruption of order ``ln T`` as long as the total is at most
    ``2^l``. An arm that a layer deletes is deleted from all faster layers. An empty layer
    plays the best arm of the fastest non-empty one and learns nothing. The paper's intervals are
    ``mean +- (sqrt(L/n) + L/n)`` with ``L = ln(4KT ceil(lg T) / delta)``; the other ``intervals``
    are narrower, and with ``pool`` a layer also uses the rewards of all slower ones. What is
    guaranteed is of the same order; the theory page has the probabilities.

    With probability ``1 - delta`` and whatever the corruption ``C``, the regret is of order ``sum
    over arms of (K C ln(KT/delta) + ln T) ln(KT/delta) / gap`` (Theorem 3; ``armrace.theory`` has
    its constants). With fewer layers, but at least two, this holds as long as ``C`` is at most
    ``base^layers``; a single layer has all rounds and tolerates a corruption of 1.

    >>> state = MultiLayerRace(delta=0.1).start(arms=2, horizon=1024)
    >>> state.share.size, state.share[0], f"{state.rule.log_lower[0]:.5f}"
    (10, np.float64(0.5009765625), '13.61608')
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Algorithm 2 and Theorem 3 of Lykouris, Mirrokni and Paes Leme, Stochastic bandits "
        "robust to adversarial corruptions (STOC 2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 2 and Theorem 3 were read in the paper; the bound holds with the corrected "
        "accounts of the errata."
    )

    delta: Confidence = 0.05
    layers: Annotated[
        int | None, Limits("number of layers; by default as many as the horizon asks for", 1, 60)
    ] = None
    base: Annotated[float, Limits("factor by which each layer is slower than the last", 2, 1e6)] = (
        2.0
    )
    intervals: Annotated[
        Literal["paper", "hoeffding", "bernstein", "kl", "kl-mixture", "kl-jeffreys"],
        "how confidence intervals are made",
    ] = "paper"
    pool: Annotated[bool, "whether layers use the rewards of slower ones; not with paper"] = False

    def validate(self) -> None:
        if self.layers is not None and self.layers * math.log2(self.base) > 1000:
            raise InvalidParameter(
                f"base to the power of layers must be at most 2^1000; "
                f"got base {self.base:g} and layers {self.layers}."
            )
        if self.pool and self.intervals == "paper":
            raise InvalidParameter("pool needs other intervals than paper, such as kl-mixture.")

    def layer_count(self, arms: int, horizon: int) -> int:
        """The smallest number of layers whose slowest tolerates corruption in every round."""
        if self.layers is not None:
            return self.layers
        layers = 1 if horizon <= 2 else 2  # a single layer has all rounds, and tolerates nothing
        while self.base**layers < horizon:
            layers += 1
        return layers

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if self != MultiLayerRace(delta=self.delta):
            return None  # Theorem 3 is about the race of the paper
        bound = agnostic_regret(gaps, horizon, self.delta, corruption)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        layers = self.layer_count(arms, horizon)
        share = self.base ** -np.arange(1.0, layers + 1)
        # Algorithm 2: the first layer gets what the others leave (erratum 11).
        share[0] = 1.0 - share[1:].sum()
        if self.intervals == "paper":
            log_term = math.log(4 * arms * horizon * layers / self.delta)
            rule = paper_rule(log_term, np.full(layers, log_term))
            tolerated = race_tolerances(arms, horizon, self.delta, share.tolist())
            return make_race(arms, share, rule, tolerated=np.array(tolerated))
        rule = sharp_rule(self.intervals, arms, horizon, share, self.pool, self.delta)
        return make_race(arms, share, rule, pooled=self.pool)
