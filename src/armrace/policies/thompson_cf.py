"""Thompson sampling for feedback that is corrupted at random in a known way."""

from __future__ import annotations

from typing import ClassVar

from armrace.policies.common.counts import RandomisedFeedback
from armrace.policies.common.posteriors import Posteriors, make_posteriors


class ThompsonCf(RandomisedFeedback, frozen=True, tag="thompson-cf"):
    """Thompson sampling that undoes randomised response: feedback is flipped by known chance.

    A reward of 0 is seen as 0 with probability ``p00`` and a reward of 1 as 1 with probability
    ``p11``, so an arm of mean ``m`` shows the mean ``g(m) = 1 - p00 + (p00 + p11 - 1) m``. For
    each arm a mean of what is seen is drawn from its Beta posterior and taken back by ``g``; the
    largest is played. Draws that ``g`` takes beyond [0, 1] are held there, and such ties are
    decided by the draws themselves; so, ``g`` being the same for all arms, the largest draw is
    played where ``g`` rises and the smallest where it falls. With ``p00 = p11 = 1`` it is
    Thompson sampling.

    For every ``e > 0`` the expected regret is at most
    ``(1 + e) sum gap ln T / kl(g(mean), g(best mean))`` plus a constant. Algorithm and bound are
    checked against the paper (Algorithm 2, Theorem 3), which lets ``g`` differ from arm to arm and
    takes rewards of 0 and 1 only; others are rounded at random as in Thompson sampling. The flips
    are chance, not an adversary's choice. Distribution, tickets and late feedback are as in
    Thompson sampling.

    >>> import numpy as np
    >>> from armrace.kernels.generics import Ticket, distribution, learn
    >>> state = ThompsonCf(p00=0.1, p11=0.2).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, probability=np.nan), reward=1.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.333333, 0.666667])
    """

    source_note: ClassVar[str] = (
        "Algorithm 2 and Theorem 3 of the ALT paper, page 6; the coin for rewards strictly "
        "between 0 and 1 is this library's."
    )
    exact_tickets: ClassVar[bool] = False

    def start(self, arms: int, horizon: int) -> Posteriors:
        return make_posteriors(arms, turned=self.falls)
