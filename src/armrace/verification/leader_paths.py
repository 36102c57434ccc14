"""Sample paths of a leader: what it published, drew and estimated in each round of a run.

Leaders run by the compiled functions of live traffic. The losses of every arm are known, and an
adversary that sees the published probabilities fixes them before the arm is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.policies import Policy
from armrace.verification.mechanics import OpenLearner

Floats = npt.NDArray[np.float64]

MEANS = (0.6, 0.4, 0.45)
"""Mean rewards of the arms before corruption."""
_LIKELY = 0.3
_BUDGET = 1 / 25
"""Rounds that the adversary corrupts, as a part of all."""


class Reading(NamedTuple):
    """The problem that a leader solves for its next decision, from its running state."""

    estimated: Floats
    """Estimated losses."""
    predictions: Floats
    """Predicted losses of the next round; 0 where there are none."""
    optimism: Floats
    """What is subtracted from the estimated losses; 0 where nothing is."""
    scales: Floats
    """The scales of the regulariser; for a learning rate, its reciprocal."""
    spreads: Floats
    """Expected squared errors of the predictions, by which the optimism grows; 0 without."""


Reader = Callable[[Any], Reading]
"""Reads the running state of a leader."""


class Path(NamedTuple):
    """All that a proof speaks of, a row for each round."""

    weights: Floats
    """The published probabilities."""
    losses: Floats
    """The losses of all arms, after corruption."""
    played: npt.NDArray[np.bool_]
    stated: Floats
    """The probability of the arm, as its decision states it; one number for each round."""
    before: Reading
    """The problem that the published probabilities solve."""
    after: Reading
    """The problem of the round after the last one of the path; one row."""
    updates: Floats
    """What the round added to the estimated losses."""

    @property
    def arms(self) -> npt.NDArray[np.int64]:
        """The arm that was played in each round."""
        return np.asarray(self.played.argmax(axis=1))

    @property
    def errors(self) -> Floats:
        """The loss of the arm played, minus its prediction."""
        return np.asarray((self.losses - self.before.predictions)[self.played])

    @property
    def shares(self) -> Floats:
        """``e (1 - p)`` for the arm played and ``-e p`` for the others, with its error ``e``."""
        return np.asarray(self.errors[:, None] * (self.played - self.weights))

    @property
    def optimism_steps(self) -> Floats:
        """How much the optimism grew in each round, times the probability of the arm."""
        optimism = np.vstack([self.before.optimism, self.after.optimism])
        return np.asarray(np.diff(optimism, axis=0) * self.weights)


def walk(policy: Policy, read: Reader, rounds: int, seed: int) -> Path:
    """Play a leader under an adversary that swaps two arms while the best is likely."""
    means, arms = np.array(MEANS), len(MEANS)
    learner = OpenLearner(policy, arms=arms, horizon=rounds, seed=seed, log=False)
    state = getattr(learner.state, "leader", learner.state)  # of one that wraps a leader
    losses = (np.random.default_rng(seed).random((rounds, arms)) >= means).astype(np.float64)
    weights, updates = np.empty((rounds, arms)), np.empty((rounds, arms))
    played, stated = np.zeros((rounds, arms), dtype=np.bool_), np.empty(rounds)
    readings, budget = [], int(rounds * _BUDGET)
    following = _copied(read(state))
    for number in range(rounds):
        weights[number] = learner.weights()
        lost = losses[number]
        if budget > 0 and weights[number, 0] > _LIKELY and lost[0] < lost[1]:
            lost[0], lost[1] = lost[1], lost[0]
            budget -= 1
        readings.append(following)
        decision = learner.decide()
        arm = decision.ticket.arm
        learner.learn(decision, 1 - lost[arm])
        following = _copied(read(state))
        updates[number] = following.estimated - readings[-1].estimated
        played[number, arm], stated[number] = True, decision.ticket.probability
    before = Reading(*(np.array(column) for column in zip(*readings, strict=True)))
    return Path(weights, losses, played, stated, before, following, updates)


def _copied(reading: Reading) -> Reading:
    """Return a reading that stays as it is while the leader plays on."""
    return Reading(*(np.array(values) for values in reading))


def replay(path: Path, prescribed: Any, rounds: Container[int]) -> Floats:
    """Return the probabilities that a second implementation gives for the same plays.

    It learns in every round, and solves for the probabilities in some, which takes long.
    """
    found = []
    rewards = 1 - path.losses[path.played]
    plays = zip(path.arms, path.weights, rewards, strict=True)
    # A broken leader may publish 0, by which the second implementation then divides.
    with np.errstate(all="ignore"):
        for number, (arm, weights, reward) in enumerate(plays):
            if number in rounds:
                found.append(prescribed.weights())
            prescribed.learn(int(arm), weights, float(reward))
    return np.array(found)
