"""Decisions of a policy that treats rewards as stochastic until a test fails.

Before its switch such a policy draws from its own probabilities, afterwards from those of EXP3.P.
The phase of a ticket says on which side of the switch the decision was assigned, so that a late
reward reaches the part that made the decision.

SAPO's state is here too, because the best of all worlds has it as a layer. All its quantities are
losses, ``1 - reward``. Of every active arm SAPO keeps two estimates of the mean loss, the plain
mean with half-width ``sqrt(2 ln T / n)`` and the importance-weighted one with
``sqrt(2 K ln T / t)``, and the running intersection of both intervals. ``U*`` is the smallest upper
end. An arm is eliminated when its mean lies 9 half-widths above ``U*``. From then on it is played
in phases, with a small probability that halves after every phase in which it was as bad as believed
and doubles after an *error*, a phase in which it was clearly better. Estimates that contradict each
other, too much regret against ``U*``, too many errors or no active arm left do not happen (with
high probability) if rewards are stochastic.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn, stamped
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.policies.base import ArmView
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    ExponentialGains,
    add_bonuses,
    add_reward,
    fill_probabilities,
    gain_probabilities,
    make_gains,
    restart_gains,
)
from armrace.policies.races.race import NEVER

C = TypeVar("C", bound=type)

SEEN, SWITCHED_AT = 0, 1
"""Places in ``clock``: rewards seen, and when the switch happened."""

BEFORE_SWITCH, AFTER_SWITCH = 0, 1
"""Phases of tickets: which part of the policy learns from them."""


@inlined
def has_switched(state: Any) -> bool:
    """Whether a policy has switched to EXP3.P."""
    return state.clock[SWITCHED_AT] != NEVER


def may_switch(state_class: C) -> C:
    """Register ``distribution``, ``choose`` and ``assign`` of a class of states.

    States have ``counts``, ``probabilities``, a ``clock`` and, for the time after the switch, a
    ``fallback``.
    """

    @implement(distribution, state_class)
    def switching_distribution(state: Any, out: npt.NDArray[np.float64]) -> None:
        if has_switched(state):
            fill_probabilities(state.fallback, out)
        else:
            for arm in range(out.size):
                out[arm] = state.probabilities[arm]

    @implement(choose, state_class)
    def switching_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
        switched = has_switched(state)
        weights = gain_probabilities(state.fallback) if switched else state.probabilities
        return choose_by_weights(weights, 1.0, stream, eligible)

    @implement(assign, state_class)
    def switching_assign(state: Any, ticket: Ticket) -> Ticket:
        count_play(state.counts, ticket.arm)
        if has_switched(state):
            add_bonuses(state.fallback)
            return stamped(ticket, AFTER_SWITCH, 0.0)
        return stamped(ticket, BEFORE_SWITCH, 0.0)

    return state_class


@inlined
def switch(state: Any, horizon: float, log_confidence: float) -> None:
    """Begin EXP3.P for the rounds of the horizon that remain."""
    # There may be no rounds left if play goes on past the horizon.
    restart_gains(state.fallback, max(1.0, horizon - state.clock[SEEN]), log_confidence)
    state.clock[SWITCHED_AT] = state.counts.rounds[0]


@inlined
def learn_after_switch(fallback: ExponentialGains, ticket: Ticket, reward: float) -> None:
    """Give EXP3.P the reward of a decision that it made; rewards of earlier ones are ignored."""
    # An earlier decision was not drawn with EXP3.P's probabilities, and its round got no bonuses.
    if ticket.phase == AFTER_SWITCH:
        add_reward(fallback, ticket.arm, ticket.probability, reward)


@inlined
def share_among_active(
    probabilities: npt.NDArray[np.float64], active: npt.NDArray[np.bool_]
) -> None:
    """Divide the probability that the other arms leave equally among the active arms."""
    rest, count = 1.0, 0
    for arm in range(active.size):
        if active[arm]:
            count += 1
        else:
            rest -= probabilities[arm]
    for arm in range(active.size):
        if active[arm]:
            probabilities[arm] = rest / count


def view_tested(state: Any, eliminated_at: npt.NDArray[np.int64], layer: int = 0) -> list[ArmView]:
    """Return a layer's view of each arm; after the switch, all arms are active again."""
    switched, counts = has_switched(state), state.counts
    gone = [NEVER if switched else when for when in eliminated_at.tolist()]
    return [
        ArmView(
            layer=layer,
            arm=arm,
            assigned=int(counts.assigned[arm]),
            pulls=int(pulls),
            mean=float(counts.sums[arm] / pulls) if pulls else None,
            active=switched or bool(state.active[arm]),
            eliminated_at=None if gone[arm] == NEVER else gone[arm],
            eliminated_by=None if gone[arm] == NEVER else layer,
        )
        for arm, pulls in enumerate(counts.pulls)
    ]


_ACTIVE = 2
"""The place in ``clock`` of how many arms are active."""

_LOG_TERM, _GAP_WIDTHS, _PHASE_FACTOR, _LARGEST_REGRET, _HORIZON = 0, 1, 2, 3, 4
"""Places in ``constants``."""

_LEAST_UPPER, _LOSSES = 0, 1
"""Places in ``totals``: ``U*`` and the sum of all losses."""


class Phases(NamedTuple):
    """The current phase of each eliminated arm."""

    believed_loss: npt.NDArray[np.float64]
    believed_gap: npt.NDArray[np.float64]
    first_probability: npt.NDArray[np.float64]
    first_length: npt.NDArray[np.float64]
    length: npt.NDArray[np.float64]
    errors: npt.NDArray[np.int64]
    rounds: npt.NDArray[np.int64]
    """Rounds of the present phase so far."""
    losses: npt.NDArray[np.float64]
    """Importance-weighted losses of the present phase."""


@may_switch
class SapoState(NamedTuple):
    """State of SAPO; ``lower`` and ``upper`` bound each arm's mean loss."""

    counts: Counts
    probabilities: npt.NDArray[np.float64]
    active: npt.NDArray[np.bool_]
    eliminated_at: npt.NDArray[np.int64]
    mean_losses: npt.NDArray[np.float64]
    half_widths: npt.NDArray[np.float64]
    weighted_losses: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    phases: Phases
    totals: npt.NDArray[np.float64]
    clock: npt.NDArray[np.int64]
    constants: npt.NDArray[np.float64]
    fallback: ExponentialGains


def make_sapo(arms: int, horizon: int, scale: float) -> SapoState:
    """SAPO before its first round; a ``scale`` other than 1 is not covered by its proof."""
    log_term = math.log(max(horizon, 2))
    # 272, 8 and 1280: Algorithm 5 of Schlisselberg, Lancewicki, Auer and Mansour (2025) at delay 0.
    regret = 272.0 * scale * math.sqrt(arms * horizon * log_term)
    return SapoState(
        counts=make_counts(arms),
        probabilities=np.full(arms, 1.0 / arms),
        active=np.ones(arms, dtype=np.bool_),
        eliminated_at=np.full(arms, NEVER, dtype=np.int64),
        mean_losses=np.zeros(arms),
        half_widths=np.ones(arms),
        weighted_losses=np.zeros(arms),
        lower=np.zeros(arms),
        upper=np.ones(arms),
        phases=_make_phases(arms),
        totals=np.array([1.0, 0.0]),
        clock=np.array([0, NEVER, arms], dtype=np.int64),
        constants=np.array([log_term, 8.0 * scale, 1280.0 * scale, regret, float(horizon)]),
        fallback=make_gains(arms, float(horizon), math.log(arms)),
    )


def _make_phases(arms: int) -> Phases:
    numbers = [np.zeros(arms) for _ in range(6)]
    return Phases(
        believed_loss=numbers[0],
        believed_gap=numbers[1],
        first_probability=numbers[2],
        first_length=numbers[3],
        length=numbers[4],
        errors=np.zeros(arms, dtype=np.int64),
        rounds=np.zeros(arms, dtype=np.int64),
        losses=numbers[5],
    )


@inlined
def best_active(state: SapoState, eligible: Eligible) -> int:
    """Return the active arm with the best mean; an arm without a reward has the mean 0.

    If no eligible arm is active, an eliminated one is returned.
    """
    best, best_loss = 0, np.inf
    for arm in range(state.active.size):
        if eligible is not None and not eligible[arm]:
            continue
        loss = state.mean_losses[arm] if state.counts.pulls[arm] > 0 else 1.0
        if not state.active[arm]:
            loss += 2.0  # above every loss of an active arm, which is at most 1
        if loss < best_loss:
            best, best_loss = arm, loss
    return best


@implement(learn, SapoState)
def sapo_learn(state: SapoState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    mean = record(state.counts, arm, reward)
    if has_switched(state):
        learn_after_switch(state.fallback, ticket, reward)
        return
    weighted = (1.0 - reward) / ticket.probability
    state.clock[SEEN] += 1
    state.totals[_LOSSES] += 1.0 - reward
    state.weighted_losses[arm] += weighted
    _update_mean(state, arm, 1.0 - mean)
    # Bounds are narrowed first: the test of the regret and the eliminations use the new ``U*``.
    changed, failed = False, _contradicts(state) or _regrets(state)
    if not failed:
        changed, failed = _continue_phases(state, arm, weighted)
        # After the phases, so that an arm's first phase begins with the next round.
        changed = _eliminate(state) or changed
    if failed or state.clock[_ACTIVE] == 0:
        # EXP3.P in its form without a confidence.
        switch(state, state.constants[_HORIZON], math.log(state.active.size))
    elif changed:
        share_among_active(state.probabilities, state.active)


@inlined
def _update_mean(state: SapoState, arm: int, mean_loss: float) -> None:
    """Give an arm its new mean loss, and narrow its bounds."""
    width = min(1.0, math.sqrt(2.0 * state.constants[_LOG_TERM] / state.counts.pulls[arm]))
    state.mean_losses[arm] = mean_loss
    state.half_widths[arm] = width
    state.lower[arm] = max(state.lower[arm], mean_loss - width)
    state.upper[arm] = min(state.upper[arm], mean_loss + width)
    # Over all arms, eliminated ones too: U* bounds the least mean loss, whichever arm has it.
    state.totals[_LEAST_UPPER] = min(state.totals[_LEAST_UPPER], state.upper[arm])


@inlined
def _contradicts(state: SapoState) -> bool:
    """Narrow the bounds of active arms by their weighted means; return whether bounds conflict.

    A half-width of 1 or more gives no information, not even that the weighted mean is near the true
    one: after the first round the weighted mean may be as large as K.
    """
    seen, arms = state.clock[SEEN], state.active.size
    squared = 2.0 * arms * state.constants[_LOG_TERM] / seen
    if squared >= 1.0:
        return False
    width, contradiction, least = math.sqrt(squared), False, state.totals[_LEAST_UPPER]
    for arm in range(arms):
        if state.active[arm]:
            mean = state.weighted_losses[arm] / seen
            lower = max(state.lower[arm], mean - width)
            upper = min(state.upper[arm], mean + width)
            state.lower[arm], state.upper[arm] = lower, upper
            least = min(least, upper)
            contradiction = contradiction or mean < lower - width or mean > upper + width
    state.totals[_LEAST_UPPER] = least
    return contradiction


@inlined
def _regrets(state: SapoState) -> bool:
    """Whether the losses exceed ``t U*`` by more than stochastic rewards would allow."""
    regret = state.totals[_LOSSES] - state.clock[SEEN] * state.totals[_LEAST_UPPER]
    return regret > state.constants[_LARGEST_REGRET]


@inlined
def _continue_phases(state: SapoState, played: int, weighted: float) -> tuple[bool, bool]:
    """Add the round to the phase of every eliminated arm.

    Returns whether a probability changed, and whether an arm has had too many errors.
    """
    changed, failed = False, False
    phases = state.phases
    # Without an eliminated arm there is no phase: the usual case costs no pass.
    if state.clock[_ACTIVE] == state.active.size:
        return changed, failed
    for arm in range(state.active.size):
        if not state.active[arm]:
            phases.rounds[arm] += 1
            if arm == played:
                phases.losses[arm] += weighted
            surplus = phases.rounds[arm] * phases.believed_loss[arm] - phases.losses[arm]
            error = surplus >= 0.25 * phases.believed_gap[arm] * phases.length[arm]
            if error or phases.rounds[arm] >= math.floor(phases.length[arm]):
                _end_phase(state, arm, error)
                changed = True
                failed = failed or phases.errors[arm] >= 3.0 * state.constants[_LOG_TERM]
    return changed, failed


@inlined
def _end_phase(state: SapoState, arm: int, error: bool) -> None:
    """Double an arm's probability after an error, halve it otherwise, and begin a phase."""
    phases = state.phases
    if error:
        phases.errors[arm] += 1
        phases.length[arm] = max(phases.first_length[arm], 0.5 * phases.length[arm])
        doubled = 2.0 * state.probabilities[arm]
        state.probabilities[arm] = min(phases.first_probability[arm], doubled)
    else:
        phases.length[arm] *= 2.0
        state.probabilities[arm] *= 0.5
    phases.rounds[arm] = 0
    phases.losses[arm] = 0.0


@inlined
def _eliminate(state: SapoState) -> bool:
    """Eliminate every arm far above ``U*``; its first phase begins with the next round."""
    eliminated = False
    threshold, widths = state.totals[_LEAST_UPPER], 1.0 + state.constants[_GAP_WIDTHS]
    if state.clock[SEEN] > state.constants[_HORIZON]:
        return eliminated  # after the horizon, the probabilities could sum to more than 1
    for arm in range(state.active.size):
        if state.active[arm]:
            excess = state.mean_losses[arm] - widths * state.half_widths[arm]
            if excess > threshold:
                _begin_phases(state, arm)
                eliminated = True
    return eliminated


@inlined
def _begin_phases(state: SapoState, arm: int) -> None:
    """Eliminate an arm, and plan its first phase."""
    phases, constants, arms = state.phases, state.constants, state.active.size
    gap = constants[_GAP_WIDTHS] * state.half_widths[arm]
    share = 0.5 / arms + 0.5 * state.counts.pulls[arm] / constants[_HORIZON]
    length = constants[_PHASE_FACTOR] / (share * gap * gap)
    # Rounds and losses of the phase are still 0: no arm is eliminated twice.
    phases.believed_loss[arm] = state.mean_losses[arm]
    phases.believed_gap[arm] = gap
    phases.first_probability[arm] = share
    phases.first_length[arm] = length
    phases.length[arm] = length
    state.probabilities[arm] = share
    state.active[arm] = False
    state.clock[_ACTIVE] -= 1
    state.eliminated_at[arm] = state.counts.rounds[0]
