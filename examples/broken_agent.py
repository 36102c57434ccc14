"""A policy-gradient agent in NumPy, and the attack that the red team finds against it.

The agent is a plain Python object that is called once a round; one of PyTorch, or one that asks a
language model, has the same three methods.
"""

from __future__ import annotations

import numpy as np

import armrace
from armrace.agents import PythonAgent

SETTING = {"environment": [0.7, 0.5, 0.4], "horizon": 2000, "seed": 1}
BUDGET = 20


class PolicyGradient:
    """REINFORCE with a baseline: softmax preferences that follow the gradient of the reward."""

    RATE = 1.0

    def __init__(self, arms: int, horizon: int, seed: int) -> None:
        self.preferences = np.zeros(arms)
        self.baseline, self.rounds = 0.0, 0
        self.generator = np.random.default_rng(seed)

    def probabilities(self) -> np.ndarray:
        """Return the softmax of the preferences. The attack sees it, as a strong attacker may."""
        weights = np.exp(self.preferences - self.preferences.max())
        return weights / weights.sum()

    def choose(self) -> int:
        """Draw an arm."""
        level = self.generator.random()
        return min(int((self.probabilities().cumsum() < level).sum()), self.preferences.size - 1)

    def learn(self, arm: int, reward: float) -> None:
        """Follow the gradient of what the arm paid, over the average so far."""
        direction = -self.probabilities()
        direction[arm] += 1.0
        self.preferences += self.RATE * (reward - self.baseline) * direction
        self.rounds += 1
        self.baseline += (reward - self.baseline) / self.rounds


def main() -> None:
    """Play the agent honestly, under noise, and under the worst attack that a search finds."""
    agent = PythonAgent(agent=PolicyGradient)
    honest = armrace.simulate(agent, replications=20, **SETTING)
    noise = armrace.simulate(
        agent, adversary="random-flips", budget=BUDGET, replications=20, **SETTING
    )
    print(f"no attack: {honest.figure('pseudo_regret').mean:.0f} lost of 600")
    print(f"{BUDGET} rewards forged at random: {noise.figure('pseudo_regret').mean:.0f}")
    verdict = armrace.redteam(agent, budget=BUDGET, effort="few", **SETTING)
    print(f"the worst attack found, for {verdict.held_out.spent:.0f}: {verdict.held_out.mean:.0f}")
    print(verdict.description)
    guarded = armrace.simulate(
        "optimistic-log-barrier",
        adversary=verdict.attack,
        budget=BUDGET,
        replications=20,
        **SETTING,
    )
    print(f"optimistic-log-barrier there: {guarded.figure('pseudo_regret').mean:.0f}")


if __name__ == "__main__":
    main()
