"""The guard as its theory page describes it, around two bases in their textbook form."""

import math

from armrace.theory import corruption_allowance
from textbook import exp3_weights, ucb1_index
from textbook_sharp import TextbookSharpRace


class TextbookUcb1:
    """Plays the largest index among the arms that it may play."""

    def __init__(self, arms):
        self.rewards = [[] for _ in range(arms)]

    def draw(self, allowed, uniform):
        number = 1 + sum(map(len, self.rewards))
        indices = {
            arm: ucb1_index(
                sum(self.rewards[arm]) / max(1, len(self.rewards[arm])),
                len(self.rewards[arm]),
                number,
            )
            for arm in allowed
        }
        arm = max(indices, key=lambda each: indices[each])
        return arm, arm

    def learn(self, arm, reward):
        self.rewards[arm].append(reward)


class TextbookExp3:
    """Draws among all arms, and again among those that it may play if the first has been lost."""

    def __init__(self, arms, rate):
        self.losses, self.rate, self.drawn = [0.0] * arms, rate, 1.0

    def draw(self, allowed, uniform):
        weights = exp3_weights(self.losses, self.rate)
        drawn = _at(uniform(), weights, range(len(weights)))
        self.drawn = weights[drawn]
        return drawn, drawn if drawn in allowed else _at(uniform(), weights, allowed)

    def learn(self, arm, reward):
        self.losses[arm] += (1 - reward) / self.drawn


def _at(level, weights, arms):
    """The arm in whose part of the weights the level lies."""
    left = level * sum(weights[arm] for arm in arms)
    for arm in arms:
        left -= weights[arm]
        if left < 0:
            return arm
    return arms[-1]


class TextbookGuard(TextbookSharpRace):
    """Labels, turns, recorded rewards and deletions of Theorem C."""

    def __init__(self, arms, horizon, delta, share, lead, first, base):
        super().__init__(arms, 1, delta, lead, first)
        layers = 1
        while first * 2 ** (share + layers - 1) < horizon:
            layers += 1
        numbers = range(1, layers + 1)
        self.share = [2.0 ** -(share + number) for number in numbers]
        self.share[0] = 2.0**-share - sum(self.share[1:])
        self.failure = [delta / 4**number for number in numbers]
        self.allowances = [
            corruption_allowance(
                first * 2 ** (share + layer) * sum(self.share[layer:]),
                -math.log(self.failure[layer]),
            )
            for layer in range(layers)
        ]
        self.inactive = [set() for _ in numbers]
        self.rewards = [[[] for _ in range(arms)] for _ in numbers]
        self.ends = [[(-math.inf, math.inf)] * arms for _ in numbers]
        self.looked_at = [[0] * arms for _ in numbers]
        self.best_means = [[None] * arms for _ in numbers]
        self.turn_counts = [[0] * arms for _ in numbers]
        self.moves = [0] * layers
        self.base, self.told = base, 0

    def allowed(self):
        return next(self.active(layer) for layer in range(len(self.share)) if self.active(layer))

    def play_round(self, uniform, row):
        """Play a round with rewards ``row``; return the label, or None, and the arm."""
        level = uniform()
        label = self.layer_at(level) if level < sum(self.share) else None
        recorded = label is not None and bool(self.active(label))
        if recorded:
            self.moves[label] += 1
        if recorded and self.moves[label] % (1 + self.lead) == 0:
            arm = min(self.active(label), key=lambda each: self.turn_counts[label][each])
            self.turn_counts[label][arm] += 1
        else:
            drawn, arm = self.base.draw(self.allowed(), uniform)
            self.told += drawn != arm
            self.base.learn(drawn, row[arm] if drawn == arm else 0.0)
        if recorded:
            self.rewards[label][arm].append(row[arm])
            for user in range(label, -1, -1):
                if arm in self.active(user):
                    self.look(user, arm)
        return (label if recorded else None), arm
