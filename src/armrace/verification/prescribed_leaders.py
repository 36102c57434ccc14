"""Regularised leaders as their definitions prescribe them: a second implementation.

Each is plain Python, written from the definition and the policy's parameters alone, and solves for
the probabilities by bisection. ``learn`` divides by the probabilities that it is given, which may
be those that the policy has published: so differences by rounding do not grow from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HALVINGS = 70


class PrescribedLeader(Protocol):
    """A leader that can be replayed."""

    def weights(self) -> Floats:
        """Return the probabilities of the next decision."""

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        """Learn a reward."""


def _solve(weights_at: Callable[[float], Floats], least: float, most: float) -> Floats:
    """Return the weights that sum to 1 at a distance between two bounds; they fall with it."""
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if weights_at(middle).sum() > 1 else (least, middle)
    return weights_at(most)


class PrescribedOptimisticLogBarrier:
    """The optimistic log barrier, from all losses and errors so far."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.policy, self.log_horizon = policy, math.log(max(horizon, 2))
        self.estimated, self.variations, self.variances = (np.zeros(arms) for _ in range(3))
        self.plays, self.lost, self.squares = (np.zeros(arms) for _ in range(3))

    def weights(self) -> Floats:
        deviations = np.sqrt(self.variances)
        expected = self.estimated + self._predictions() - self.policy.optimism * deviations
        growth = self.policy.scale_growth * self.variations / self.log_horizon
        scales = self.policy.first_scale + np.sqrt(growth)
        above = expected - expected.min()
        return _solve(lambda distance: scales / (above + distance), 0.0, scales.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        predictions = self._predictions()
        played, error = np.arange(weights.size) == arm, 1 - reward - predictions[arm]
        # A first error of 1/2 counts for each arm and for all arms together.
        own = (0.25 + self.squares) / (1 + self.plays)
        pooled = (0.25 + self.squares.sum()) / (1 + self.plays.sum())
        self.variances += np.maximum(own, pooled) * (1 - weights) / weights
        self.estimated += predictions + played * error / weights
        self.variations += error**2 * np.where(played, 1 - weights, weights) ** 2
        self.plays += played
        self.lost += played * (1 - reward)
        self.squares += played * error**2

    def _predictions(self) -> Floats:
        return np.asarray((0.5 + self.lost) / (1 + self.plays))


class PrescribedLbInf:
    """LB-INF as Ito (2021) prints it."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.rate, self.log_horizon = policy.prediction_rate, math.log(max(horizon, 2))
        self.estimated, self.predictions = np.zeros(arms), np.full(arms, 0.5)
        self.scales = np.full(arms, 2.0)

    def weights(self) -> Floats:
        expected = self.estimated + self.predictions
        above = expected - expected.min()
        return _solve(lambda distance: self.scales / (above + distance), 0.0, self.scales.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        played, error = np.arange(weights.size) == arm, 1 - reward - self.predictions[arm]
        self.estimated += self.predictions + played * error / weights
        variation = error**2 * np.where(played, 1 - weights, weights) ** 2
        self.scales += variation / (2 * self.scales * self.log_horizon)
        self.predictions[arm] += self.rate * error


class PrescribedTsallisInf:
    """Tsallis-INF as Zimmert and Seldin (2021) print it."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.estimated, self.reduced, self.number = np.zeros(arms), policy.estimator == "rv", 1

    @property
    def rate(self) -> float:
        """The learning rate of the round."""
        return (4 if self.reduced else 2) / math.sqrt(self.number)

    def weights(self) -> Floats:
        above, rate = self.estimated - self.estimated.min(), self.rate
        most = 2 * math.sqrt(above.size) / rate
        return _solve(lambda distance: 4 / (rate * (above + distance)) ** 2, 1 / rate, most)

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        played = np.arange(weights.size) == arm
        baselines = 0.5 * (weights >= self.rate**2) if self.reduced else np.zeros(weights.size)
        self.estimated += played * (1 - reward - baselines) / weights + baselines
        self.number += 1


class PrescribedExp3:
    """EXP3 with losses, as in Theorem 3.1 of Bubeck and Cesa-Bianchi (2012)."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        usual = math.sqrt(2 * math.log(arms) / (horizon * arms))
        self.rate = usual if policy.learning_rate is None else policy.learning_rate
        self.estimated = np.zeros(arms)

    def weights(self) -> Floats:
        weights = np.exp(-self.rate * (self.estimated - self.estimated.min()))
        return np.asarray(weights / weights.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        self.estimated[arm] += (1 - reward) / weights[arm]
