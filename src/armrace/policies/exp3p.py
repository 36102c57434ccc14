"""EXP3.P: exponential weights whose regret is small with high probability."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    ExponentialGains,
    add_bonuses,
    add_reward,
    draws_from_weights,
    gain_probabilities,
    make_gains,
)


class Exp3PState(NamedTuple):
    """Counts, and the estimated gains with their rates."""

    counts: Counts
    exponential: ExponentialGains


class Exp3P(CountingPolicy, frozen=True, tag="exp3p"):
    """Mixes exponential weights on optimistically estimated gains with uniform exploration.

    The probabilities are ``w = (1 - g) softmax(h G) + g/K``. A round with reward ``r`` for
    arm ``a`` adds ``(r [i = a] + b)/w[i]`` to the gain ``G[i]`` of *every* arm, where
    ``b = sqrt(ln(K/delta)/(TK))``, ``h = 0.95 sqrt(ln K/(TK))`` and
    ``g = 1.05 sqrt(K ln K/T)``, at most 1. The bonuses ``b/w[i]`` do not depend on the
    reward and are added at the decision, so that late rewards find them there.

    With probability ``1 - delta`` the regret against the best fixed arm is at most
    ``5.15 sqrt(TK ln(K/delta))``, even if the adversary sees the past. Without ``delta``,
    ``b = sqrt(ln K/(TK))`` and the bound is, for every ``delta`` at once,
    ``sqrt(TK/ln K) ln(1/delta) + 5.15 sqrt(TK ln K)``, so that the expected regret is at most
    ``5.15 sqrt(TK ln K) + sqrt(TK/ln K)``. Rates and bounds are those of Theorem 3.2 of Bubeck
    and Cesa-Bianchi, as restated in a transcription of it. The regret is no smaller where rewards
    are mostly stochastic.

    >>> state = Exp3P(delta=0.01).start(arms=10, horizon=10_000)
    >>> state.exponential.rates.round(8)
    array([0.00831129, 0.0045586 , 0.05038452])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi, Freund and Schapire (2002); rates and bounds as in Theorem 3.2 of "
        "Bubeck and Cesa-Bianchi (2012)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "The three rates and the constant 5.15 agree with a restatement of Theorem 3.2 of "
        "Bubeck and Cesa-Bianchi (2012)."
    )

    delta: Annotated[
        float | None,
        Limits(
            "probability with which the guarantee may fail; null for one that holds for all",
            0,
            1,
            low_open=True,
            high_open=True,
        ),
    ] = 0.05

    def start(self, arms: int, horizon: int) -> Exp3PState:
        log_confidence = math.log(arms if self.delta is None else arms / self.delta)
        return Exp3PState(make_counts(arms), make_gains(arms, horizon, log_confidence))


@draws_from_weights(Exp3PState)
@inlined
def _weights(state: Exp3PState) -> npt.NDArray[np.float64]:
    return gain_probabilities(state.exponential)


@implement(assign, Exp3PState)
def exp3p_assign(state: Exp3PState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    add_bonuses(state.exponential)
    return ticket


@implement(learn, Exp3PState)
def exp3p_learn(state: Exp3PState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    add_reward(state.exponential, ticket.arm, ticket.probability, reward)
