"""Steps towards the normaliser that makes the probabilities of a leader sum to 1.

With ``r = 1/(excess + d)``, where ``excess`` is how far an arm's loss lies above the least one, the
probabilities are ``g r^power``, and ``d`` is wanted for which their sum ``S`` is 1. The function
``f(d) = S^(-1/power)`` is a power mean of linear functions, so it is increasing and concave, and
nearly linear. A Newton step for ``f = 1`` therefore never ends beyond the root, wherever it
starts. From there on, error times slope falls to a quarter or less with each step: if ``h = 1 - f``
has the slope ``-s``, convexity gives ``h >= h' + s' (h/s)`` for the values after the step, that is
``h'/h + s'/s <= 1``.

Near the root, a second term makes the error of a step cubic. When a step is so small that its cube
does not matter, the probabilities are taken along it by their series, without divisions.
"""

from __future__ import annotations

from armrace.kernels.compiling import inlined

__all__ = ["FARTHEST", "LAST_STEP", "MOST_STEPS", "lengthened", "moved"]

LAST_STEP = 1e-4
"""After a step of this size, relative to the distance, the error is below 1e-12."""
MOST_STEPS = 100
FARTHEST = 1e60
"""The largest distance to start from: the fourth power of its reciprocal is not 0 yet."""
_LARGEST_CORRECTION = 0.25


@inlined
def lengthened(step: float, bend: float) -> float:
    """A Newton step with the second term; ``bend`` is ``-f''/2f'``, which is not negative."""
    correction = step * bend
    return step * (1.0 + correction) if abs(correction) < _LARGEST_CORRECTION else step


@inlined
def moved(weight: float, change: float, power: int) -> float:
    """The weight ``g r^power`` after a small step ``d``, with ``change = r d``."""
    if power == 2:
        return weight * (1.0 - change * (2.0 - change * (3.0 - change * 4.0)))
    return weight * (1.0 - change * (1.0 - change * (1.0 - change)))
