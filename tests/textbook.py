"""The algorithms as the papers print them: argmin, while loops, nothing kept beyond need."""

from __future__ import annotations

import math


class TextbookRace:
    """Algorithm 2 of Lykouris, Mirrokni and Paes Leme; with fewer layers, Algorithm 1 and AAE."""

    def __init__(self, arms, share, widths):
        self.arms, self.share, self.widths = arms, share, widths
        layers = range(len(share))
        self.pulls = [[0] * arms for _ in layers]
        self.means = [[0.0] * arms for _ in layers]
        self.inactive = [set() for _ in layers]

    def active(self, layer):
        return [arm for arm in range(self.arms) if arm not in self.inactive[layer]]

    def layer_at(self, level):
        """The slowest layers take the lowest levels."""
        layer = 0
        while layer + 1 < len(self.share) and level < sum(self.share[layer + 1 :]):
            layer += 1
        return layer

    def choose(self, layer):
        if self.active(layer):
            return min(self.active(layer), key=lambda arm: self.pulls[layer][arm])
        lowest = next(j for j in range(len(self.share)) if self.active(j))
        return max(self.active(lowest), key=lambda arm: self.means[lowest][arm])

    def weights(self):
        weights = [0.0] * self.arms
        for layer, share in enumerate(self.share):
            weights[self.choose(layer)] += share
        return weights

    def width(self, layer, arm):
        pulls = self.pulls[layer][arm]
        return self.widths[layer](pulls) if pulls else math.inf

    def play(self, layer, rewards):
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

    def dominated(self, layer):
        for a in self.active(layer):
            for b in self.active(layer):
                gap = self.means[layer][a] - self.means[layer][b]
                if gap > self.width(layer, a) + self.width(layer, b):
                    return b
        return None


def ucb1_index(mean, pulls, round_number):
    return math.inf if pulls == 0 else mean + math.sqrt(2 * math.log(round_number) / pulls)


def exp3_weights(losses, rate):
    least = min(losses)
    weights = [math.exp(-rate * (loss - least)) for loss in losses]
    return [weight / sum(weights) for weight in weights]
