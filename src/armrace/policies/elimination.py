"""Arm elimination without corruption, in two layers or many, and the sharp race."""

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
from armrace.policies.races.race import Race, make_pooled_race, make_race
from armrace.specification import Confidence
from armrace.theory import (
    SharpLayer,
    agnostic_regret,
    fast_slow_regret,
    known_corruption_regret,
    layer_tolerances,
    race_tolerances,
    sharp_layers,
    sharp_regret,
)


class ActiveArmElimination(RacePolicy, frozen=True, tag="active-arm-elimination"):
    """Pulls active arms in turn and deletes those whose interval lies below another's.

    The interval after ``n`` pulls is ``mean +- sqrt(ln(2KT/delta) / n)``. Without corruption the
    regret is of order ``sum over arms of ln(KT/delta) / gap`` with probability ``1 - delta``: this
    is Theorem 1 of Lykouris, Mirrokni and Paes Leme with ``C = 0``, whose constants
    ``armrace.theory`` works out from the paper's two lemmas. An adversary who spoils the first
    O(log T) rewards of the best arm has it deleted for good.

    >>> state = ActiveArmElimination(delta=0.1).start(arms=2, horizon=1000)
    >>> f"{state.rule.log_lower[0]:.5f}"
    '10.59663'
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Even-Dar, Mannor and Mansour (2006), Action elimination and stopping conditions; "
        "section 3 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Width and deletion rule were read in section 3 of the paper; the constants of the "
        "bound are worked out by `armrace.theory` from its two lemmas."
    )

    delta: Confidence = 0.05

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if corruption > 0:
            return None
        bound = known_corruption_regret(gaps, horizon, self.delta)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        log_term = math.log(2 * arms * horizon / self.delta)
        return make_race(arms, np.ones(1), paper_rule(log_term, np.zeros(1)), tolerated=np.zeros(1))


class FastSlowRace(RacePolicy, frozen=True, tag="fast-slow-race"):
    """A fast and a slow arm elimination side by side, for a corruption known in advance.

    A round goes to the slow layer with probability ``1/max(C, 1)``, which therefore sees a
    corruption of order ``ln(1/delta)`` whatever the adversary does; what it deletes, the fast
    layer loses too. With ``L = ln(8KT/delta)`` the intervals have half-widths ``sqrt(L/n)`` (fast)
    and ``sqrt(L/n) + 2L/n`` (slow). With probability ``1 - delta`` the regret is of order
    ``sum L/gap`` without corruption and ``K C sum L^2/gap`` with it (Theorem 2; ``armrace.theory``
    has its constants).

    >>> FastSlowRace(corruption=4).start(arms=2, horizon=1000).share
    array([0.75, 0.25])
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Algorithm 1 and Theorem 2 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 1 and Theorem 2 were read in the paper; two constants of the proof are "
        "corrected (see the errata)."
    )

    corruption: Annotated[float, Limits("bound on the total corruption, C", 0)] = 100.0
    delta: Confidence = 0.05

    def layer_count(self, arms: int, horizon: int) -> int:
        return 2

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if corruption > self.corruption:
            return None
        bound = fast_slow_regret(gaps, horizon, self.delta, self.corruption)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        log_term = math.log(8 * arms * horizon / self.delta)
        # Algorithm 1 has 1/C, which is no probability below a corruption of 1 (erratum 12).
        told = max(self.corruption, 1.0)
        allowances = [0.0, 2 * log_term]
        return make_race(
            arms,
            np.array([1.0 - 1.0 / told, 1.0 / told]),
            paper_rule(log_term, np.array(allowances)),
            tolerated=np.array(layer_tolerances([0.0, told], allowances)),
        )


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


class SharpRace(RacePolicy, frozen=True, tag="sharp-race"):
    """The Multi-layer race made practical: sharper intervals, pooled layers, a leader in each.

    Its bound has the same order as that of ``multi-layer-race``, for every adaptive adversary
    (Theorems A and B of this library's theory page). The constants are larger: in the settings of
    that page where the bounds say anything, this one is 1.6 to 5 times the other. The regret that
    is seen is about a tenth. It differs in this:

    - Layer ``l`` is designed for a corruption of ``first 2^(l-1)``: even the fastest withstands a
      little (its allowance, which is more than ``first``), at next to no cost, and there are fewer
      layers. If a bound on the corruption is known and given as ``most_corruption``, there are
      fewer still.
    - A layer uses the rewards of all slower layers too.
    - Intervals are those of the divergence of Bernoulli laws, mixed by Jeffreys' prior, which
      hold for all times at once. Only the best arm's upper end must never fail, so that upper
      ends need not pay for the number of arms; and layer ``l`` may fail with a probability
      proportional to ``1/(l (l+1))``, so that fast layers do not pay for slow ones.
    - After each play of an active arm in turn, a layer plays the arm with the best mean ``lead``
      times. Every active arm still has its part, ``1/((1 + lead) K)``, of the layer's plays,
      which is all that the proof asks, and the best arm is known much better than the rest.

    A third of ``delta`` each goes to intervals, to allowances, and to the random choice of layers
    together with the deviation of rewards from their means.

    >>> SharpRace().layer_count(arms=10, horizon=10**6)
    17
    >>> SharpRace(most_corruption=100).start(arms=2, horizon=1000).share
    array([0.5625, 0.25  , 0.125 , 0.0625])
    """

    family: ClassVar[str] = "robust"
    reference: ClassVar[str] = (
        "Lykouris, Mirrokni and Paes Leme (2018), Algorithm 2, with the intervals, pooling and "
        "leader that this library's theory page proves valid"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = "Theorems A and B of the theory page; `armrace verify` tries them."

    delta: Confidence = 0.05
    lead: Annotated[int, Limits("plays of the leader after each turn of another arm", 0, 1000)] = 5
    first: Annotated[
        float, Limits("corruption for which the fastest layer is designed", 1, 1e9)
    ] = 16.0
    most_corruption: Annotated[
        float | None, Limits("bound on the total corruption; by default none is known", 0)
    ] = None

    def layer_count(self, arms: int, horizon: int) -> int:
        return len(self._layers(arms, horizon))

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        bound = sharp_regret(
            gaps, horizon, self.delta, corruption, self.lead, self.first, self.most_corruption
        )
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        return make_pooled_race(arms, self._layers(arms, horizon), self.lead)

    def _layers(self, arms: int, horizon: int) -> list[SharpLayer]:
        return sharp_layers(arms, horizon, self.delta, self.first, self.most_corruption)
