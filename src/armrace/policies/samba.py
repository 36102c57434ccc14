"""SAMBA: gradient ascent on the probabilities themselves, with steps that shrink with them."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import draws_from_weights


class SambaState(NamedTuple):
    """The probabilities, which are all that it knows, and the rate."""

    counts: Counts
    weights: npt.NDArray[np.float64]
    rate: float


class Samba(CountingPolicy, frozen=True, tag="samba"):
    """Draws arms by probabilities ``p`` that follow an estimate of the gradient of the reward.

    The leader is the arm with the largest probability. A reward ``r`` of another arm ``i`` adds
    ``rate p[i] r`` to ``p[i]``; a reward ``r`` of the leader takes ``rate p[i]^2 r/p[leader]`` from
    every other arm; the leader has what remains. The means say that ``p[i]`` grows by
    ``rate p[i]^2 (mean[i] - mean[leader])`` a round: without corruption a worse arm's probability
    falls like ``1/(rate gap t)``, and the regret is of order ``K ln T/rate``.

    **The rate must suit the gap, which nobody knows**: a best arm that does not lead can gain on
    the leader only if ``mean ln(1 + rate) > rate (mean - gap)``, for which a rate below
    ``gap/(mean - gap)`` suffices. For such a rate its authors state an expected regret of order
    ``K ln T/gap + C/gap`` under a corruption of ``C``; a smaller rate costs more without corruption
    and recovers later from it. It needs no horizon, and costs a pass over the arms a round.

    A late reward is divided by the probability that its arm had when it was drawn, and never counts
    for more than it would at the present one, so that all probabilities stay positive.

    >>> from armrace.kernels.generics import distribution
    >>> state = Samba(rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=1, layer=0, probability=0.5), reward=1.0)
    >>> state.weights
    array([0.45, 0.55])
    """

    family: ClassVar[str] = "robust"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Liu, Wang and Fang (2025), Efficient and optimal policy gradient algorithm for corrupted "
        "multi-armed bandits; Denisov and Walton (2020), Regret analysis of a Markov policy "
        "gradient algorithm for multi-arm bandits"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = (
        "Only the abstracts of both papers were read, for the bound; the rule is from memory. The "
        "condition on the rate and the logarithmic regret that are known of it follow from the "
        "rule as it is here. What the papers do with late rewards is not known."
    )

    rate: Annotated[float, Limits("step size, below gap/(best mean - gap)", 0, 1, True, True)] = 0.1

    def start(self, arms: int, horizon: int) -> SambaState:
        return SambaState(make_counts(arms), np.full(arms, 1.0 / arms), float(self.rate))


@draws_from_weights(SambaState)
@inlined
def _weights(state: SambaState) -> npt.NDArray[np.float64]:
    return state.weights


@implement(assign, SambaState)
def samba_assign(state: SambaState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, SambaState)
def samba_learn(state: SambaState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    weights, step = state.weights, state.rate * reward
    leader = 0
    for arm in range(weights.size):
        if weights[arm] > weights[leader]:
            leader = arm
    if ticket.arm == leader:
        for arm in range(weights.size):
            if arm != leader:
                weights[arm] -= step * weights[arm] * _counted(weights[arm], ticket.probability)
    else:
        own = weights[ticket.arm]
        weights[ticket.arm] += step * own * _counted(own, ticket.probability)
    others = 0.0
    for arm in range(weights.size):
        if arm != leader:
            others += weights[arm]
    weights[leader] = 1.0 - others


@inlined
def _counted(weight: float, probability: float) -> float:
    """How much a reward counts: the arm's weight over the probability of the draw, at most 1."""
    # At most 1 with prompt rewards, since no weight exceeds the leader's. The leader thus keeps at
    # least a part 1 - rate of its weight, and so does every other arm.
    return min(1.0, weight / probability)
