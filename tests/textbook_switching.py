"""SAO, SAPO and the EXP3.P they switch to, as printed: sets and plain loops, no shortcuts."""

import math


def draw(weights, level):
    passed = 0.0
    for arm, weight in enumerate(weights):
        passed += weight
        if level < passed:
            return arm
    return len(weights) - 1


class TextbookExp3P:
    """Figure 3.1 of Bubeck and Cesa-Bianchi (2012), with gains."""

    def __init__(self, arms, horizon, log_confidence):
        self.arms = arms
        self.beta = math.sqrt(log_confidence / (horizon * arms))
        self.eta = 0.95 * math.sqrt(math.log(arms) / (horizon * arms))
        self.gamma = min(1.0, 1.05 * math.sqrt(arms * math.log(arms) / horizon))
        self.gains = [0.0] * arms

    def weights(self):
        top = max(self.gains)
        raw = [math.exp(self.eta * (gain - top)) for gain in self.gains]
        return [(1 - self.gamma) * w / sum(raw) + self.gamma / self.arms for w in raw]

    def learn(self, arm, weights, reward):
        for i, weight in enumerate(weights):
            self.gains[i] += (reward * (i == arm) + self.beta) / weight


class TextbookSao:
    """Algorithm 1 of Bubeck and Slivkins (2012)."""

    def __init__(self, arms, horizon, delta):
        self.arms, self.horizon = arms, horizon
        self.log_beta = math.log(10 * arms * horizon**3 / delta)
        self.active = set(range(arms))
        self.tau, self.q = [horizon] * arms, [0.0] * arms
        self.p = [1 / arms] * arms
        self.weighted, self.plain, self.n = [0.0] * arms, [0.0] * arms, [0] * arms
        self.t, self.switched_at, self.exp3p = 0, None, None

    def width(self, rounds):
        ratio = self.arms * self.log_beta / rounds
        return math.sqrt(4 * ratio + 5 * ratio**2)

    def weights(self):
        return self.exp3p.weights() if self.exp3p else self.p

    def update(self, arm, reward):
        if self.exp3p:
            self.exp3p.learn(arm, self.exp3p.weights(), reward)
            return
        self.t += 1
        self.weighted[arm] += reward / self.p[arm]
        self.plain[arm] += reward
        self.n[arm] += 1
        flagged = False
        for i in range(self.arms):
            if i in self.active and self.gap(i) > 6 * self.width(self.t):
                self.active.remove(i)
                self.tau[i], self.q[i] = self.t, self.p[i]
            flagged = flagged or self.is_suspicious(i)
        if flagged:
            self.switched_at = self.t
            self.exp3p = TextbookExp3P(self.arms, self.horizon - self.t, self.log_beta)
            return
        for i in set(range(self.arms)) - self.active:
            self.p[i] = self.q[i] * self.tau[i] / (self.t + 1)
        rest = 1 - sum(self.p[i] for i in range(self.arms) if i not in self.active)
        for i in self.active:
            self.p[i] = rest / len(self.active)

    def gap(self, i):
        return max(self.weighted[j] / self.t for j in self.active) - self.weighted[i] / self.t

    def is_suspicious(self, i):
        t, log_beta = self.t, self.log_beta
        star = min(self.tau[i], t)
        late = (t - star) / (self.q[i] * self.tau[i] * t) if i not in self.active else 0.0
        if self.n[i]:
            room = math.sqrt(2 * log_beta / self.n[i]) + math.sqrt(
                4 * (self.arms * star / t**2 + late) * log_beta
                + 5 * (self.arms * log_beta / star) ** 2
            )
            if abs(self.weighted[i] / t - self.plain[i] / self.n[i]) > room:
                return True
        if i in self.active:
            return False
        if self.tau[i] >= 2 and self.gap(i) > 10 * self.width(self.tau[i] - 1):
            return True
        return self.gap(i) <= 2 * self.width(self.tau[i])


class TextbookSapo:
    """The successor of SAPO of 2025 at zero delay."""

    def __init__(self, arms, horizon, scale):
        self.arms, self.horizon, self.scale = arms, horizon, scale
        self.log = math.log(horizon)
        self.active = set(range(arms))
        self.p = [1 / arms] * arms
        self.n, self.losses, self.weighted = [0] * arms, [0.0] * arms, [0.0] * arms
        self.lower, self.upper = [0.0] * arms, [1.0] * arms
        self.phase = {}
        self.errors = 0
        self.t, self.total, self.switched_at, self.exp3p = 0, 0.0, None, None

    def weights(self):
        return self.exp3p.weights() if self.exp3p else self.p

    def mean(self, i):
        return self.losses[i] / self.n[i]

    def width(self, i):
        return min(1.0, math.sqrt(2 * self.log / self.n[i])) if self.n[i] else 1.0

    def update(self, arm, reward, remaining=None):
        if self.exp3p:
            self.exp3p.learn(arm, self.exp3p.weights(), reward)
            return
        loss = 1 - reward
        weighted = loss / self.p[arm]
        self.t += 1
        self.total += loss
        self.n[arm] += 1
        self.losses[arm] += loss
        self.weighted[arm] += weighted
        self.narrow(arm, self.mean(arm), self.width(arm))
        if self.is_contradicted() or self.regret() > self.largest_regret():
            self.switch(remaining)
            return
        failed = self.continue_phases(arm, weighted)
        self.eliminate()
        if failed or not self.active:
            self.switch(remaining)
            return
        for i in self.phase:
            self.p[i] = self.phase[i]["p"]
        for i in self.active:
            self.p[i] = (1 - sum(phase["p"] for phase in self.phase.values())) / len(self.active)

    def largest_regret(self):
        return 272 * self.scale * math.sqrt(self.arms * self.horizon * self.log)

    def narrow(self, i, mean, width):
        self.lower[i] = max(self.lower[i], mean - width)
        self.upper[i] = min(self.upper[i], mean + width)

    def regret(self):
        return self.total - self.t * min(self.upper)

    def is_contradicted(self):
        width = math.sqrt(2 * self.arms * self.log / self.t)
        if width >= 1:
            return False
        for i in self.active:
            self.narrow(i, self.weighted[i] / self.t, width)
        return any(
            not self.lower[i] - width <= self.weighted[i] / self.t <= self.upper[i] + width
            for i in self.active
        )

    def continue_phases(self, arm, weighted):
        failed = False
        for i, phase in self.phase.items():
            phase["s"] += 1
            phase["L"] += weighted * (i == arm)
            if phase["s"] * phase["mean"] - phase["L"] >= phase["gap"] * phase["N"] / 4:
                phase["E"] += 1
                self.errors += 1
                phase["N"] = max(phase["N1"], phase["N"] / 2)
                phase["p"] = min(phase["p1"], 2 * phase["p"])
                phase["s"], phase["L"] = 0, 0.0
                failed = failed or phase["E"] >= 3 * self.log
            elif phase["s"] == math.floor(phase["N"]):
                phase["N"] *= 2
                phase["p"] /= 2
                phase["s"], phase["L"] = 0, 0.0
        return failed

    def eliminate(self):
        least = min(self.upper)
        for i in sorted(self.active):
            if self.n[i] and self.mean(i) - (1 + 8 * self.scale) * self.width(i) > least:
                self.active.remove(i)
                p = 1 / (2 * self.arms) + self.n[i] / (2 * self.horizon)
                gap = 8 * self.scale * self.width(i)
                length = 1280 * self.scale / (p * gap**2)
                first = {"p1": p, "p": p, "N1": length, "N": length}
                self.phase[i] = first | {"gap": gap, "mean": self.mean(i), "E": 0, "s": 0, "L": 0.0}

    def switch(self, remaining):
        self.switched_at = self.t
        left = self.horizon - self.t if remaining is None else remaining
        self.exp3p = TextbookExp3P(self.arms, max(1.0, left), math.log(self.arms))
