"""Lower bounds for learners of small regret: Theorems 4 and 5, with constants.

Two Bernoulli arms have the means ``1/2 + D`` and ``1/2``; in the first ``C`` rounds the adversary
makes the first arm's mean ``1/2 - D``, which costs at most 1 per round. A learner whose
pseudo-regret is small on *every* stochastic instance hardly plays an arm that looks bad, so it
does not notice that the arm has become the better one.

Where the paper's text slips, this is what is meant: ``epsilon < epsilon_prime`` is needed; there
are ``(epsilon_prime - epsilon) log_3 T`` intervals; the first ``C`` steps are false; at the end of
step 4 the probabilities on the right are those without a switch; step 5a counts plays of arm 2;
in Theorem 5 it is the complement of the event ``B`` that is unlikely.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from armrace.errors import InvalidParameter
from armrace.theory.arguments import check_above_zero, check_at_least, check_horizon


class ForcedRegret(NamedTuple):
    """Regret that is reached with a probability; both are lower bounds, and may say nothing."""

    regret: float
    probability: float


def _check_gap(gap: float) -> None:
    if not 0 < gap < 0.5:
        raise InvalidParameter(f"gap must be in (0, 0.5); got {gap:g}.")


def sparse_interval_plays(
    scale: float,
    gap: float,
    horizon: int,
    epsilon: float,
    epsilon_prime: float,
    power: float = 0.0,
) -> float:
    """Return the mean plays of the bad arm in the interval in which it is played least.

    If the pseudo-regret is at most ``scale ln^(1+power)(T) / gap`` on all stochastic instances,
    the bad arm is played at most ``1/gap`` times as often. Among the
    ``floor((epsilon_prime - epsilon) log_3 T)`` intervals ``[C, 3C)`` between ``T^epsilon`` and
    ``T^epsilon_prime``, at least one has no more than the average.

    >>> round(sparse_interval_plays(8, 0.25, 3**20, 0.25, 0.75), 6)  # 128 * 20 ln 3 / 10
    281.244746
    """
    check_above_zero("scale", scale)
    _check_gap(gap)
    check_horizon(horizon)
    check_at_least("power", power, 0)
    if not 0 < epsilon < epsilon_prime < 1:
        raise InvalidParameter(
            f"epsilon and epsilon_prime must satisfy 0 < epsilon < epsilon_prime < 1; "
            f"got {epsilon:g} and {epsilon_prime:g}."
        )
    intervals = math.floor((epsilon_prime - epsilon) * math.log(horizon, 3) * (1 + 1e-12))
    if intervals < 1:
        raise InvalidParameter(
            f"horizon must leave room for an interval between its powers; got {horizon}."
        )
    return scale * math.pow(math.log(horizon), 1 + power) / (gap**2 * intervals)


def switching_regret(gap: float, rounds: float, horizon: int, plays: float) -> ForcedRegret:
    """Return the regret that a switch after ``rounds = C`` forces if the bad arm is played rarely.

    ``plays`` is how often the learner plays the arm in ``[C, 3C)`` on average if there is no
    switch. By Markov's inequality it does so at most ``2 plays`` times with probability a half;
    with the switch, a sequence of that many rewards is less likely by a factor of no more than
    ``((1/2 - D)/(1/2 + D))^(2 plays)``. Regret against the first arm then is at least

    - ``-1.1 D C`` in the first ``C`` rounds, except with probability ``exp(-D^2 C/200)``;
    - ``1.9 D C - 2 plays`` in ``[C, 3C)``, except with ``exp(-D^2 C/400)``;
    - ``-ln T`` afterwards, except with ``T^(-2D)``,

    by Hoeffding's inequality and its maximal form, for steps within an interval of length 2;
    the last because ``exp(-2D S)`` is a supermartingale for the sum ``S`` of such steps of mean
    ``D``. The regret is that against the best arm in hindsight, which is at least as large. The
    paper takes ``4 plays`` in place of ``2 plays`` and smaller failure probabilities than these
    steps give, and asks that the first arm be the better one in hindsight, which is not needed.

    Args:
        rounds: the number of rounds before the switch, ``C``.
        plays: mean plays of the bad arm in ``[C, 3C)`` without a switch.

    >>> forced = switching_regret(0.25, 10_000, 10**6, 0)  # 2000 - ln 10^6
    >>> round(forced.regret, 2), round(forced.probability, 4)  # 1/2 - e^-3.125 - e^-1.5625 - 0.001
    (1986.18, 0.2455)
    """
    _check_gap(gap)
    check_at_least("rounds", rounds, 1)
    check_horizon(horizon)
    check_at_least("plays", plays, 0)
    if 3 * rounds > horizon:
        raise InvalidParameter(
            f"rounds must be at most a third of the horizon, {horizon / 3:g}; got {rounds:g}."
        )
    odds = (0.5 - gap) / (0.5 + gap)
    failure = (
        math.exp(-(gap**2) * rounds / 200)
        + math.exp(-(gap**2) * rounds / 400)
        + horizon ** (-2 * gap)
    )
    regret = 0.8 * gap * rounds - 2 * plays - math.log(horizon)
    return ForcedRegret(max(0.0, regret), max(0.0, 0.5 * odds ** (2 * plays) - failure))


def forced_regret(
    scale: float, gap: float, horizon: int, epsilon: float, epsilon_prime: float
) -> ForcedRegret:
    """Theorem 4: regret of order ``C`` with constant probability, for some ``C``.

    For a learner with pseudo-regret of at most ``scale ln(T)/gap`` on two stochastic arms; some
    ``C`` from ``T^epsilon`` to ``T^epsilon_prime`` forces at least this, which is the promise for
    the smallest of them. The constant is tiny unless ``scale`` is: it has ``scale/gap^2`` in an
    exponent.

    >>> round(forced_regret(0.01, 0.25, 10**9, 0.6, 0.9).probability, 4)  # 3^-1.326 / 2 - ...
    0.1164
    """
    plays = sparse_interval_plays(scale, gap, horizon, epsilon, epsilon_prime)
    return switching_regret(gap, min(horizon**epsilon, horizon / 3), horizon, plays)


def forced_positive_regret(
    scale: float, gap: float, horizon: int, epsilon: float, epsilon_prime: float, power: float
) -> float:
    """Theorem 5: the positive part of the regret in expectation, also for powers of ``ln T``.

    For a learner with pseudo-regret of at most ``scale ln^(1 + power)(T)/gap``, ``power < 1``:
    regret times probability as in Theorem 4. For large ``T`` it is above ``T^(epsilon - d)`` for
    every ``d > 0``, as ``exp(-O(ln^power T))`` vanishes more slowly than any power of ``T``.

    >>> round(forced_positive_regret(0.01, 0.25, 10**9, 0.6, 0.9, 0.5), 1)  # 50,211 * 0.000626
    31.5
    """
    if not 0 <= power < 1:
        raise InvalidParameter(f"power must be in [0, 1); got {power:g}.")
    plays = sparse_interval_plays(scale, gap, horizon, epsilon, epsilon_prime, power)
    forced = switching_regret(gap, min(horizon**epsilon, horizon / 3), horizon, plays)
    return forced.regret * forced.probability


def clean_switching_regret(gap: float, rounds: float, plays: float) -> float:
    """Return the expected regret on clean rewards that the switch forces before it comes.

    The first ``C`` rounds look exactly like the instance in which the first arm is bad, in which
    it is played ``plays`` times by then. All other rounds lose ``gap`` each: a step of the proof
    of Theorem 4 that needs no small constant.

    Args:
        rounds: the rounds before the switch.
        plays: the mean plays of the bad arm in these rounds.

    >>> clean_switching_regret(0.25, 1000, 200)
    200.0
    """
    _check_gap(gap)
    check_at_least("rounds", rounds, 0)
    check_at_least("plays", plays, 0)
    return max(0.0, gap * (rounds - plays))
