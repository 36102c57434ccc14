"""EXP3-IX: exponential weights that explore implicitly, by underestimating losses."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn, stamped
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    add_loss,
    draws_from_weights,
    exponential_weights,
    ranks_arms,
)


class Exp3IxState(NamedTuple):
    """Estimated losses; where ``anytime``, both rates are divided by ``sqrt(t)``."""

    counts: Counts
    losses: npt.NDArray[np.float64]
    learning_rate: float
    exploration: float
    anytime: bool
    scratch: npt.NDArray[np.float64]


class Exp3Ix(CountingPolicy, frozen=True, tag="exp3-ix"):
    """Draws arms as EXP3 does, from losses estimated by ``loss / (probability + exploration)``.

    The exploration in the denominator biases estimates downwards a little and limits their
    variance, as a guarantee with high probability requires; no arm is drawn only to explore. With
    the horizon known, the learning rate is ``sqrt(2 ln K/(KT))`` and the exploration half of it:
    with probability ``1 - delta``, for any ``delta``, the regret is at most ``2 sqrt(2KT ln K) +
    (sqrt(2KT/ln K) + 1) ln(2/delta)``. With ``anytime`` the rate in round ``t`` is ``sqrt(ln
    K/(Kt))`` and the bound ``4 sqrt(KT ln K) + (2 sqrt(KT/ln K) + 1) ln(2/delta)``. The rates for a
    known horizon are as restated by others from the paper, those with ``anytime`` from memory. Both
    bounds follow from the paper's lemmas, which give them even with half the factor of
    ``ln(2/delta)`` under the root; that the paper prints them as here is from memory. A late reward
    is weighed with the exploration of its decision's round, the memo of its ticket.

    >>> from armrace.kernels.generics import distribution
    >>> state = Exp3Ix(learning_rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5, memo=0.05), reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.45467, 0.54533])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Neu (2015), Explore no more: improved high-probability regret bounds for non-stochastic "
        "bandits"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "The rates agree with a restatement; the bounds follow from the paper's lemmas and "
        "were derived again, the print was not available."
    )

    anytime: Annotated[bool, "whether rates fall with time instead of fitting the horizon"] = False
    learning_rate: Annotated[
        float | None, Limits("fixed step size; by default sqrt(2 ln K / (KT))", 0, low_open=True)
    ] = None
    exploration: Annotated[
        float | None, Limits("implicit exploration; by default half the learning rate", 0)
    ] = None

    def validate(self) -> None:
        if self.anytime and (self.learning_rate is not None or self.exploration is not None):
            raise InvalidParameter(
                "anytime sets the rates itself; it goes with neither learning_rate nor exploration."
            )

    def start(self, arms: int, horizon: int) -> Exp3IxState:
        rate = self.learning_rate
        if self.anytime:
            # Divided by sqrt(t) in each round, see ``_at_round``.
            rate = math.sqrt(math.log(arms) / arms)
        elif rate is None:
            rate = math.sqrt(2 * math.log(arms) / (arms * horizon))
        exploration = 0.5 * rate if self.exploration is None else self.exploration
        return Exp3IxState(
            counts=make_counts(arms),
            losses=np.zeros(arms),
            scratch=np.zeros(arms),
            learning_rate=float(rate),
            exploration=float(exploration),
            anytime=self.anytime,
        )


@inlined
def _at_round(state: Exp3IxState, rate: float, number: int) -> float:
    """Return a rate in the round with this number."""
    return rate / math.sqrt(max(number, 1)) if state.anytime else rate


@draws_from_weights(Exp3IxState)
@inlined
def _weights(state: Exp3IxState) -> npt.NDArray[np.float64]:
    rate = _at_round(state, state.learning_rate, state.counts.rounds[0] + 1)
    exponential_weights(state.losses, rate, state.scratch)
    return state.scratch


@implement(assign, Exp3IxState)
def exp3_ix_assign(state: Exp3IxState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return stamped(ticket, 0, _at_round(state, state.exploration, state.counts.rounds[0]))


@implement(learn, Exp3IxState)
def exp3_ix_learn(state: Exp3IxState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    add_loss(state.losses, ticket.arm, 1.0 - reward, ticket.probability + ticket.memo)


ranks_arms(
    Exp3IxState,
    lambda state: state.losses,
    lambda state, arm, loss: np.put(state.losses, arm, loss),
)
