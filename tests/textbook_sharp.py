"""The sharp race as its theory page describes it: all rewards kept for every end."""

import math

from armrace.policies.common.divergence import upper_kl
from armrace.policies.races.textbook import TextbookRace
from armrace.theory import corruption_allowance


class TextbookSharpRace(TextbookRace):
    """Pooled layers, Jeffreys' mixture, a leader; an interval is refreshed now and then only."""

    def __init__(self, arms, horizon, delta, lead, first):
        layers = 1
        while first * 2 ** (layers - 1) < horizon:
            layers += 1
        share = [2.0**-number for number in range(1, layers + 1)]
        share[0] = 1 - sum(share[1:])
        super().__init__(arms, share, None)
        self.lead = lead
        self.rewards = [[[] for _ in range(arms)] for _ in range(layers)]
        self.ends = [[(-math.inf, math.inf)] * arms for _ in range(layers)]
        self.looked_at = [[0] * arms for _ in range(layers)]
        self.best_means = [[None] * arms for _ in range(layers)]
        self.turns = [0] * layers
        self.leads = [0] * layers
        self.failure = [delta / 3 / (number * (number + 1)) for number in range(1, layers + 1)]
        self.allowances = [
            corruption_allowance(
                first * 2**layer * sum(share[layer:]), -math.log(self.failure[layer])
            )
            for layer in range(layers)
        ]

    def leader(self, layer):
        known = [arm for arm in self.active(layer) if self.best_means[layer][arm] is not None]
        return max(known, key=lambda arm: self.best_means[layer][arm]) if known else None

    def choose(self, layer):
        if not self.active(layer):
            return super().choose(layer)
        if self.leads[layer] > 0 and self.leader(layer) is not None:
            return self.leader(layer)
        arm = self.turns[layer]
        while arm not in self.active(layer):
            arm = (arm + 1) % self.arms
        return arm

    def play(self, layer, rewards):
        arm = self.choose(layer)
        if not self.active(layer):
            return arm
        if self.leads[layer] > 0:
            self.leads[layer] -= 1
        else:
            self.leads[layer] = self.lead
            self.turns[layer] = (arm + 1) % self.arms
        own = self.rewards[layer][arm]
        own.append(rewards[arm])
        self.pulls[layer][arm] = len(own)
        self.means[layer][arm] = sum(own) / len(own)
        for user in range(layer, -1, -1):
            if arm in self.active(user):
                self.look(user, arm)
        return arm

    def look(self, layer, arm):
        seen = [x for rewards in self.rewards[layer:] for x in rewards[arm]]
        count = len(seen)
        last = self.looked_at[layer][arm]
        if last > 0 and count - last <= last // 128:
            return
        self.looked_at[layer][arm] = count
        mean, shift = sum(seen) / count, self.allowances[layer] / count
        extra = math.log(math.pi * (count + 0.5)) / 2
        half = self.failure[layer] / 2
        self.ends[layer][arm] = (
            1 - upper_kl(1 - max(0, mean - shift), (extra - math.log(half / self.arms)) / count),
            upper_kl(min(1, mean + shift), (extra - math.log(half)) / count),
        )
        self.best_means[layer][arm] = mean
        best = max(self.ends[layer][a][0] for a in self.active(layer))
        for victim in [a for a in self.active(layer) if self.ends[layer][a][1] < best]:
            for faster in range(layer + 1):
                self.inactive[faster].add(victim)
