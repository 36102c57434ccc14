"""The bounds of leaders with a logarithmic barrier, in expectation; the theory page proves them.

They cover ``optimistic-log-barrier`` with ``first_scale > 1 + optimism/2``, and ``lb-inf``.

Published bounds of other regularised leaders, in expectation and with their constants.

The papers bound the regret on corrupted rewards in self-bounding environments. A corruption ``C``
gives such an environment the constant ``2 C``, and the pseudo-regret exceeds that regret by at most
``2 C``. Bounds for any rewards are on the expected regret against one fixed arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.theory.plays import (
    check_above_zero,
    check_at_least,
    check_gaps,
    check_horizon,
    check_run,
)

Floats = npt.NDArray[np.float64]
Tangents = Callable[[Floats, float], tuple[float, Floats, float]]

_LARGEST_VARIANCE = 0.25
"""No reward in [0, 1] has a larger variance."""
_LB_INF_SCALE = 2.0
_SHARES = np.linspace(0.0, 0.99, 100)
_STEPS = 100
_SETTLED = 1e-6


def barrier_curvature(first_scale: float, optimism: float = 0.0) -> float:
    """The least ``q`` with ``y - ln(1+y) <= q y^2`` for the steps that the barrier allows.

    These are ``y >= -(1 + optimism/2)/first_scale``.

    Args:
        first_scale: the scale of the barrier at first; more than ``1 + optimism/2``.

    >>> round(barrier_curvature(2.0), 4), round(barrier_curvature(100.0), 2)
    (0.7726, 0.5)
    """
    check_at_least("optimism", optimism, 0)
    check_above_zero("first_scale", first_scale)
    step = (1 + optimism / 2) / first_scale
    if step >= 1:
        raise InvalidParameter(
            f"first_scale must be above 1 + optimism/2, {1 + optimism / 2:g}; got {first_scale:g}."
        )
    return (-step - math.log1p(-step)) / (step * step)


class BarrierProof(NamedTuple):
    """The constants of the theorem for a leader, a number of arms and a horizon."""

    arms: int
    horizon: int
    first_scale: float
    growth: float
    """The number ``B`` by which squared scales grow with the variation."""
    optimism: float = 0.0
    largest_error: float = 1.0
    """The largest error of a prediction."""
    rooted: bool = False
    """Whether scales are ``sqrt(g^2 + B N)``, as LB-INF's, and not ``g + sqrt(B N)``."""

    @property
    def covers(self) -> bool:
        """Whether the theorem has been proved for these parameters."""
        steps_are_small = self.longest_step < self.first_scale
        grows = 0 < self.growth <= self.first_scale**2
        return steps_are_small and grows and self.horizon >= 2 * self.arms

    @property
    def longest_step(self) -> float:
        """The largest ``|w - x|``."""
        return self.largest_error + self.optimism / 2

    @property
    def spread(self) -> float:
        """``W = 1 + ln(4 T^3/(K - 1))/4`` of barrier lemma 3."""
        return 1 + (math.log(4 / (self.arms - 1)) + 3 * math.log(self.horizon)) / 4

    @property
    def squares(self) -> float:
        """The bound on the sum of squared steps of the optimism, barrier lemma 3 (b)."""
        return self.optimism**2 * (self.spread / 4 + 1 / self.horizon)

    def offset(self) -> float:
        """What does not depend on plays, corruption and the division of squared steps."""
        g, rounds, others = self.first_scale, self.horizon, self.arms - 1
        bias = self.optimism * (1 + math.sqrt(2 * others / rounds))
        best = (g + math.sqrt(self.growth * rounds)) * -math.log1p(-others / rounds)
        return (
            others * (g * math.log(rounds) + 1 + bias) + best - g * self.arms * math.log(self.arms)
        )

    def penalty(self, variation: Floats) -> tuple[Floats, Floats]:
        """``(gamma - g) ln T`` at each variation, and its slope."""
        g, logarithm = self.first_scale, math.log(self.horizon)
        if not self.rooted:
            roots = logarithm * np.sqrt(self.growth * variation)
            return roots, roots / (2 * variation)
        growth = self.growth * (1 + self.growth / (4 * g * g))
        scales = np.sqrt(g * g + growth * variation)
        return logarithm * (scales - g), logarithm * growth / (2 * scales)

    def stability(self, variation: Floats | float) -> tuple[Floats, Floats]:
        """``H`` at each variation, and its slope ``h``."""
        step, g, start = self.longest_step, self.first_scale, self.first_scale
        if self.rooted:
            scales, start = np.sqrt(g * g + self.growth * np.asarray(variation)), 0.0
        else:
            scales = g + np.sqrt(self.growth * np.asarray(variation))
        slopes = (-step - scales * np.log1p(-step / scales)) / step**2
        area = _area(scales, step, start) - float(_area(np.asarray(g), step, start))
        return 2 * area / (self.growth * step**2), slopes

    def division(self, stability: float) -> float:
        """The best ``theta``, by which squared steps are divided.

        Args:
            stability: the sum of ``H`` over the arms.
        """
        first = float(self.stability(0.0)[1]) * self.arms
        return math.sqrt(first * self.squares / (first + stability))

    def first_steps(self, theta: float) -> float:
        """What the squared steps of all arms add beyond ``(1 + theta) H``.

        Args:
            theta: how squared steps are divided.
        """
        optimism = (1 + 1 / theta) * self.squares if self.optimism else 0.0
        return float(self.stability(0.0)[1]) * self.arms * (1 + theta + optimism)

    def any_rewards_regret(self) -> float:
        """Bound the expected regret against a fixed arm: plays are then equal at worst."""
        others, variance = self.arms - 1, self.largest_error**2
        variation = np.array([variance * self.horizon / others])
        area, of_best = self.stability(variation)[0], self.stability(variance * self.horizon / 4)[0]
        stability = float(others * area[0] + of_best)
        theta = self.division(stability)
        bias = self.optimism * math.sqrt(self.spread * others * self.horizon)
        steps = self.first_steps(theta) + (1 + theta) * stability
        return self.offset() + float(others * self.penalty(variation)[0][0]) + steps + bias

    def closed_regret(self, gaps: Sequence[float], corruption: float = 0.0) -> float:
        """Bound the expected pseudo-regret by the closed form of the theorem.

        Args:
            gaps: the gap of each arm except the best, above 0.
            corruption: the expected corruption.
        """
        step, g = self.longest_step / self.first_scale, self.first_scale
        curvature, logarithm = (-step - math.log1p(-step)) / step**2, math.log(self.horizon)
        growth = math.sqrt(self.growth * logarithm)
        bias = self.optimism * math.sqrt(self.spread / logarithm)
        inverse, largest = math.sqrt(sum(1 / gap for gap in gaps)), math.sqrt(1 / min(gaps))

        def bound(theta: float) -> float:
            second = 2 * (1 + theta) * curvature / growth
            first = growth + second + bias
            root = math.sqrt(logarithm) * (first * inverse + second * largest)
            rest = 2 * corruption + len(gaps) * (g * logarithm + 1 + 2 * self.optimism)
            if self.optimism:
                rest += (1 + 1 / theta) * curvature * self.arms * self.squares / g
            return (root + math.sqrt(root * root + 4 * rest)) ** 2 / 4

        return min(map(bound, np.geomspace(1e-4, 1e2, 2000))) if self.optimism else bound(0.0)

    def regret(
        self,
        gaps: Sequence[float],
        corruption: float = 0.0,
        variances: Sequence[float] | None = None,
    ) -> float:
        """Bound the expected pseudo-regret by the least of what the theory page proves.

        Args:
            gaps: the gap of each arm except the best; one may be 0.
            corruption: the expected corruption.
            variances: bounds on the variances of the rewards, the best arm's first and then in the
                order of ``gaps``; by default 1/4, which no reward in [0, 1] exceeds.
        """
        plain = _Moments(np.full(len(gaps), self.largest_error**2))
        bounds = [max(gaps) * self.horizon, 2 * corruption + self.any_rewards_regret()]
        bounds.append(_by_tangents(self, plain, gaps, corruption))
        if not self.rooted:  # LB-INF's predictions are no means, which variances are about
            known = [_LARGEST_VARIANCE] * self.arms if variances is None else variances
            moments = _moments(known, self.horizon, corruption)
            bounds.append(_by_tangents(self, moments, gaps, corruption))
        return min(bounds)


def _area(scale: Floats, step: float, start: float) -> Floats:
    """The integral of ``(s - start)(-step - s ln(1 - step/s))`` up to a scale, and a constant."""
    s, c, logarithm = scale, step, np.log1p(-step / scale)
    last = np.log(s - c)
    cubic = (s**3 * logarithm - c * s**2 / 2 - c**2 * s - c**3 * last) / 3
    square = (s**2 * logarithm - c * s - c**2 * last) / 2
    return np.asarray(start * c * s - c * s**2 / 2 - cubic + start * square)


class _Moments(NamedTuple):
    """Bounds on the variation ``N`` and on the optimism's ``Q``, by plays ``P``.

    ``E N_j <= shares_j P_j + r_j`` where all ``r`` sum to at most ``rest``, and
    ``E Q_j <= spread P_j + root sqrt(P_j) + constant + r'_j`` where all ``r'`` sum to at most
    ``optimism_rest``.
    """

    shares: Floats
    rest: float = 0.0
    spread: float = 1.0
    root: float = 0.0
    constant: float = 0.0
    optimism_rest: float = 0.0


def _moments(variances: Sequence[float], horizon: int, corruption: float) -> _Moments:
    """The bounds V2 and V3 of the theory page; the best arm's variance comes first."""
    each, arms = np.maximum(np.asarray(variances, dtype=np.float64), 1e-12), len(variances)
    largest, logarithm = float(each.max()), math.log(horizon)
    log, others = 1 + logarithm, each[1:]
    mixed = largest**2 / (4 * np.maximum(largest - others, largest / 2))
    bias = arms * math.pi**2 / 24 + logarithm * float(each.sum())
    forged = 0.0
    if corruption:
        rounds = horizon / corruption
        forged = 2 * corruption * (2 + _log_above_1(arms * rounds) + _log_above_1(rounds))
        part = corruption / arms
        forged += 4 * arms * log * min(part, 1 + _log_above_1(part))
    return _Moments(
        shares=np.where(largest <= 2 * others, others, mixed),
        rest=2 * (math.sqrt(bias) + math.sqrt(2 * corruption)) ** 2 + 2 * corruption,
        spread=largest,
        root=2 * math.sqrt(largest * log),
        constant=0.75 * log + largest * log**2 / 2,
        optimism_rest=log * (0.25 + arms / 2) + arms * largest * log**2 / 2 + forged,
    )


def _log_above_1(number: float) -> float:
    return math.log(max(number, 1.0))


def _tangents(proof: BarrierProof, moments: _Moments) -> Tangents:
    """Return the tangents to all that the regret is bounded by, at given plays of each arm.

    From plays and ``theta``: the sum of what they are at 0, their slopes, and a better ``theta``.
    """
    factor = proof.optimism * math.sqrt(proof.spread)
    offset = proof.offset()

    def tangents(plays: Floats, theta: float) -> tuple[float, Floats, float]:
        expected = moments.shares * plays
        variation = _filled(expected, moments.rest)
        of_best = max(float(expected.sum()), float(variation.min()))
        penalty, penalty_slope = proof.penalty(variation)
        area, area_slope = proof.stability(variation)
        best_area, best_slope = proof.stability(of_best)
        steep, best_steep = penalty_slope + (1 + theta) * area_slope, (1 + theta) * best_slope
        total = offset + proof.first_steps(theta)
        total += (penalty + (1 + theta) * area - steep * variation).sum()
        total += (1 + theta) * best_area - best_steep * of_best
        total += max(steep.max(), best_steep) * moments.rest
        slopes = moments.shares * (steep + best_steep)
        if factor:
            own = moments.spread * plays + moments.root * np.sqrt(plays) + moments.constant
            own_slope = moments.spread + moments.root / (2 * np.sqrt(plays))
            squares = _filled(own, moments.optimism_rest)
            bias = factor * np.sqrt(squares)
            steepness = bias / (2 * squares)
            total += (bias - steepness * (squares - own + own_slope * plays)).sum()
            total += steepness.max() * moments.optimism_rest
            slopes = slopes + steepness * own_slope
        return float(total), slopes, proof.division(float(area.sum() + best_area))

    return tangents


def _filled(amounts: Floats, rest: float) -> Floats:
    """Raise the smallest amounts to a common level with what is left to give.

    >>> _filled(np.array([5.0, 1.0, 2.0]), 3.0)
    array([5., 3., 3.])
    """
    levels = (rest + np.cumsum(np.sort(amounts))) / np.arange(1, amounts.size + 1)
    return np.asarray(np.maximum(amounts, levels.min()))


def _largest_regret(
    tangents: Tangents, gaps: Floats, horizon: int, corruption: float, capped: bool
) -> tuple[float, bool]:
    """Bound the regret by tangents, and say whether the plays that meet the bound are too many.

    Each step gives a valid bound: with slopes ``s_j``, ``X <= total + sum s_j P_j``, and
    ``sum s_j P_j <= share X + T max(s_j - share gap_j)`` for every ``share`` in [0, 1). The plays
    move towards those at which all tangents together are best.
    """
    best, theta, worth = math.inf, 1.0, np.maximum(gaps, 1 / horizon)
    plays = np.full(gaps.size, horizon / gaps.size)
    for step in range(_STEPS):
        total, slopes, better = tangents(plays, theta)
        total += 2 * corruption
        ratio = float((slopes / worth).max())
        shares = np.append(_SHARES, ratio) if ratio < 1 else _SHARES
        surplus = np.maximum(slopes - shares[:, None] * gaps, 0.0).max(axis=1)
        bounds = (total + horizon * surplus) / (1 - shares)
        least, before = int(bounds.argmin()), best
        best = min(best, float(bounds[least]))
        if step > 8 and best > before * (1 - _SETTLED):
            break
        price = shares[least] * gaps + surplus[least] if capped else worth
        mean = float((slopes * plays).sum() / (worth * plays).sum())
        # Newton's step for the regret, or a large one as long as all tangents are too steep.
        regret = total / (1 - mean) if mean < 0.99 else 4 * float((worth * plays).sum())
        plays = plays * (slopes / price) ** 2
        plays *= regret / (worth * plays).sum()
        if capped:
            plays *= min(1.0, horizon / plays.sum())
        plays, theta = np.maximum(plays, 1e-9), better
    return best, bool(plays.sum() > horizon)


def _by_tangents(
    proof: BarrierProof, moments: _Moments, gaps: Sequence[float], corruption: float
) -> float:
    problem = _tangents(proof, moments), np.array(gaps), proof.horizon, corruption
    bound, too_many = _largest_regret(*problem, capped=False)
    return min(bound, _largest_regret(*problem, capped=True)[0]) if too_many else bound


def barrier_proof(
    arms: int,
    horizon: int,
    first_scale: float = 2.0,
    scale_growth: float = 1.0,
    optimism: float = 0.0,
) -> BarrierProof:
    """The constants of the theorem for ``optimistic-log-barrier``.

    Args:
        horizon: the number of rounds, at least twice the number of arms.
        first_scale: the scale of the barrier at first, above ``1 + optimism/2``.
        scale_growth: how fast scales grow; at most ``first_scale^2 ln T``.

    >>> f"{barrier_proof(2, 10**6).any_rewards_regret():.0f}"
    '9136'
    """
    check_run(arms, horizon)
    check_at_least("horizon", horizon, 2 * arms)
    check_above_zero("scale_growth", scale_growth)
    barrier_curvature(first_scale, optimism)
    most = first_scale**2 * math.log(horizon)
    if scale_growth > most:
        raise InvalidParameter(
            f"scale_growth must be at most first_scale^2 ln T, {most:g}; got {scale_growth:g}."
        )
    return BarrierProof(arms, horizon, first_scale, scale_growth / math.log(horizon), optimism)


def lb_inf_proof(arms: int, horizon: int, predicts: bool = True) -> BarrierProof:
    """The constants of the theorem for LB-INF.

    Args:
        predicts: whether predictions move; if they stay at 1/2, no error exceeds 1/2.

    >>> f"{lb_inf_proof(2, 10**6).regret([0.5]):.0f}"
    '217'
    """
    error, growth = (1.0 if predicts else 0.5), 1 / math.log(horizon)
    return BarrierProof(arms, horizon, _LB_INF_SCALE, growth, 0.0, error, rooted=True)


def barrier_regret(
    gaps: Sequence[float],
    horizon: int,
    corruption: float = 0.0,
    first_scale: float = 2.0,
    scale_growth: float = 1.0,
    optimism: float = 0.0,
    variances: Sequence[float] | None = None,
) -> float:
    """Bound the expected pseudo-regret of ``optimistic-log-barrier``.

    Args:
        gaps: the gap of each arm except the best; one may be 0.
        horizon: the number of rounds, at least twice the number of arms.
        corruption: the expected corruption.
        variances: as in :meth:`BarrierProof.regret`.

    >>> f"{barrier_regret([0.5], 10**6):.0f}", f"{barrier_regret([0.5], 10**6, 1000):.0f}"
    ('71', '2752')
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    if variances is not None and len(variances) != len(gaps) + 1:
        raise InvalidParameter(
            f"variances must have an entry for each of the {len(gaps) + 1} arms; "
            f"got {len(variances)}."
        )
    proof = barrier_proof(len(gaps) + 1, horizon, first_scale, scale_growth, optimism)
    return proof.regret(gaps, corruption, variances)


def exp3_any_rewards_regret(arms: int, horizon: int, learning_rate: float | None = None) -> float:
    """Bound the expected regret of EXP3 against a fixed arm, for any rewards.

    Args:
        learning_rate: the step size; by default ``sqrt(2 ln K / (TK))``, the best one.

    >>> f"{exp3_any_rewards_regret(2, 10**6):.0f}"
    '1665'
    """
    check_run(arms, horizon)
    rate = math.sqrt(2 * math.log(arms) / (horizon * arms))
    rate = rate if learning_rate is None else learning_rate
    return math.log(arms) / rate + rate * horizon * arms / 2


def tsallis_inf_any_rewards_regret(arms: int, horizon: int, reduced_variance: bool = True) -> float:
    """Bound the expected regret of Tsallis-INF against a fixed arm, for any rewards.

    >>> f"{tsallis_inf_any_rewards_regret(2, 10**6):.0f}"
    '3231'
    """
    check_run(arms, horizon)
    root = math.sqrt(arms * horizon)
    return 2 * root + 14 * arms * math.log(horizon) + 16 if reduced_variance else 4 * root + 1


def lb_inf_regret(
    gaps: Sequence[float], horizon: int, corruption: float = 0.0, predicts: bool = True
) -> float:
    """Bound the expected pseudo-regret of LB-INF (Ito 2021).

    Args:
        gaps: the gap of each arm except the best, above 0.
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
        corruption: the expected corruption.

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
