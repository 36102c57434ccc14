"""Published bounds of other regularised leaders, in expectation and with their constants.

The papers bound the regret on corrupted rewards in self-bounding environments. A corruption ``C``
gives such an environment the constant ``2 C``, and the pseudo-regret exceeds that regret by at most
``2 C``. Bounds for any rewards are on the expected regret against one fixed arm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.arguments import check_arms, check_at_least, check_gaps, check_horizon


def exp3_any_rewards_regret(arms: int, horizon: int, learning_rate: float | None = None) -> float:
    """Bound the expected regret of EXP3 against a fixed arm, for any rewards.

    Args:
        arms: the number of arms.
        horizon: the number of rounds.
        learning_rate: the step size; by default ``sqrt(2 ln K / (TK))``, the best one.

    >>> f"{exp3_any_rewards_regret(2, 10**6):.0f}"
    '1665'
    """
    check_arms(arms)
    check_horizon(horizon)
    rate = math.sqrt(2 * math.log(arms) / (horizon * arms))
    rate = rate if learning_rate is None else learning_rate
    return math.log(arms) / rate + rate * horizon * arms / 2


def tsallis_inf_any_rewards_regret(arms: int, horizon: int, reduced_variance: bool = True) -> float:
    """Bound the expected regret of Tsallis-INF against a fixed arm, for any rewards.

    Args:
        arms: the number of arms.
        horizon: the number of rounds.
        reduced_variance: whether the estimator is that with reduced variance.

    >>> f"{tsallis_inf_any_rewards_regret(2, 10**6):.0f}"
    '3231'
    """
    check_arms(arms)
    check_horizon(horizon)
    root = math.sqrt(arms * horizon)
    return 2 * root + 14 * arms * math.log(horizon) + 16 if reduced_variance else 4 * root + 1


def lb_inf_regret(
    gaps: Sequence[float], horizon: int, corruption: float = 0.0, predicts: bool = True
) -> float:
    """Bound the expected pseudo-regret of LB-INF (Ito 2021).

    Args:
        gaps: the gap of each arm except the best, above 0.
        horizon: the number of rounds.
        corruption: the expected corruption.
        predicts: whether predictions move, by a quarter of the error, or stay at 1/2.

    >>> f"{lb_inf_regret([0.5], 10**6):.0f}", f"{lb_inf_regret([0.5], 10**6, predicts=False):.0f}"
    ('1365', '475')
    """
    _check(gaps, horizon, corruption)
    if min(gaps) == 0:
        raise InvalidParameter("each of gaps must be above 0: the best arm must be unique.")
    first, second = (36, 6) if predicts else (9, 3)
    logarithm, arms = math.log(horizon), len(gaps) + 1
    inverse = sum(logarithm / gap for gap in gaps)
    rest = 3 * arms * logarithm
    regret = first * inverse + second * math.sqrt(inverse * (2 * corruption + rest)) + rest
    return _at_most_all(regret + 2 * corruption, gaps, horizon)


def tsallis_inf_regret(
    gaps: Sequence[float], horizon: int, corruption: float = 0.0, reduced_variance: bool = True
) -> float:
    """Bound the expected pseudo-regret of Tsallis-INF (Zimmert and Seldin 2021).

    Args:
        gaps: the gap of each arm except the best; the bound without gaps applies if one is 0.
        horizon: the number of rounds.
        corruption: the expected corruption.
        reduced_variance: whether the estimator is that with reduced variance.

    >>> f"{tsallis_inf_regret([0.5], 10**6):.0f}", f"{tsallis_inf_regret([0.5], 10**6, 1000):.0f}"
    ('845', '3356')
    """
    _check(gaps, horizon, corruption)
    arms, logarithm, constant = len(gaps) + 1, math.log(horizon), 2 * corruption
    regret = tsallis_inf_any_rewards_regret(arms, horizon, reduced_variance)
    if min(gaps) > 0 and reduced_variance:
        leading = sum((logarithm + 3) / gap for gap in gaps) + 2 / min(gaps)
        rest = 28 * arms * logarithm + 1.5 * math.sqrt(arms) + 32
        attacked = leading + constant
        if constant > leading:
            attacked = min(attacked, 2 * math.sqrt(leading * constant))
        regret = min(regret, attacked + rest)
    elif min(gaps) > 0 and constant == 0:
        regret = min(regret, sum((4 * logarithm + 68) / gap for gap in gaps) + 4 * math.sqrt(arms))
    return _at_most_all(regret + constant, gaps, horizon)


def _check(gaps: Sequence[float], horizon: int, corruption: float) -> None:
    check_gaps(gaps)
    check_horizon(horizon)
    check_at_least("corruption", corruption, 0)


def _at_most_all(bound: float, gaps: Sequence[float], horizon: int) -> float:
    return min(bound, max(gaps) * horizon)
