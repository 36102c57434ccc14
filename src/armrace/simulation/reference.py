"""A reference implementation of the protocol in slow, plain Python, for comparison.

It shares with the compiled engine only the functions of policy and adversary, which run
interpreted, and the random numbers. The engine must agree with it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.kernels.crowds import context_of
from armrace.kernels.generics import (
    NO_LAYER,
    Scene,
    corrupt,
    decide,
    distribution,
    learn,
    observe,
)
from armrace.kernels.laws import rewards_between, visitors_between
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import Parts, make_parts

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
    visitors: list[int] = field(default_factory=list)
    """Who came, where visitors differ."""
    spent: float = 0.0
    """What the attack was charged."""
    refused: int = 0
    """Rounds in which a change was not applied."""
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

    def accounts(self, layers: int) -> dict[str, Any]:
        """Return what each account of the ledger grew by, under its name there.

        Args:
            layers: the number of layers.
        """
        clean, paid, arms = np.array(self.clean), np.array(self.paid), np.array(self.arms)
        rows = np.arange(len(arms))
        return {
            "pulls": np.bincount(arms, minlength=clean.shape[1]),
            "clean_totals": clean.sum(axis=0),
            "shifts": (paid - clean).sum(axis=0),
            "arm_corruption": self.arm_corruption(),
            "layer_corruption": self.layer_corruption(layers),
            "collected": [paid[rows, arms].sum(), clean[rows, arms].sum()],
            "charged": [self.spent, 0.0],
            "corruption": [self.corruption()],
            "seen": [sum(self.seen)],
            "refused": [self.refused],
        }


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
    return play_reference(experiment, make_parts(experiment, replication), 0, experiment.horizon)


def play_reference(experiment: Experiment, parts: Parts, first: int, last: int) -> ReferenceRun:
    """Play the rounds from ``first`` up to, not including, ``last``, as the protocol says."""
    policy, adversary = parts.policy, parts.adversary
    arms, sees_arm = parts.law.kind.size, experiment.account == "seen"
    run, budget = ReferenceRun(state=policy), experiment.budget - float(parts.ledger.charged[0])
    rewards = rewards_between(parts.law, first, last)
    visitors = visitors_between(parts.law, first, last)
    for number, clean in enumerate(rewards, start=first):
        # 1. A visitor comes, and the learner fixes its distribution.
        context, scene = None, None
        if parts.crowd is not None:
            visitor = int(visitors[number - first])
            run.visitors.append(visitor)
            context = context_of(parts.crowd, visitor)
            scene = Scene(parts.crowd.means[visitor], context.vector)
        weights = np.zeros(arms)
        distribution(policy, weights, context)
        # 2. Every arm has a stochastic reward.
        # 3. The adversary, which sees both and the past, changes the rewards.
        paid = proposed = clean.copy()
        left = budget - run.spent
        if sees_arm and left < parts.smallest_cost:
            left = 0.0  # nothing that it does could be paid for any more
        if left > 0:
            # Copies, so that an attack which writes to what it is shown changes nothing here.
            shown = weights if experiment.adversary.sees_weights else np.zeros(arms)
            stream = parts.adversary_stream
            corrupt(adversary, number, shown.copy(), proposed, left, stream, scene)
            paid = proposed.copy()
            cost = float(np.abs(paid - clean).max())
            low, high = parts.rewards
            legal = bool(np.all((paid >= low) & (paid <= high)))
            if not legal or (not sees_arm and run.spent + cost > budget):
                run.refused += 1
                paid = clean.copy()
            elif not sees_arm:
                run.spent += cost
        # 4. The arm is drawn, and only its corrupted reward is seen.
        ticket = decide(policy, parts.learner_stream, context)
        reward, change = float(paid[ticket.arm]), float(abs(paid - clean)[ticket.arm])
        if sees_arm:  # an attack that sees the arm before it answers pays for that arm alone
            if run.spent + change > budget:
                run.refused += 1
                paid = clean.copy()
                reward, change = float(clean[ticket.arm]), 0.0
            run.spent += change
        run.seen.append(change)
        learn(policy, ticket, reward, context)
        if left > 0:
            observe(adversary, number, ticket.arm, reward)
        run.clean.append(clean)
        run.proposed.append(proposed)
        run.paid.append(paid)
        run.weights.append(weights)
        run.arms.append(int(ticket.arm))
        run.layers.append(int(ticket.layer))
    return run
