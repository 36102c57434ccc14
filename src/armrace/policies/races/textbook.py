"""The race as its paper prints it: Algorithm 2, for readers; nothing is kept beyond need.

:mod:`armrace.policies.races.race` plays the same arms and is fast; the tests compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


class TextbookRace:
    """Algorithm 2 of Lykouris, Mirrokni and Paes Leme; with fewer layers, Algorithm 1 and AAE.

    >>> race = TextbookRace(arms=2, share=[0.5, 0.5], widths=[lambda n: 1 / n, lambda n: 2 / n])
    >>> [race.play(layer=0, rewards=[0.9, 0.1]) for _ in range(7)]
    [0, 1, 0, 1, 0, 1, 0]
    >>> race.active(0), race.active(1)
    ([0], [0, 1])
    """

    def __init__(
        self, arms: int, share: Sequence[float], widths: Sequence[Callable[[int], float]]
    ) -> None:
        self.arms, self.share, self.widths = arms, share, widths
        layers = range(len(share))
        self.pulls = [[0] * arms for _ in layers]
        self.means = [[0.0] * arms for _ in layers]
        self.inactive: list[set[int]] = [set() for _ in layers]

    def active(self, layer: int) -> list[int]:
        """Return the arms that the layer has not deleted."""
        return [arm for arm in range(self.arms) if arm not in self.inactive[layer]]

    def layer_at(self, level: float) -> int:
        """Return the layer of a uniform number: the slowest layers take the lowest levels."""
        layer = 0
        while layer + 1 < len(self.share) and level < sum(self.share[layer + 1 :]):
            layer += 1
        return layer

    def choose(self, layer: int) -> int:
        """Return the active arm with the fewest plays; an empty layer asks the next that is not."""
        if self.active(layer):
            return min(self.active(layer), key=lambda arm: self.pulls[layer][arm])
        lowest = next(j for j in range(len(self.share)) if self.active(j))
        return max(self.active(lowest), key=lambda arm: self.means[lowest][arm])

    def weights(self) -> list[float]:
        """Return the probability of each arm."""
        weights = [0.0] * self.arms
        for layer, share in enumerate(self.share):
            weights[self.choose(layer)] += share
        return weights

    def width(self, layer: int, arm: int) -> float:
        """Return the half-width of an arm's interval."""
        pulls = self.pulls[layer][arm]
        return self.widths[layer](pulls) if pulls else math.inf

    def play(self, layer: int, rewards: Sequence[float]) -> int:
        """Play a round in a layer, delete what is clearly worse, and return the arm."""
        arm = self.choose(layer)
        if not self.active(layer):
            return arm
        pulls = self.pulls[layer][arm]
        self.means[layer][arm] = (pulls * self.means[layer][arm] + rewards[arm]) / (pulls + 1)
        self.pulls[layer][arm] = pulls + 1
        while (victim := self.dominated(layer)) is not None:
            for faster in range(layer + 1):
                self.inactive[faster].add(victim)
        return arm

    def dominated(self, layer: int) -> int | None:
        """Return an active arm whose interval lies below another's, if there is one."""
        for a in self.active(layer):
            for b in self.active(layer):
                gap = self.means[layer][a] - self.means[layer][b]
                if gap > self.width(layer, a) + self.width(layer, b):
                    return b
        return None
