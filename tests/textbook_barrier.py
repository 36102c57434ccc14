"""The bound of the barrier theorem by tangents, slowly: the largest regret that it allows.

Formulas are typed in from the theory page; roots are found by bisection, integrals by the
trapezium rule, and the worst plays on a grid of proportions.
"""

import math

import numpy as np


def bisect(function, low, high, steps=200):
    """The place at which an increasing function passes 0."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


def zeta(y):
    return y - np.log1p(y)


def curvature(g, k):
    rho = (1 + k / 2) / g
    return zeta(-rho) / rho**2


def spread(arms, horizon):
    return 1 + math.log(4 * horizon**3 / (arms - 1)) / 4


class Sums:
    """What the theorem by tangents starts from, with integrals by the trapezium rule."""

    def __init__(self, means, horizon, corruption, k, variances=None, g=2.0, beta=0.25, lb=False):
        self.gaps = max(means) - np.sort(means)[::-1][1:]
        self.arms, self.horizon, self.k, self.g = len(means), horizon, k, g
        self.w, self.log, self.beta, self.lb = (
            spread(self.arms, horizon),
            math.log(horizon),
            beta,
            lb,
        )
        variation = np.append(0, np.geomspace(1e-6, 1e8, 40_001))
        gamma = g + np.sqrt(beta / self.log * variation)
        if lb:
            gamma = np.sqrt(g * g + variation / self.log)
        rho = (1 + k / 2) / gamma
        h = zeta(-rho) / (rho**2 * gamma)
        areas = np.append(0, np.cumsum(np.diff(variation) * (h[1:] + h[:-1]) / 2))
        self.stability, self.first = lambda n: np.interp(n, variation, areas), h[0]
        one, log = np.ones(self.arms - 1), 1 + self.log
        self.tau, self.spare, self.spare_q, self.kappa = one, 0.0, 0.0, lambda p: p
        if variances is not None:
            order = np.argsort(-np.asarray(means))
            each = np.asarray(variances)[order]
            s2 = each.max()
            p = np.linspace(0, 1, 10_001)[:, None]
            self.tau = ((1 - p) * ((1 - p) * each[1:] + p * s2)).max(axis=0)
            c = self.arms * math.pi**2 / 24 + self.log * each.sum()
            self.spare = 2 * (math.sqrt(c) + math.sqrt(2 * corruption)) ** 2 + 2 * corruption
            self.spare_q = log * (0.25 + self.arms / 2) + self.arms * s2 * log**2 / 2
            if corruption:
                rounds, part = horizon / corruption, corruption / self.arms
                self.spare_q += 2 * corruption * (2 + math.log(self.arms * rounds * rounds))
                self.spare_q += 4 * self.arms * log * min(part, 1 + max(0, math.log(part)))
            self.kappa = lambda p: s2 * p + 2 * np.sqrt(s2 * p * log) + 0.75 * log + s2 * log**2 / 2
        best = (g + math.sqrt(beta / self.log * horizon)) * math.log(
            horizon / (horizon - self.arms + 1)
        )
        each = g * self.log + 1 + k + k * math.sqrt(2 * (self.arms - 1) / horizon)
        self.s = (
            2 * corruption + (self.arms - 1) * each + best - g * self.arms * math.log(self.arms)
        )

    def above(self, plays, thetas):
        """How far the bound is above the regret of plays, what is spare given at its worst."""
        variation, found = self.tau * plays, []
        for of_best in np.linspace(0, 0.5, 6) if self.spare else (0.0,):
            others = fill(variation, (1 - of_best) * self.spare)
            penalty = np.sqrt(self.beta * others * self.log)
            if self.lb:
                b = 1 / self.log
                penalty = self.log * (
                    np.sqrt(self.g**2 + b * (1 + b / 4 / self.g**2) * others) - self.g
                )
            area = self.stability(others).sum()
            area += self.stability(variation.sum() + of_best * self.spare)
            bias = self.k * np.sqrt(self.w * fill(self.kappa(plays), self.spare_q)).sum()
            steps = self.arms * self.first
            squares = self.k**2 * (self.w / 4 + 1 / self.horizon)
            divided = (1 + thetas) * (area + steps) + (1 + 1 / thetas) * steps * squares
            found.append(self.s + penalty.sum() + bias + divided.min())
        return max(found) - (self.gaps * plays).sum()

    def largest(self):
        """The largest regret that the inequality allows, over all proportions of plays."""
        thetas = np.geomspace(1e-3, 10, 301) if self.k else np.array([1e-300])
        most, shares = 0.0, [np.ones(self.arms - 1)]
        if np.ptp(self.gaps) > 0:  # proportions of two arms
            shares = [np.array([part, 1 - part]) for part in np.linspace(0.005, 0.995, 60)]
        for share in shares:
            # Regret in these proportions, so that the plays are the regret over the gaps.
            plays = share / self.gaps / share.sum()
            size = bisect(lambda x: -self.above(x * plays, thetas), 1.0, 1e7, 50)  # noqa: B023
            most = max(most, size)
        return most


def fill(amounts, spare):
    """Give what is spare to the smallest amounts, which reach a common level."""
    ordered = sorted(amounts)
    levels = [(spare + sum(ordered[: n + 1])) / (n + 1) for n in range(len(ordered))]
    level = next(x for x, after in zip(levels, [*ordered[1:], math.inf], strict=True) if x <= after)
    return np.maximum(amounts, level)
