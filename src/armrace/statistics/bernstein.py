"""Exact intervals for sums of bounded terms, each of which may depend on all before it."""

from __future__ import annotations

import math

import numpy as np

from armrace.statistics.proportions import Interval

_LARGEST, _RATIO, _HALVINGS = 0.9, 3.0, 60


def bernstein_interval(
    total: float, squares: float, terms: float, above: float, below: float, level: float = 0.05
) -> Interval:
    """Return an interval for the mean of the conditional expectations of the terms.

    Let the terms be X_t, M_t the expectation of X_t given all before it, and c_t a number that is
    known before X_t, with -``below`` <= X_t - c_t <= ``above``. The interval contains
    (M_1 + ... + M_n) / n with a probability of at least 1 - ``level``, for any number of terms and
    any dependence between them. It is an empirical Bernstein bound: ``exp(l S - p(l) V)`` with
    S = sum (X_t - M_t) / ``below``, V = sum ((X_t - c_t) / ``below``)^2 and p(l) = -ln(1 - l) - l
    has an expectation of at most 1 for every l in [0, 1), and so does a mean of it over several l;
    the low end is where that mean exceeds 2 / ``level``, and the high end the same with signs
    changed and ``above``. The values of l cover the variances that ``terms`` allow.

    Terms of several runs on the same data may be given as means over the runs of ``total``,
    ``squares`` and ``terms``: the exponential of a mean is at most the mean of exponentials.

    >>> low, high = bernstein_interval(total=50.0, squares=47.5, terms=1000, above=1.0, below=1.0)
    >>> f"{low:.4f} to {high:.4f}"
    '0.0257 to 0.0743'
    """
    if terms <= 0:
        return Interval(-math.inf, math.inf)
    log_term, mean = math.log(2.0 / level), total / terms
    return Interval(
        mean - _deviation(squares / below**2, terms, log_term) * below / terms,
        mean + _deviation(squares / above**2, terms, log_term) * above / terms,
    )


def _deviation(variance: float, terms: float, log_term: float) -> float:
    """Return the deviation S at which the mean of exp(l S - p(l) V) is exp(log_term)."""
    # At the largest possible variance, a quarter a term, this l is the best; others are larger.
    smallest = min(math.sqrt(8.0 * log_term / terms), _LARGEST)
    steps = 1 + math.ceil(math.log(_LARGEST / smallest, _RATIO))
    rates = np.geomspace(smallest, _LARGEST, steps)
    costs = (-np.log1p(-rates) - rates) * variance
    low, high = 0.0, float(np.min((log_term + math.log(steps) + costs) / rates))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.logaddexp.reduce(rates * middle - costs) - math.log(steps) < log_term:
            low = middle
        else:
            high = middle
    return high
