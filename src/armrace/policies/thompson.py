"""Thompson sampling: play an arm with the probability that it is the best."""

from __future__ import annotations

from typing import ClassVar

from armrace.policies.common.counts import CountingPolicy
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
