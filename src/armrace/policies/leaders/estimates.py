"""Estimated losses, and the probabilities that follow from them.

A reward seen with probability ``p`` stands for ``1/p`` of its kind, so that the sum of
``loss / p`` over the plays of an arm estimates, without bias, what the arm would have lost in
all rounds. Probabilities then solve ``min <w, losses> + regulariser(w) / rate``:

- negative entropy gives ``w`` proportional to ``exp(-rate * loss)`` (EXP3 and its variants);
- Tsallis entropy gives ``w = 1 / (rate/2 * (loss - x))^2`` and the logarithmic barrier
  ``w = 1 / (rate * (loss - x))``, each with the one ``x`` below all losses that makes them
  sum to 1.

An *optimistic* leader expects arm ``i`` to lose ``m[i]`` in the coming round and solves
``min <w, losses + m> + regulariser(w)``. What it learns from a play with probability ``p`` is
how far the prediction was off: every arm is charged its prediction, and the arm that was played
``(loss - m[i]) / p`` on top. The charge does not depend on the reward. It is made when the
decision is assigned, and the ticket keeps the prediction of its arm, so that a late reward leaves
the estimate unbiased.

EXP3.P, which SAO and SAPO turn to when rewards are not stochastic, estimates gains ``G``. Its
probabilities are ``w = (1 - exploration) softmax(learning_rate G) + exploration / K``. A round adds
``bonus / w[i]`` to the gain of every arm, and the reward over its probability to the gain of the
arm played. The bonuses do not depend on the reward. They are added when the decision is assigned,
with the probabilities of that moment, so that feedback may come at any time.

A leader that may only choose among some arms sees no further loss of one that is away. The
estimated loss of that arm stays where it is while all others grow, its weight goes to 1, and the
weights of the others, relative to each other, become flat or vanish. So a leader is told: the arm
gets an estimated loss so large that the others have the weights that they would have without it.
When it comes back, it is as far behind the best of the others as it was when it went.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, stamped
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import Counts, count_play

LOGARITHMIC_BARRIER, TSALLIS_ENTROPY = 1, 2
"""Powers of ``1 / (scale * (loss - x))``."""

BONUS, LEARNING_RATE, EXPLORATION = 0, 1, 2
"""Places in ``rates``."""

_SMALLEST_PROBABILITY = 1e-300
_TOLERANCE = 1e-12
_MOST_STEPS = 100
# The middle of [0, 1], so that a first prediction is off by 1/2 at most.
_FIRST_PREDICTION = 0.5

Floats = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])


class Estimates(NamedTuple):
    """Estimated losses, and the ``x`` from which the next solution starts."""

    losses: Floats
    normaliser: Floats


def make_estimates(arms: int) -> Estimates:
    """Estimates before the first round.

    Args:
        arms: the number of arms.
    """
    return Estimates(np.zeros(arms), np.zeros(1))


class Solution(NamedTuple):
    """The probabilities of the next decision, solved once and used until the state changes.

    This is scratch space: ``distribution`` and ``choose`` fill it, ``assign`` and ``learn`` mark
    it as out of date.
    """

    weights: Floats
    normaliser: Floats
    up_to_date: npt.NDArray[np.bool_]


def make_solution(arms: int) -> Solution:
    """Make a solution that is marked as out of date.

    Args:
        arms: the number of arms.
    """
    return Solution(np.full(arms, 1.0 / arms), np.zeros(1), np.zeros(1, dtype=np.bool_))


@inlined
def add_loss(losses: Floats, arm: int, loss: float, probability: float) -> None:
    """Count a loss that was seen with ``probability``.

    Args:
        losses: the estimated losses, one for each arm.
        arm: the arm that was played.
        loss: its loss, in [0, 1].
        probability: the probability with which it was chosen.
    """
    # A floor far below every probability that is ever drawn, so that estimates stay finite.
    losses[arm] += loss / max(probability, _SMALLEST_PROBABILITY)


@inlined
def smallest(losses: Floats) -> float:
    """The least of the losses."""
    least = losses[0]
    for arm in range(1, losses.size):
        least = min(least, losses[arm])
    return least


@inlined
def exponential_weights(losses: Floats, rate: float, out: Floats) -> None:
    """Probabilities proportional to ``exp(-rate * loss)``.

    Args:
        losses: the estimated losses, one for each arm.
        rate: the learning rate.
        out: an array with an entry for each arm, which is overwritten.
    """
    # Measured from the least loss, the largest exponent is 0: nothing overflows, and the total is
    # at least 1 however large the losses are.
    least = smallest(losses)
    total = 0.0
    for arm in range(losses.size):
        weight = math.exp(-rate * (losses[arm] - least))
        out[arm] = weight
        total += weight
    for arm in range(losses.size):
        out[arm] /= total


@inlined
def power_weights(
    losses: Floats,
    scale: float,
    power: int,
    normaliser: float,
    out: Floats,
) -> float:
    """Probabilities ``(scale * (loss - x))^-power``; returns ``x``.

    Newton's method solves for ``distance = scale * (least loss - x)``, which lies between 1 and
    ``K^(1/power)``. The sum of the probabilities is a convex, decreasing function of the distance.
    From a distance that is too small, Newton steps therefore never pass the root; a step from one
    that is too large lands below it. So the method converges from any start, and from
    ``normaliser``, the ``x`` of the round before, two or three steps are enough. Losses are
    measured from the least one, so that large losses do not cost precision.

    Args:
        losses: the estimated losses, one for each arm.
        power: the power, such as :data:`TSALLIS_ENTROPY`.
        scale: the learning rate, as the formula has it.
        normaliser: the ``x`` of the last solution, from which the search starts.
        out: an array with an entry for each arm, which is overwritten.
    """
    least = smallest(losses)
    # Below 1, the arm with the least loss alone would have a probability above 1.
    distance = max(1.0, scale * (least - normaliser))
    total = 1.0
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for arm in range(losses.size):
            root = 1.0 / (scale * (losses[arm] - least) + distance)
            weight = root * root if power == TSALLIS_ENTROPY else root
            out[arm] = weight
            total += weight
            slope += weight * root
        if abs(total - 1.0) < _TOLERANCE:
            break
        # The derivative of the sum is -power * slope.
        distance = max(1.0, distance + (total - 1.0) / (power * slope))
    # The rest of the error, below the tolerance, is divided out: draws rely on a sum of 1.
    for arm in range(losses.size):
        out[arm] /= total
    return least - distance / scale


def draws_from_weights(state_class: type) -> Callable[[F], F]:
    """Register ``distribution`` and ``choose`` of a class of states by its probabilities.

    The decorated function is inlined, takes a state and returns the array of probabilities for
    its next decision, a part of the state or of its scratch space.
    """

    def register(weights_of: F) -> F:
        @implement(distribution, state_class)
        def leader_distribution(state: Any, out: Floats) -> None:
            weights = weights_of(state)
            for arm in range(out.size):
                out[arm] = weights[arm]

        @implement(choose, state_class)
        def leader_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
            return choose_by_weights(weights_of(state), 1.0, stream, eligible)

        return weights_of

    return register


def draws_from_solution(state_class: type) -> Callable[[F], F]:
    """Register ``distribution`` and ``choose`` of a class of states by how it is solved.

    The decorated function is inlined, takes a state and returns the
    :class:`~armrace.policies.leaders.estimates.Solution` for its next decision.

    Args:
        state_class: the class of the states.
    """

    def register(solve: F) -> F:
        @draws_from_weights(state_class)
        @inlined
        def weights_of(state: Any) -> Floats:
            return solve(state).weights

        return solve

    return register


class PredictedLosses(NamedTuple):
    """Estimated and predicted losses, and the solution for the latest decision."""

    losses: Floats
    predictions: Floats
    weights: Floats
    """The probabilities of the latest decision."""
    normaliser: Floats
    """The multiplier of the condition that these sum to 1."""


def make_predicted_losses(arms: int) -> PredictedLosses:
    """Estimates before the first round."""
    return PredictedLosses(
        losses=np.zeros(arms),
        predictions=np.full(arms, _FIRST_PREDICTION),
        weights=np.full(arms, 1.0 / arms),
        normaliser=np.zeros(1),
    )


class Expectation(NamedTuple):
    """Scratch space: what each arm is expected to have lost, and the solution for it."""

    losses: Floats
    solution: Solution


def make_expectation(arms: int) -> Expectation:
    """Make scratch space whose solution is marked as out of date."""
    return Expectation(np.zeros(arms), make_solution(arms))


@inlined
def expect_losses(estimates: PredictedLosses, out: Floats) -> None:
    """Write the estimated loss of each arm plus the predicted one into ``out``."""
    for arm in range(out.size):
        out[arm] = estimates.losses[arm] + estimates.predictions[arm]


@inlined
def charge_predictions(estimates: PredictedLosses, solution: Solution) -> None:
    """Add to every arm's estimate its prediction, and keep the solution of the decision."""
    for arm in range(estimates.losses.size):
        estimates.losses[arm] += estimates.predictions[arm]
        estimates.weights[arm] = solution.weights[arm]
    # Scratch space is not saved. A restored state must start its search from the same point, or its
    # probabilities would differ in the last digits.
    estimates.normaliser[0] = solution.normaliser[0]
    solution.up_to_date[0] = False


@inlined
def mean_loss(counts: Counts, arm: int) -> float:
    """The arm's mean loss, where a loss of 1/2 counts as one more play."""
    pulls = counts.pulls[arm]
    mean: float = (_FIRST_PREDICTION + (pulls - counts.sums[arm])) / (1.0 + pulls)
    return mean


def predicts_losses(state_class: type) -> Callable[[F], F]:
    """Register ``distribution``, ``choose`` and ``assign`` of a class of states with estimates.

    The decorated function is as :func:`draws_from_solution` wants it. States have ``counts`` and
    ``estimates``; the memo of a ticket is the prediction for its arm.
    """

    def register(solve: F) -> F:
        @implement(assign, state_class)
        def leader_assign(state: Any, ticket: Ticket) -> Ticket:
            prediction = state.estimates.predictions[ticket.arm]
            # Solved again if the decision was made elsewhere and only assigned here
            # (docs/decisions/014).
            charge_predictions(state.estimates, solve(state))
            count_play(state.counts, ticket.arm)
            return stamped(ticket, 0, prediction)

        ranks_arms(state_class, _expected_losses, _place)
        return draws_from_solution(state_class)(solve)

    return register


def _expected_losses(state: Any) -> Floats:
    expected: Floats = state.estimates.losses + state.estimates.predictions
    return expected


def _place(state: Any, arm: int, loss: float) -> None:
    estimates = state.estimates
    estimates.losses[arm] = loss - estimates.predictions[arm]
    # A search for the next probabilities that starts from nearly 0 would end there.
    estimates.weights[:] = 1.0 / estimates.weights.size
    state.scratch.solution.up_to_date[0] = False


class ExponentialGains(NamedTuple):
    """State of EXP3.P: estimated gains and the rates."""

    gains: Floats
    rates: Floats
    scratch: Solution


def make_gains(arms: int, horizon: float, log_confidence: float) -> ExponentialGains:
    """EXP3.P before its first round; ``log_confidence`` is ``ln(K/delta)``."""
    state = ExponentialGains(np.zeros(arms), np.zeros(3), make_solution(arms))
    restart_gains(state, horizon, log_confidence)
    return state


@inlined
def restart_gains(state: ExponentialGains, horizon: float, log_confidence: float) -> None:
    """Forget all gains, and tune for ``horizon`` rounds to come."""
    arms = state.gains.size
    for arm in range(arms):
        state.gains[arm] = 0.0
    state.scratch.up_to_date[0] = False
    plays = horizon * arms
    # Bubeck and Cesa-Bianchi (2012), Theorem 3.2.
    state.rates[BONUS] = math.sqrt(log_confidence / plays)
    state.rates[LEARNING_RATE] = 0.95 * math.sqrt(math.log(arms) / plays)
    state.rates[EXPLORATION] = min(1.0, 1.05 * math.sqrt(arms * math.log(arms) / horizon))


@inlined
def fill_probabilities(state: ExponentialGains, out: Floats) -> None:
    """Write the probability of each arm into ``out``."""
    gains, rate, exploration = state.gains, state.rates[LEARNING_RATE], state.rates[EXPLORATION]
    arms = gains.size
    # Measured from the highest gain, the largest exponent is 0 and nothing overflows.
    highest = gains[0]
    for arm in range(1, arms):
        highest = max(highest, gains[arm])
    total = 0.0
    for arm in range(arms):
        weight = math.exp(rate * (gains[arm] - highest))
        out[arm] = weight
        total += weight
    scale, floor = (1.0 - exploration) / total, exploration / arms
    for arm in range(arms):
        out[arm] = scale * out[arm] + floor


@inlined
def gain_probabilities(state: ExponentialGains) -> Floats:
    """The probability of each arm, in scratch space."""
    solution = state.scratch
    if not solution.up_to_date[0]:
        fill_probabilities(state, solution.weights)
        solution.up_to_date[0] = True
    return solution.weights


@inlined
def add_bonuses(state: ExponentialGains) -> None:
    """Give every arm the bonus of a round."""
    weights = gain_probabilities(state)
    for arm in range(state.gains.size):
        state.gains[arm] += state.rates[BONUS] / weights[arm]
    state.scratch.up_to_date[0] = False


@inlined
def add_reward(state: ExponentialGains, arm: int, probability: float, reward: float) -> None:
    """Count the reward of an arm that was drawn with ``probability``."""
    # No floor is needed: exploration keeps every probability at ``exploration / K`` or more.
    state.gains[arm] += reward / probability
    state.scratch.up_to_date[0] = False


_AWAY = 1e18
"""The loss of an arm that is away: far above all that plays add up to, and its square is finite."""


class _Ranking(NamedTuple):
    losses: Callable[[Any], Floats]
    place: Callable[[Any, int, float], None]


_RANKINGS: dict[type, _Ranking] = {}


def ranks_arms(
    state_class: type, losses: Callable[[Any], Floats], place: Callable[[Any, int, float], None]
) -> None:
    """Register how the states of a leader rank their arms."""
    _RANKINGS[state_class] = _Ranking(losses, place)


def set_aside(state: Any, arm: int, away: Collection[int]) -> float:
    """Take an arm from a state; return how far it was behind the best of those not ``away``.

    An index or a posterior of an arm does not depend on the others, and its state stays as it is.
    """
    if type(state) not in _RANKINGS:
        return 0.0
    ranking = _RANKINGS[type(state)]
    standing = float(ranking.losses(state)[arm]) - _least(ranking, state, {arm, *away})
    ranking.place(state, arm, _AWAY)
    return standing


def bring_back(state: Any, arm: int, standing: float, away: Collection[int]) -> None:
    """Give an arm back to a state, by what :func:`set_aside` returned; it is still ``away``."""
    if type(state) in _RANKINGS:
        ranking = _RANKINGS[type(state)]
        ranking.place(state, arm, _least(ranking, state, away) + standing)


def _least(ranking: _Ranking, state: Any, away: Collection[int]) -> float:
    losses = ranking.losses(state)
    return min(float(losses[arm]) for arm in range(losses.size) if arm not in away)
