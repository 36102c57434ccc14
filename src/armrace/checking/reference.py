"""A reference implementation of the protocol in slow, plain Python, for comparison.

It shares with the compiled engine only the functions of policy and adversary, which run
interpreted, and the random numbers. The engine must agree with it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.kernels.generics import (
    NO_LAYER,
    corrupt,
    decide,
    distribution,
    learn,
    observe,
)
from armrace.kernels.laws import rewards_between
from armrace.randomness import Purpose, reward_place, stream_for
from armrace.simulation.experiment import Experiment

__all__ = ["ReferenceRun", "run_reference"]

Floats = npt.NDArray[np.float64]


@dataclass
class ReferenceRun:
    """A record of every round of a run."""

    clean: list[Floats] = field(default_factory=list)
    proposed: list[Floats] = field(default_factory=list)
    """The rewards as the attack left them, whether or not they could be applied."""
    paid: list[Floats] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    arms: list[int] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    spent: float = 0.0
    """What the attack was charged."""
    seen: list[float] = field(default_factory=list)
    """The change of the reward that the learner saw."""
    state: Any = None

    def regret(self) -> float:
        """Return the best arm's total of the rewards paid out, minus what was collected of them."""
        return _best_minus_collected(self.paid, self.arms)

    def clean_regret(self) -> float:
        """Return the same on the rewards before corruption."""
        return _best_minus_collected(self.clean, self.arms)

    def pseudo_regret(self, means: Floats) -> float:
        """Return the sum of the gaps of the arms played.

        Args:
            means: the mean reward of every arm.
        """
        return float(sum(means.max() - means[arm] for arm in self.arms))

    def corruption(self) -> float:
        """Return the sum over rounds of the largest change."""
        return float(np.abs(np.array(self.paid) - np.array(self.clean)).max(axis=1).sum())

    def arm_corruption(self) -> Floats:
        """Return the corruption of each arm's rewards."""
        return np.asarray(np.abs(np.array(self.paid) - np.array(self.clean)).sum(axis=0))

    def layer_corruption(self, layers: int) -> Floats:
        """Return the corruption in what each layer learned from.

        Args:
            layers: the number of layers.
        """
        seen = np.zeros(layers)
        for change, layer in zip(self.seen, self.layers, strict=True):
            if layer != NO_LAYER:
                seen[layer] += change
        return seen


def _best_minus_collected(rewards: list[Floats], arms: list[int]) -> float:
    table = np.array(rewards)
    collected = sum(row[arm] for row, arm in zip(table, arms, strict=True))
    return float(table.sum(axis=0).max() - collected)


def run_reference(experiment: Experiment, replication: int = 0) -> ReferenceRun:
    """Play one replication of ``experiment``, step by step as the protocol says.

    Args:
        experiment: what to play.
        replication: the number of the replication, from 0.

    Returns:
        A record of every round.
    """
    law = experiment.environment.law()
    law.place[:] = reward_place(experiment.seed, replication)
    arms = law.kind.size
    learner = stream_for(experiment.seed, Purpose.LEARNER, replication)
    attacker = stream_for(experiment.seed, Purpose.ADVERSARY, replication)
    policy = experiment.policy.start(arms, experiment.horizon)
    setting = experiment.setting()
    adversary = experiment.adversary.start(setting)
    least = experiment.adversary.smallest_cost(adversary, setting)
    run, sees_arm = ReferenceRun(state=policy), experiment.account == "seen"
    rewards = rewards_between(law, 0, experiment.horizon)
    for number in range(experiment.horizon):
        # 1. The learner fixes its distribution.
        weights = np.zeros(arms)
        distribution(policy, weights)
        # 2. Every arm has a stochastic reward.
        clean = rewards[number]
        # 3. The adversary, which sees both and the past, changes the rewards.
        paid = proposed = clean.copy()
        left = experiment.budget - run.spent
        if sees_arm and left < least:
            left = 0.0  # nothing that it does could be paid for any more
        if left > 0:
            # Copies, so that an attack which writes to what it is shown changes nothing here.
            shown = weights if experiment.adversary.sees_weights else np.zeros(arms)
            corrupt(adversary, number, shown.copy(), proposed, left, attacker)
            paid = proposed.copy()
            cost = float(np.abs(paid - clean).max())
            legal = bool(np.all((paid >= 0) & (paid <= 1)))
            if not legal or (not sees_arm and run.spent + cost > experiment.budget):
                paid = clean.copy()
            elif not sees_arm:
                run.spent += cost
        # 4. The arm is drawn, and only its corrupted reward is seen.
        ticket = decide(policy, learner)
        reward, change = float(paid[ticket.arm]), float(abs(paid - clean)[ticket.arm])
        if sees_arm:  # an attack that sees the arm before it answers pays for that arm alone
            if run.spent + change > experiment.budget:
                paid = clean.copy()
                reward, change = float(clean[ticket.arm]), 0.0
            run.spent += change
        run.seen.append(change)
        learn(policy, ticket, reward)
        if left > 0:
            observe(adversary, number, ticket.arm, reward)
        run.clean.append(clean)
        run.proposed.append(proposed)
        run.paid.append(paid)
        run.weights.append(weights)
        run.arms.append(int(ticket.arm))
        run.layers.append(int(ticket.layer))
    return run
