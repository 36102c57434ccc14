"""Thompson's rule with Beta posteriors: draw a mean for every arm, play the largest.

A reward that is neither 0 nor 1 is rounded to one of them at random. The random number is drawn
with the decision and kept as the ticket's memo, so that the time at which feedback arrives makes no
difference.

A law is given by ``above = a - 1`` successes and ``below = b - 1`` failures seen since the
uniform prior, so its density is ``exp(peak - n kl(above/n, x))`` with ``n = above + below``:
in this form nothing cancels, however large the counts.

The probability that arm ``i`` draws the largest is the integral of ``f_i prod_{j != i} F_j``.
It is taken over panels that march from left to right, each as wide as the densities that live
there allow, with the nodes of Gauss and Legendre; the distribution functions come from the same
nodes, by integrating the interpolating polynomial. Chernoff's bound says where a law, or the
law of the largest, has less than ``exp(-30)`` of its mass left; what lies beyond is left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    distribution_among,
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream, uniform
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.common.divergence import kl, lower_kl, upper_kl

Floats = npt.NDArray[np.float64]

_NODES = 16
_TAIL = 30.0
_LEAST = 1e-17
_HALVINGS = 20
_SCALES = 4.0
"""Widest panel, in local standard deviations of a density."""
_FOLDS = 16.0
"""Widest panel, in factors of e by which a density changes."""


def _nodes_and_weights() -> tuple[Floats, Floats, Floats]:
    """Nodes on [0, 1], weights, and weights for the integrals from 0 to each node."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    # A polynomial through the nodes is a sum of Legendre polynomials, whose integrals are known:
    # (2n + 1) times that of the n-th is the difference of its two neighbours.
    powers = np.polynomial.legendre.legvander(places, _NODES)
    integrals = np.empty((_NODES, _NODES))
    integrals[:, 0] = places + 1.0
    for degree in range(1, _NODES):
        integrals[:, degree] = (powers[:, degree + 1] - powers[:, degree - 1]) / (2 * degree + 1)
    coefficients = powers[:, :_NODES].T * weights * (np.arange(_NODES) + 0.5)[:, np.newaxis]
    return (places + 1.0) / 2.0, weights / 2.0, integrals @ coefficients / 2.0


_PLACES, _WEIGHTS, _PARTIAL = _nodes_and_weights()


@inlined
def draw_beta(first: float, second: float, stream: Stream) -> float:
    """A number from Beta(first, second), both at least 1, as a ratio of two gamma numbers.

    Marsaglia and Tsang (2000): ``d v^3`` with ``v = 1 + x/sqrt(9 d)``, ``d = shape - 1/3`` and
    ``x`` normal has nearly the gamma law, and rejection makes it exact. The two come together:
    one pair of normal numbers by the polar method, one uniform to accept both.
    """
    d, e = first - 1.0 / 3.0, second - 1.0 / 3.0
    c, f = 1.0 / math.sqrt(9.0 * d), 1.0 / math.sqrt(9.0 * e)
    v, w = 1.0, 1.0
    accepted = False
    while not accepted:
        x, y, square = 0.0, 0.0, 2.0
        while square >= 1.0 or square == 0.0:
            x, y = 2.0 * uniform(stream) - 1.0, 2.0 * uniform(stream) - 1.0
            square = x * x + y * y
        radius = math.sqrt(-2.0 * math.log(square) / square)
        x, y = x * radius, y * radius
        v, w = 1.0 + c * x, 1.0 + f * y
        if v > 0.0 and w > 0.0:
            v, w = v * v * v, w * w * w
            # A uniform may be 0 but not 1, so that this logarithm is finite. The squeeze accepts
            # most pairs without one; it never accepts what the exact test would reject.
            level = 1.0 - uniform(stream)
            # Marsaglia and Tsang accept one number below 1 - 0.0331 x^4. For a pair, (1 - a)(1 - b)
            # is at least 1 - a - b.
            squeeze = 1.0 - 0.0331 * (x * x * x * x + y * y * y * y)
            accepted = level < squeeze or math.log(level) < (
                0.5 * (x * x + y * y) + d * (1.0 - v + math.log(v)) + e * (1.0 - w + math.log(w))
            )
    return d * v / (d * v + e * w)


@inlined
def log_peak(above: float, below: float) -> float:
    """Logarithm of the largest density, by Stirling's series with exact remainders."""
    total = above + below
    peak = math.log(total + 1.0)
    if above > 0.0 and below > 0.0:
        peak += 0.5 * math.log(total / (2.0 * math.pi * above * below))
        peak += _remainder(total) - _remainder(above) - _remainder(below)
    return peak


@inlined
def _remainder(count: float) -> float:
    """``ln count!`` minus Stirling's formula."""
    # From here on the series is accurate to some 1e-14; for large counts the difference would
    # cancel.
    if count < 16.0:
        stirling = (count + 0.5) * math.log(count) - count + 0.5 * math.log(2.0 * math.pi)
        return math.lgamma(count + 1.0) - stirling
    square = 1.0 / (count * count)
    series = 1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))
    return series / count


@inlined
def log_density(above: float, below: float, peak: float, x: float) -> float:
    """Logarithm of the density at ``x`` in (0, 1), given :func:`log_peak`."""
    total = above + below
    return peak if total == 0.0 else peak - total * kl(above / total, x)


@inlined
def _widest_panel(above: float, below: float, x: float) -> float:
    """Return how far from ``x`` the density is close to a polynomial of the nodes' degree."""
    slope = abs(above / x - below / (1.0 - x))
    curvature = above / (x * x) + below / ((1.0 - x) * (1.0 - x))
    widest = 1.0
    if curvature > 0.0:
        widest = min(widest, _SCALES / math.sqrt(curvature))
    if slope > 0.0:
        widest = min(widest, _FOLDS / slope)
    return widest


@inlined
def law_of_largest(above: Floats, below: Floats, out: Floats) -> None:
    """Write into ``out`` the probability that each law's draw is the largest."""
    arms = above.size
    peaks, high, mass = np.empty(arms), np.empty(arms), np.empty(arms)
    stop = 0.0
    for arm in range(arms):
        draws = above[arm] + below[arm] + 1.0
        peaks[arm] = log_peak(above[arm], below[arm])
        # A draw exceeds x with the probability that ``draws`` coins of mean x show at most
        # ``above`` heads; Chernoff's bound is on these coins.
        high[arm] = upper_kl(above[arm] / draws, _TAIL / draws)
        stop = max(stop, high[arm])
        out[arm] = 0.0
    start = _start(above, below, stop)
    for arm in range(arms):
        mass[arm] = _mass_below(above[arm], below[arm], peaks[arm], min(start, high[arm]))
    densities, functions = np.empty((arms, _NODES)), np.empty((arms, _NODES))
    suffix = np.empty((arms + 1, _NODES))
    while start < stop:
        width = _panel(above, below, peaks, high, mass, start, stop)
        for arm in range(arms):
            if start < high[arm]:
                _evaluate(above[arm], below[arm], peaks[arm], start, width, densities[arm])
                mass[arm] = _accumulate(densities[arm], functions[arm], mass[arm], width)
            else:
                densities[arm].fill(0.0)
                # Beyond ``high`` the law has less than exp(-30) left, which counts as nothing.
                functions[arm].fill(1.0)
        _add_panel(densities, functions, suffix, width, out)
        start += width
    total = 0.0
    for arm in range(arms):
        total += out[arm]
    for arm in range(arms):
        out[arm] /= total


@inlined
def _start(above: Floats, below: Floats, stop: float) -> float:
    """Find a point below which the largest draw almost never lies, by Chernoff's bound."""
    low, high = 0.0, stop
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        exponent = 0.0
        for arm in range(above.size):
            draws = above[arm] + below[arm] + 1.0
            mean = (above[arm] + 1.0) / draws
            if middle < mean:
                # Draws are independent: the probability that all lie below is a product, and
                # exponents add.
                exponent += draws * kl(mean, middle)
        if exponent >= _TAIL:
            low = middle
        else:
            high = middle
    # Densities are not evaluated at 0 itself, where slopes and curvatures are infinite.
    return max(low, _LEAST)


@inlined
def _panel(
    above: Floats,
    below: Floats,
    peaks: Floats,
    high: Floats,
    mass: Floats,
    start: float,
    stop: float,
) -> float:
    """Return the width of the panel from ``start``.

    Every density and the product of all distribution functions must be close to a polynomial on
    the panel; the logarithm of that product grows at the rate ``sum f/F``.
    """
    width, growth = stop - start, 0.0
    for arm in range(above.size):
        if start < high[arm]:
            width = min(width, _widest_panel(above[arm], below[arm], start))
            density = math.exp(log_density(above[arm], below[arm], peaks[arm], start))
            if density > 0.0:
                # The second argument is a lower bound on F; until mass is counted, the only one.
                growth += density / max(mass[arm], start * density / (above[arm] + 1.0))
    return width if growth * width < _FOLDS else _FOLDS / growth


@inlined
def _evaluate(
    above: float, below: float, peak: float, start: float, width: float, densities: Floats
) -> None:
    """Compute a density at the nodes of a panel."""
    for node in range(_NODES):
        x = start + width * _PLACES[node]
        densities[node] = math.exp(log_density(above, below, peak, x))


@inlined
def _accumulate(densities: Floats, functions: Floats, mass: float, width: float) -> float:
    """Compute the distribution function at the nodes; return it at the end of the panel."""
    whole = 0.0
    for node in range(_NODES):
        part = 0.0
        for other in range(_NODES):
            part += _PARTIAL[node, other] * densities[other]
        functions[node] = mass + width * part
        whole += _WEIGHTS[node] * densities[node]
    return mass + width * whole


@inlined
def _mass_below(above: float, below: float, peak: float, high: float) -> float:
    """Return the mass of one law below a point, by panels that fit this law alone."""
    draws = above + below + 1.0
    low = max(_LEAST, lower_kl((above + 1.0) / draws, _TAIL / draws))
    mass = 0.0
    while low < high:
        width = min(high - low, _widest_panel(above, below, low))
        part = 0.0
        for node in range(_NODES):
            x = low + width * _PLACES[node]
            part += _WEIGHTS[node] * math.exp(log_density(above, below, peak, x))
        mass += width * part
        low += width
    return mass


@inlined
def _add_panel(
    densities: Floats, functions: Floats, suffix: Floats, width: float, out: Floats
) -> None:
    """Add to each law the integral of its density times all others' distribution functions."""
    # The product of all other functions from prefix and suffix products: dividing the product of
    # all by one function would fail where that function is 0.
    arms = out.size
    for node in range(_NODES):
        suffix[arms, node] = 1.0
        for arm in range(arms - 1, -1, -1):
            suffix[arm, node] = suffix[arm + 1, node] * functions[arm, node]
        prefix = 1.0
        for arm in range(arms):
            others = prefix * suffix[arm + 1, node]
            out[arm] += width * _WEIGHTS[node] * densities[arm, node] * others
            prefix *= functions[arm, node]


class Posteriors(NamedTuple):
    """Successes and failures of each arm since the uniform prior."""

    counts: Counts
    successes: npt.NDArray[np.float64]
    failures: npt.NDArray[np.float64]
    turned: npt.NDArray[np.bool_]
    """Whether a reward of 0 is the success."""


def make_posteriors(arms: int, turned: bool) -> Posteriors:
    """Uniform posteriors."""
    return Posteriors(
        counts=make_counts(arms),
        successes=np.zeros(arms),
        failures=np.zeros(arms),
        turned=np.array([turned]),
    )


@inlined
def _draw_arm(state: Posteriors, stream: Stream, eligible: Eligible) -> int:
    """Draw a mean for every eligible arm, and return the arm of the largest."""
    best, best_draw = 0, -1.0
    for arm in range(state.successes.size):
        if eligible is not None and not eligible[arm]:
            continue
        draw = draw_beta(state.successes[arm] + 1.0, state.failures[arm] + 1.0, stream)
        if draw > best_draw:
            best, best_draw = arm, draw
    return best


@implement(distribution, Posteriors)
def posteriors_distribution(state: Posteriors, out: npt.NDArray[np.float64]) -> None:
    law_of_largest(state.successes, state.failures, out)


@implement(distribution_among, Posteriors)
def posteriors_distribution_among(
    state: Posteriors, eligible: npt.NDArray[np.bool_], out: npt.NDArray[np.float64]
) -> None:
    count = 0
    for arm in range(eligible.size):
        count += eligible[arm]
    successes, failures, law = np.empty(count), np.empty(count), np.empty(count)
    place = 0
    for arm in range(eligible.size):
        if eligible[arm]:
            successes[place], failures[place] = state.successes[arm], state.failures[arm]
            place += 1
    # Dividing the probabilities among all arms by their sum would be wrong: posteriors are drawn
    # and compared, not weighed.
    law_of_largest(successes, failures, law)
    place = 0
    for arm in range(eligible.size):
        out[arm] = 0.0
        if eligible[arm]:
            out[arm] = law[place]
            place += 1


@implement(choose, Posteriors)
def posteriors_choose(state: Posteriors, stream: Stream, eligible: Eligible = None) -> Ticket:
    arm = _draw_arm(state, stream, eligible)
    # The probability costs as much as hundreds of rounds; ``distribution`` computes it on request.
    return make_ticket(arm, 0, np.nan, uniform(stream))


@implement(assign, Posteriors)
def posteriors_assign(state: Posteriors, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, Posteriors)
def posteriors_learn(state: Posteriors, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    # A coin that shows heads with probability ``reward``: 0 and 1 are never rounded.
    rewarded = ticket.memo < reward
    if rewarded != state.turned[0]:
        state.successes[ticket.arm] += 1.0
    else:
        state.failures[ticket.arm] += 1.0
