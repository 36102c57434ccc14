"""SAPO: near-optimal pseudo-regret against stochastic and against adversarial rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from armrace.limits import Limits
from armrace.policies.base import ArmView, Policy
from armrace.policies.common.switching import SapoState, make_sapo, view_tested


class Sapo(Policy, frozen=True, tag="sapo"):
    """Eliminates arms, keeps testing them in phases, and switches to EXP3.P if tests fail.

    Of an active arm, played ``n`` times in ``t`` rounds, the mean loss is known in two ways, up
    to ``sqrt(2 ln T/n)`` and, importance-weighted, up to ``sqrt(2 K ln T/t)``; ``U*`` is the
    least of all upper ends so far. An arm whose mean is 9 half-widths ``c`` above ``U*`` is
    eliminated: with ``p = 1/(2K) + n/(2T)`` and the gap ``d = 8c`` it is played in phases of
    ``1280/(p d^2)`` rounds with probability ``p``. A phase without incident doubles the length
    and halves ``p``; a phase in which its losses fall short of what was believed by a quarter
    of ``d`` times the length is an error, and undoes one such step. SAPO switches to a fresh
    EXP3.P when an active arm's two estimates contradict each other, when the losses exceed
    ``t U*`` by ``272 sqrt(KT ln T)``, when an arm has erred ``3 ln T`` times, or when no active
    arm is left.

    The pseudo-regret is of order ``sum over arms of ln T/gap`` if rewards are stochastic, and
    ``sqrt(KT ln T)`` whatever they are. The constants are large: an arm is played
    ``162 ln T/gap^2`` times or more before it can be eliminated, and the test of the regret cannot
    fire below some two million rounds. ``scale`` multiplies the 8, the 1280 and the 272 (the 9
    is 8 + 1); **with any other scale than 1 nothing is proved.**

    The constants are those of Algorithm 5 of the paper of 2025 at delay 0, as restated in two
    transcriptions of it; the paper of 2016 has none in print, and its adversarial bound is of
    order ``K sqrt(T ln T)``. Two readings are this library's, and both are sound. Importance-
    weighted half-widths of 1 or more are taken to say nothing, because the published cap at 1
    would let the first test fire on honest rewards. Importance-weighted bounds are narrowed for
    active arms only, the case that the proof covers. An arm's first phase begins in the round
    after its elimination, and EXP3.P, in its form without a confidence, is tuned for the rounds
    that remain. In a round, each active arm's weighted mean and bounds move and each eliminated
    arm's phase grows, whichever arm was played: the tests cost a pass over all arms where an index
    policy touches one.

    >>> state = Sapo().start(arms=2, horizon=10**6)
    >>> [f"{number:.4g}" for number in state.constants]
    ['13.82', '8', '1280', '1.43e+06', '1e+06']
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer and Chiang, An algorithm with nearly optimal pseudo-regret for both stochastic and "
        "adversarial bandits (COLT 2016), as revised by Schlisselberg, Lancewicki, Auer and "
        "Mansour, Improved best-of-both-worlds regret for bandits with delayed feedback (2025)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "The constants are those of the successor of 2025 at delay 0, from a transcription; "
        "the paper of 2016 prints none. Two careful readings are named in the description."
    )

    scale: Annotated[
        float,
        Limits("factor on the published constants; not covered by the proof unless 1", 1e-3, 10),
    ] = 1.0

    def start(self, arms: int, horizon: int) -> SapoState:
        return make_sapo(arms, horizon, float(self.scale))

    def inspect(self, state: SapoState) -> Sequence[ArmView]:
        return view_tested(state, state.eliminated_at)
