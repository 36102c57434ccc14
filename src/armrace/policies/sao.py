"""SAO: arm elimination that keeps checking whether rewards look stochastic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, learn
from armrace.policies.base import ArmView, Policy
from armrace.policies.common.counts import Counts, make_counts, record
from armrace.policies.common.switching import (
    SEEN,
    has_switched,
    learn_after_switch,
    may_switch,
    share_among_active,
    switch,
    view_tested,
)
from armrace.policies.leaders.estimates import (
    ExponentialGains,
    make_gains,
)
from armrace.policies.races.race import NEVER
from armrace.specification import Confidence

_LOG_TERM, _HORIZON = 0, 1


@may_switch
class SaoState(NamedTuple):
    """Estimates and, of arms set aside, what they were set aside with."""

    counts: Counts
    probabilities: npt.NDArray[np.float64]
    weighted_gains: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]
    half_widths: npt.NDArray[np.float64]
    """Of the plain means, ``sqrt(2 ln(beta)/n)``; infinite before the first reward."""
    active: npt.NDArray[np.bool_]
    set_aside_at: npt.NDArray[np.int64]
    frozen_share: npt.NDArray[np.float64]
    """Probability at the time, times that time: over t, the probability ever since."""
    least_gap: npt.NDArray[np.float64]
    largest_gap: npt.NDArray[np.float64]
    clock: npt.NDArray[np.int64]
    """Rewards seen, and when the switch happened."""
    constants: npt.NDArray[np.float64]
    fallback: ExponentialGains


class Sao(Policy, frozen=True, tag="sao"):
    """Sets arms aside as long as rewards look stochastic, and switches to EXP3.P once they do not.

    Let ``beta = 10 K T^3/delta`` and ``W(t) = sqrt(4 K ln(beta)/t + 5 (K ln(beta)/t)^2)``. Active
    arms are played with equal probabilities. An arm whose importance-weighted mean lies
    ``6 W(t)`` below the best is set aside; it is still played in round ``t`` with the probability
    ``q tau/t``, where ``q`` is the one it had in the round ``tau`` when it was set aside. SAO
    switches to a fresh EXP3.P for the rounds that remain (at confidence ``K/beta``) when an arm's
    plain and importance-weighted means disagree, or when the gap of an arm set aside leaves
    ``(2 W(tau), 10 W(tau - 1)]``.

    With probability ``1 - delta`` the regret is at most ``260 K (1 + ln K) ln^2(beta)/gap`` if
    rewards are stochastic, and whatever they are at most
    ``60 (1 + ln K)(1 + ln T) sqrt(TK ln(beta) + 5 K^2 ln^2(beta)) + 200 K^2 ln^2(beta)``.
    Algorithm and bounds are checked against the paper (equations 17 to 21, Theorem 15); it leaves
    EXP3.P's confidence implicit, and ``K/beta`` is what its proof needs. The constants are large:
    below some ten thousand rounds SAO sets nothing aside.

    >>> state = Sao(delta=0.1).start(arms=2, horizon=10_000)
    >>> log_term = state.constants[0]
    >>> f"{log_term:.4f}", f"{gap_width(1000, 2, log_term):.6f}"
    ('32.9293', '0.533968')
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Algorithm 1 of Bubeck and Slivkins, The best of both worlds: stochastic and adversarial "
        "bandits (COLT 2012)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Equations (17) to (21) and Theorem 15 of the COLT paper, pages 42.16 and 42.17, "
        "agree line by line."
    )

    delta: Confidence = 0.05

    def start(self, arms: int, horizon: int) -> SaoState:
        # ln beta as a sum: the cube of a long horizon need not be formed.
        log_term = math.log(10 * arms) + 3 * math.log(horizon) - math.log(self.delta)
        return SaoState(
            counts=make_counts(arms),
            probabilities=np.full(arms, 1.0 / arms),
            weighted_gains=np.zeros(arms),
            means=np.zeros(arms),
            half_widths=np.full(arms, np.inf),
            active=np.ones(arms, dtype=np.bool_),
            set_aside_at=np.full(arms, NEVER, dtype=np.int64),
            frozen_share=np.zeros(arms),
            least_gap=np.zeros(arms),
            largest_gap=np.full(arms, np.inf),
            clock=np.array([0, NEVER], dtype=np.int64),
            constants=np.array([log_term, float(horizon)]),
            fallback=make_gains(arms, float(horizon), log_term),
        )

    def inspect(self, state: SaoState) -> Sequence[ArmView]:
        return view_tested(state, state.set_aside_at)


@inlined
def gap_width(rounds: float, arms: int, log_term: float) -> float:
    """Return ``W``: a bound on the error of an importance-weighted mean after ``t`` rounds."""
    ratio = arms * log_term / rounds
    return math.sqrt(ratio * (4.0 + 5.0 * ratio))


@implement(learn, SaoState)
def sao_learn(state: SaoState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    mean = record(state.counts, arm, reward)
    if has_switched(state):
        learn_after_switch(state.fallback, ticket, reward)
        return
    state.clock[SEEN] += 1
    state.weighted_gains[arm] += reward / ticket.probability
    state.means[arm] = mean
    state.half_widths[arm] = math.sqrt(2.0 * state.constants[_LOG_TERM] / state.counts.pulls[arm])
    if _looks_stochastic(state):
        _share(state)
    else:
        # ln(K/(K/beta)) = ln beta.
        switch(state, state.constants[_HORIZON], state.constants[_LOG_TERM])


@inlined
def _looks_stochastic(state: SaoState) -> bool:
    """Set aside what is clearly worse, and test every arm.

    The best active arm is never set aside, so the gaps do not change on the way.
    """
    seen = state.clock[SEEN]
    best = _best_weighted_mean(state)
    width = gap_width(seen, state.active.size, state.constants[_LOG_TERM])
    sound = True
    for arm in range(state.active.size):
        weighted_mean = state.weighted_gains[arm] / seen
        gap = best - weighted_mean
        if state.active[arm] and gap > 6.0 * width:
            _set_aside(state, arm)
        # As for an arm set aside in this very round: that bound is then W(t).
        deviation = width
        if not state.active[arm]:
            deviation = _deviation_aside(state, arm)
            sound = sound and state.least_gap[arm] < gap <= state.largest_gap[arm]
        difference = abs(weighted_mean - state.means[arm])
        sound = sound and difference <= state.half_widths[arm] + deviation
    return sound


@inlined
def _best_weighted_mean(state: SaoState) -> float:
    """Return the largest importance-weighted mean of an active arm."""
    best = -np.inf
    for arm in range(state.active.size):
        if state.active[arm]:
            best = max(best, state.weighted_gains[arm])
    return best / state.clock[SEEN]


@inlined
def _set_aside(state: SaoState, arm: int) -> None:
    """Deactivate an arm, and record what later tests compare it with."""
    seen, arms, log_term = state.clock[SEEN], state.active.size, state.constants[_LOG_TERM]
    state.active[arm] = False
    state.set_aside_at[arm] = seen
    state.frozen_share[arm] = state.probabilities[arm] * seen
    state.least_gap[arm] = 2.0 * gap_width(seen, arms, log_term)
    # W(0) is infinite: an arm set aside after one round has no largest gap.
    if seen > 1:
        state.largest_gap[arm] = 10.0 * gap_width(seen - 1, arms, log_term)


@inlined
def _deviation_aside(state: SaoState, arm: int) -> float:
    """Return a bound on the error of the importance-weighted mean of an arm set aside."""
    seen, aside, log_term = state.clock[SEEN], state.set_aside_at[arm], state.constants[_LOG_TERM]
    arms = state.active.size
    variance = (arms * aside / seen + (seen - aside) / state.frozen_share[arm]) / seen
    range_term = arms * log_term / aside
    return math.sqrt(4.0 * variance * log_term + 5.0 * range_term * range_term)


@inlined
def _share(state: SaoState) -> None:
    """Let the probability of arms set aside fall as 1/t, and give the rest to the active arms."""
    following = state.clock[SEEN] + 1
    for arm in range(state.active.size):
        if not state.active[arm]:
            state.probabilities[arm] = state.frozen_share[arm] / following
    share_among_active(state.probabilities, state.active)
