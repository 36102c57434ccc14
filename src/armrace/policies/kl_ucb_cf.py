"""KL-UCB for feedback that is corrupted at random in a known way."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.limits import Limits
from armrace.policies.common.counts import RandomisedFeedback
from armrace.policies.indices.kl_indices import KlIndices, kl_index, make_kl_indices


class KlUcbCf(RandomisedFeedback, frozen=True, tag="kl-ucb-cf"):
    """KL-UCB that undoes randomised response: what is seen is flipped with known probability.

    A reward of 0 is seen as 0 with probability ``p00`` and a reward of 1 as 1 with probability
    ``p11``, so an arm of mean ``m`` shows the mean ``g(m) = 1 - p00 + (p00 + p11 - 1) m``. The
    policy plays the arm with the largest ``q`` in [0, 1] such that
    ``n kl(mean seen, g(q)) <= ln t + c ln ln t``: the upper bound of KL-UCB, or the lower where
    ``g`` falls, clipped to the range of ``g`` and inverted by it. Here ``t`` counts the rounds
    played before the present one. Ties go to the lowest index.

    The expected regret is at most
    ``sum gap ln T / kl(g(mean), g(best mean)) + O(sqrt(ln T))``, and no more than
    ``sum 2 ln T / (gap (p00 + p11 - 1)^2) + O(sqrt(ln T))``. Index, ``c = 3`` and bounds are
    checked against the paper (Algorithm 1, Theorem 2, Corollary 2); what to do where no ``q``
    fits is not said there. The flips are chance, not an adversary's choice; against one it is as
    weak as KL-UCB, which with ``p00 = p11 = 1`` it is, except that KL-UCB's ``t`` includes the
    present round. Late feedback is taken as in KL-UCB.

    >>> KlUcbCf(p00=0.9, p11=0.9).undo(0.5)
    0.5
    """

    source_note: ClassVar[str] = (
        "Algorithm 1 and Theorem 2 of the ALT paper, pages 4 and 5; what to do if no mean "
        "fits is not said there, and the index is clamped here."
    )

    c: Annotated[float, Limits("factor of the iterated logarithm", 0, 1e6)] = 3.0

    def undo(self, seen: float) -> float:
        """Return the mean of an arm that shows the mean ``seen``, clipped to [0, 1].

        Args:
            seen: the mean of what the arm shows.
        """
        mean = (seen - (1.0 - self.p00)) / (self.p00 + self.p11 - 1.0)
        return min(max(mean, 0.0), 1.0)

    def start(self, arms: int, horizon: int) -> KlIndices:
        """Return the state; if ``g`` is decreasing, it uses 1 - reward, whose mean increases."""
        seen_of_0, seen_of_1 = 1.0 - self.p00, float(self.p11)
        if self.falls:
            seen_of_0, seen_of_1 = 1.0 - seen_of_0, 1.0 - seen_of_1
        return make_kl_indices(arms, float(self.c), seen_of_0, seen_of_1, self.falls, False)

    def upper_bound(self, state: KlIndices, arm: int) -> float:
        index = float(kl_index(state, arm, int(state.counts.rounds[0])))
        return self.undo(1.0 - index if state.turned[0] else index)
