"""EXP3++: EXP3 that explores each arm only as much as its estimated gap asks for."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    add_loss,
    draws_from_weights,
    exponential_weights,
    ranks_arms,
    smallest,
)

_ALPHA, _BETA = 3.0, 256.0
_STRENGTH_2014 = 18.0


class Exp3PlusPlusState(NamedTuple):
    """Estimated losses, and for the bounds on mean losses ``spread``, 1/sqrt(2 pulls)."""

    counts: Counts
    losses: npt.NDArray[np.float64]
    mean_losses: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    bounds_gaps: bool
    """Whether gaps are estimated from confidence bounds, as in 2017."""
    scratch: npt.NDArray[np.float64]


class Exp3PlusPlus(CountingPolicy, frozen=True, tag="exp3-plus-plus"):
    """Draws arms as EXP3 with the rate ``sqrt(ln K/(tK))/2``, and explores arms by their gaps.

    The probability of arm ``i`` is ``(1 - sum e) p[i] + e[i]`` with exponential weights ``p``
    and ``e[i] = min(1/(2K), sqrt(ln K/(tK))/2, x[i])``. In the version of 2017
    ``x[i] = 256 ln t/(t d[i]^2)``, where ``d[i]`` is by how much the lower confidence bound on
    the mean loss exceeds the least upper one, the bounds being
    ``mean +- sqrt((3 ln t + ln K)/(2n))`` clipped to [0, 1]; each arm is played once first,
    and these plays enter the estimated losses with probability 1. In that of 2014
    ``x[i] = 18 ln^2 t/(t d[i]^2)`` with ``d[i]`` the difference between the arm's estimated loss
    and the least, over ``t - 1`` rounds, at most 1. Where ``d[i] = 0``, the other two terms
    decide. That the first plays of 2017 count with probability 1 is this library's choice; the
    paper does not say.

    Against an adversary the expected regret is at most ``4 sqrt(KT ln K)``. With stochastic
    rewards it is of order ``sum ln^2 T/gap + sum K/gap^3``, the second sum up to logarithms
    (2017), or ``sum ln^3 T/gap + sum gap e^(1/gap^2)`` (2014), whose second sum the authors call
    very large. Rates and bounds are checked against the papers: Theorems 1 and 3 of 2017,
    Theorem 3 of 2014, which asks for a factor of 18 or more. With these constants the gaps begin
    to matter only after 10^8 rounds and more.

    >>> from armrace.kernels.generics import distribution
    >>> state = Exp3PlusPlus(version="2014").start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5), reward=0.0)
    >>> state.counts.rounds[0] = 1
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.440115, 0.559885])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Seldin and Lugosi (2017), An improved parametrization and analysis of the EXP3++ "
        "algorithm; Seldin and Slivkins (2014), One practical algorithm for both stochastic and "
        "adversarial bandits"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Both forms, of 2014 and of 2017, were read in the proceedings; that the first plays "
        "of all arms count as sure is this library's choice."
    )

    version: Annotated[Literal["2017", "2014"], "whose estimates of the gaps are used"] = "2017"

    def start(self, arms: int, horizon: int) -> Exp3PlusPlusState:
        return Exp3PlusPlusState(
            counts=make_counts(arms),
            losses=np.zeros(arms),
            mean_losses=np.full(arms, 0.5),
            spread=np.full(arms, np.inf),
            bounds_gaps=self.version == "2017",
            scratch=np.zeros(arms),
        )


@inlined
def _least_upper_bound(state: Exp3PlusPlusState, width: float) -> float:
    least = 1.0
    for arm in range(state.spread.size):
        least = min(least, state.mean_losses[arm] + width * state.spread[arm])
    return least


@inlined
def gap_of_arm(
    state: Exp3PlusPlusState, arm: int, least: float, width: float, number: int
) -> float:
    """Return the estimated gap of an arm to ``least``; 0 or less if it may be the best arm."""
    if state.bounds_gaps:
        return max(0.0, state.mean_losses[arm] - width * state.spread[arm]) - least
    return min(1.0, (state.losses[arm] - least) / max(1, number - 1))


@inlined
def _exploration(gap: float, strength: float, number: int, most: float) -> float:
    """``min(most, strength / (number * gap^2))``."""
    # Compared before dividing: the square of a tiny gap may be 0.
    ample = number * gap * gap
    return strength / ample if gap > 0.0 and strength < most * ample else most


@inlined
def _mix(state: Exp3PlusPlusState, number: int, out: npt.NDArray[np.float64]) -> None:
    """Compute the probabilities of a round, once each arm has what the gaps need."""
    arms, log_round = out.size, math.log(number)
    rate = 0.5 * math.sqrt(math.log(arms) / (number * arms))
    most = min(0.5 / arms, rate)
    # The paper's alpha ln(t K^(1/alpha)), without its 2n, which ``spread`` has.
    width = math.sqrt(_ALPHA * log_round + math.log(arms))
    if state.bounds_gaps:
        strength, least = _BETA * log_round, _least_upper_bound(state, width)
    else:
        # Seldin and Slivkins (2014), Theorem 3, which asks for a factor of 18 or more.
        strength = _STRENGTH_2014 * log_round * log_round
        least = smallest(state.losses)
    exponential_weights(state.losses, rate, out)
    left = 1.0
    for arm in range(arms):
        # Computed again below rather than kept: ``out`` is in use, and there is no second array.
        left -= _exploration(gap_of_arm(state, arm, least, width, number), strength, number, most)
    for arm in range(arms):
        gap = gap_of_arm(state, arm, least, width, number)
        explored = _exploration(gap, strength, number, most)
        out[arm] = left * out[arm] + explored


@draws_from_weights(Exp3PlusPlusState)
@inlined
def _weights(state: Exp3PlusPlusState) -> npt.NDArray[np.float64]:
    played, out = state.counts.rounds[0], state.scratch
    if state.bounds_gaps and played < out.size:
        # Each arm once, in order: the bounds of 2017 need a reward of every arm.
        out.fill(0.0)
        out[played] = 1.0
    else:
        _mix(state, played + 1, out)
    return out


@implement(assign, Exp3PlusPlusState)
def exp3_plus_plus_assign(state: Exp3PlusPlusState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, Exp3PlusPlusState)
def exp3_plus_plus_learn(state: Exp3PlusPlusState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    state.mean_losses[arm] = 1.0 - record(state.counts, arm, reward)
    state.spread[arm] = math.sqrt(0.5 / state.counts.pulls[arm])
    add_loss(state.losses, arm, 1.0 - reward, ticket.probability)


ranks_arms(
    Exp3PlusPlusState,
    lambda state: state.losses,
    lambda state, arm, loss: np.put(state.losses, arm, loss),
)
