"""Indices by upper confidence bounds: UCB and UCB1, UCB-V, MOSS, KL-UCB and its form for flips."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.common.counts import (
    CountingPolicy,
    Counts,
    RandomisedFeedback,
    count_play,
    make_counts,
    record,
)
from armrace.policies.indices.argmax import (
    Lead,
    make_argmax,
    make_lead,
    plays_leader,
    plays_next_arm,
)
from armrace.policies.indices.kl_indices import KlIndices, kl_index, make_kl_indices


class UcbState(NamedTuple):
    """Counts, means, ``spread``, 1/sqrt(assigned), and the factor of the bonus."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    bonus: float
    scratch: Lead
    """What spares most rounds a look at all arms."""


class Ucb(CountingPolicy, frozen=True, tag="ucb"):
    """Plays the arm with the largest ``mean + bonus sqrt(ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. Attacks on bandits were
    published against ``bonus = 3 sigma`` for rewards that are sub-Gaussian with parameter sigma;
    ``sqrt(2)`` is ``ucb1``. Rewards may lie outside [0, 1].

    >>> state = Ucb(bonus=0.3).start(2, 1000)  # 3 sigma, sigma = 0.1
    >>> state.means[0], state.spread[0] = 0.5, 1 / math.sqrt(10)
    >>> f"{_ucb_index(state, 0, _ucb_scale(100)):.6f}"
    '0.703584'
    """

    family: ClassVar[str] = "published"
    takes_any_reward: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits, and Liu and Shroff "
        "(2019), Data poisoning attacks on stochastic bandits"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = "The index is that of the program of Liu and Shroff."

    bonus: Annotated[float, Limits("factor of the bonus: 3 sigma in the papers", 0, 1e6)] = 1.5

    def start(self, arms: int, horizon: int) -> UcbState:
        counts, spread = make_counts(arms), np.zeros(arms)
        return UcbState(counts, np.ones(arms), spread, float(self.bonus), make_lead())

    def upper_bound(self, state: UcbState, arm: int) -> float:
        return float(_ucb_index(state, arm, _ucb_scale(int(state.counts.rounds[0]))))


@inlined
def _ucb_scale(round_number: int) -> float:
    """The part of the bonus that changes with the round."""
    return math.sqrt(math.log(round_number))


@inlined
def _ucb_index(state: UcbState, arm: int, scale: float) -> float:
    return state.means[arm] + state.bonus * scale * state.spread[arm]


plays_leader(UcbState, _ucb_index, _ucb_scale)


class Ucb1State(NamedTuple):
    """Counts, means and ``spread``, 1/sqrt(assigned), which changes for one arm a round."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    scratch: Lead
    """What spares most rounds a look at all arms."""


class Ucb1(CountingPolicy, frozen=True, tag="ucb1"):
    """Plays the arm with the largest ``mean + sqrt(2 ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. The regret is at most
    ``8 sum ln T/gap + (1 + pi^2/3) sum gap`` in expectation without corruption (Theorem 1 of the
    paper, from memory); being deterministic, UCB1 is easily fooled. While feedback is
    outstanding, ``n`` counts the plays assigned and the mean is that of the rewards seen (1
    before the first).

    >>> f"{upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)):.5f}"
    '1.45971'
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with public implementations and with the well-known bound; no print "
        "was compared."
    )

    def start(self, arms: int, horizon: int) -> Ucb1State:
        return Ucb1State(
            counts=make_counts(arms),
            means=np.ones(arms),
            spread=np.zeros(arms),
            scratch=make_lead(),
        )

    def upper_bound(self, state: Ucb1State, arm: int) -> float:
        scale = bonus_scale(int(state.counts.rounds[0]))
        return float(upper_bound(state.means[arm], state.spread[arm], scale))


@inlined
def bonus_scale(round_number: int) -> float:
    """The part of the bonus that all arms share."""
    return math.sqrt(2.0 * math.log(round_number))


@inlined
def upper_bound(mean: float, spread: float, scale: float) -> float:
    """The index of an arm."""
    return mean + scale * spread


@inlined
def _ucb1_index(state: Ucb1State, arm: int, scale: float) -> float:
    return upper_bound(state.means[arm], state.spread[arm], scale)


plays_leader(Ucb1State, _ucb1_index, bonus_scale)


class UcbVState(NamedTuple):
    """Counts, the sums of squared rewards, and the two constants."""

    counts: Counts
    squares: npt.NDArray[np.float64]
    zeta: float
    c: float


class UcbV(CountingPolicy, frozen=True, tag="ucb-v"):
    """Plays the arm with the largest ``mean + sqrt(2 V zeta ln t / n) + 3 c zeta ln t / n``.

    ``V`` is the empirical variance, divided by ``n``; each arm is played once first. Where rewards
    vary little it explores less than UCB1. Being deterministic, it is easily fooled.

    >>> f"{upper_bound_v(0.5, 0.25, 10, 1.2 * math.log(100), 1.0):.6f}"
    '2.683513'
    """

    family: ClassVar[str] = "published"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Audibert, Munos and Szepesvári (2009), Exploration-exploitation tradeoff using variance "
        "estimates in multi-armed bandits"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = "Index and constants are from memory; no print was compared."

    zeta: Annotated[float, Limits("factor of the logarithm; the proof takes above 1", 0, 1e6)] = 1.2
    c: Annotated[float, Limits("weight of the term that the range needs", 0, 1e6)] = 1.0

    def start(self, arms: int, horizon: int) -> UcbVState:
        return UcbVState(make_counts(arms), np.zeros(arms), float(self.zeta), float(self.c))

    def upper_bound(self, state: UcbVState, arm: int) -> float:
        return float(_ucb_v_index(state, arm, math.log(int(state.counts.rounds[0]))))


@inlined
def upper_bound_v(mean: float, variance: float, pulls: int, log_term: float, c: float) -> float:
    """The index of an arm; ``log_term`` is ``zeta ln t``."""
    return mean + math.sqrt(2.0 * variance * log_term / pulls) + 3.0 * c * log_term / pulls


@inlined
def _ucb_v_index(state: UcbVState, arm: int, log_round: float) -> float:
    pulls, plays = state.counts.pulls[arm], state.counts.assigned[arm]
    log_term = state.zeta * log_round
    if pulls == 0:  # its first reward is outstanding
        return upper_bound_v(1.0, 0.0, plays, log_term, state.c)
    mean = state.counts.sums[arm] / pulls
    variance = max(0.0, state.squares[arm] / pulls - mean * mean)
    return upper_bound_v(mean, variance, plays, log_term, state.c)


_arm_of_largest_ucb_v = make_argmax(_ucb_v_index)


@plays_next_arm(UcbVState)
@inlined
def _next_arm_by_ucb_v(state: UcbVState, eligible: Eligible) -> int:
    return _arm_of_largest_ucb_v(state, math.log(state.counts.rounds[0] + 1), eligible)


@implement(assign, UcbVState)
def ucb_v_assign(state: UcbVState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, UcbVState)
def ucb_v_learn(state: UcbVState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    state.squares[ticket.arm] += reward * reward


class MossState(NamedTuple):
    """Counts, means, and the bonus of each arm, which changes only when the arm is played."""

    counts: Counts
    means: npt.NDArray[np.float64]
    bonuses: npt.NDArray[np.float64]
    fair_share: npt.NDArray[np.float64]
    """Plays an arm would get if all got the same, ``T/K``."""


class Moss(CountingPolicy, frozen=True, tag="moss"):
    """Plays the arm with the largest ``mean + sqrt(max(0, ln(T / (K n))) / n)``.

    Each arm is played once first; the bonus vanishes once an arm has had its equal share ``T/K``
    of the plays. Without corruption the expected regret is at most ``49 sqrt(K T)`` whatever the
    means, without the logarithm of UCB1. The index is as restated by others from the paper; the 49
    is from memory. It needs the horizon, and being deterministic it is easily fooled by an
    adversary. While feedback is outstanding, ``n`` counts the plays assigned and the mean is that
    of the rewards seen (1 before the first).

    >>> f"{0.5 + bonus(10, fair_share=1000 / 2):.5f}"
    '1.12546'
    """

    family: ClassVar[str] = "stochastic"
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Audibert and Bubeck (2009), Minimax policies for adversarial and stochastic bandits"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with a public implementation; the constant 49 of the bound could "
        "not be found in print."
    )

    def start(self, arms: int, horizon: int) -> MossState:
        return MossState(
            counts=make_counts(arms),
            means=np.ones(arms),
            bonuses=np.zeros(arms),
            fair_share=np.array([horizon / arms]),
        )

    def upper_bound(self, state: MossState, arm: int) -> float:
        return float(state.means[arm] + state.bonuses[arm])


@inlined
def bonus(plays: int, fair_share: float) -> float:
    """Return the bonus that is added to the mean of an arm."""
    return math.sqrt(max(0.0, math.log(fair_share / plays)) / plays)


@inlined
def _moss_index(state: MossState, arm: int, term: float) -> float:
    return state.means[arm] + state.bonuses[arm]


_arm_of_largest_moss = make_argmax(_moss_index)


@plays_next_arm(MossState)
@inlined
def _next_arm_by_moss(state: MossState, eligible: Eligible) -> int:
    # Indices of all arms have no term in common.
    return _arm_of_largest_moss(state, 0.0, eligible)


@implement(assign, MossState)
def moss_assign(state: MossState, ticket: Ticket) -> Ticket:
    arm = ticket.arm
    count_play(state.counts, arm)
    # By plays assigned, not rewards seen: docs/decisions/017.
    state.bonuses[arm] = bonus(state.counts.assigned[arm], state.fair_share[0])
    return ticket


@implement(learn, MossState)
def moss_learn(state: MossState, ticket: Ticket, reward: float) -> None:
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)


class KlUcb(CountingPolicy, frozen=True, tag="kl-ucb"):
    """Plays the arm with the largest ``q`` such that ``n kl(mean, q) <= ln t + c ln ln t``.

    ``kl`` is the divergence of Bernoulli laws, ``n`` the plays of the arm and ``t`` the number
    of the round; ``ln ln t`` counts as 0 where it is negative. Each arm is played once first,
    ties go to the lowest index (indices within 1e-12 are tied). Without corruption the regret is
    asymptotically the least possible on Bernoulli arms, ``sum gap ln T / kl(mean, best mean)``.
    The theorems hold for ``c`` of 3 and above; the authors suggest 0 in practice (both checked
    against the paper). Being deterministic, it is easily fooled by an adversary. While feedback is
    outstanding, ``n`` counts the plays assigned, and an arm whose first reward has not come has
    the mean 1/2.

    >>> import math
    >>> from armrace.policies.common.divergence import upper_kl
    >>> f"{upper_kl(0.9, math.log(1000) / 20):.6f}"
    '0.998761'
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Garivier and Cappé (2011), The KL-UCB algorithm for bounded stochastic bandits and "
        "beyond; Cappé, Garivier, Maillard, Munos and Stoltz (2013)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 1 of the COLT paper, page 5: the theorems need `c` of at least 3, practice "
        "prefers 0."
    )

    c: Annotated[float, Limits("factor of the iterated logarithm; the proof takes 3", 0, 1e6)] = 0.0

    def start(self, arms: int, horizon: int) -> KlIndices:
        return make_kl_indices(
            arms, float(self.c), floor=0.0, ceiling=1.0, turned=False, counts_present=True
        )

    def upper_bound(self, state: KlIndices, arm: int) -> float:
        return float(kl_index(state, arm, int(state.counts.rounds[0])))


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
