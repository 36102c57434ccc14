"""Thompson sampling, and its form for feedback that is flipped at random."""

from __future__ import annotations

from typing import ClassVar

from armrace.policies.common.counts import CountingPolicy, RandomisedFeedback
from armrace.policies.common.posteriors import Posteriors, make_posteriors


class Thompson(CountingPolicy, frozen=True, tag="thompson"):
    """Draws a mean for each arm from its Beta posterior and plays the largest.

    Priors are uniform, Beta(1, 1). A reward ``r`` in [0, 1] counts as a success with
    probability ``r``, by a random number that is drawn with the decision, else as a failure.
    Without corruption the regret is of order ``sum ln T / gap``, asymptotically
    ``sum gap ln T / kl(mean, best mean)`` on Bernoulli arms (both from memory). It is not made for
    an adversary: its weights concentrate, and what a few corrupted rewards have taught it takes
    long to unlearn.

    The probability that each arm is drawn, ``integral of f_i prod F_j``, is found by quadrature
    to about 1e-11 for any number of arms (weights below 1e-12 may be given as 0). It costs as
    much as hundreds of rounds, so tickets carry NaN and ``distribution`` gives it when asked.

    >>> import numpy as np
    >>> from armrace.kernels.generics import distribution
    >>> state = Thompson().start(arms=2, horizon=100)
    >>> state.successes[0] = 1.0
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.666667, 0.333333])
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Thompson (1933); Agrawal and Goyal (2012), Analysis of Thompson sampling for the "
        "multi-armed bandit problem (the coin); Kaufmann, Korda and Munos (2012)"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = (
        "Beta posteriors from a uniform prior, as everywhere in the literature; no print was "
        "compared."
    )
    exact_tickets: ClassVar[bool] = False

    def start(self, arms: int, horizon: int) -> Posteriors:
        return make_posteriors(arms, turned=False)


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
