"""Replay as the definition says it, row by row, on the public learner; and logs of known truth."""

from typing import NamedTuple

import numpy as np
import polars as pl

from armrace.contexts import Schema
from armrace.kernels.streams import uniform
from armrace.learner import Learner
from armrace.randomness import Purpose, stream_for

COLUMNS = {"arm": "arm", "reward": "reward", "propensity": "propensity"}
FEATURES = {
    "device": {"type": "category", "values": ["ios", "android"]},
    "age": {"type": "number", "low": 20, "high": 60},
    "member": {"type": "boolean"},
}
SCHEMA = Schema.declare(FEATURES, {"device": True, "age": [40]})
DEVICES = {"ios": 0, "android": 1, "web": 2}
"""The arm that pays 0.6 for each device; the others pay 0.3."""


def make_visits(rows, seed=0):
    """A log of three arms, shown with unequal probabilities to visitors who differ."""
    generator = np.random.default_rng(seed)
    devices = generator.choice(list(DEVICES), rows)
    probabilities = np.array([0.5, 0.2, 0.3])
    arms = generator.choice(3, size=rows, p=probabilities)
    best = np.array([DEVICES[device] for device in devices])
    return pl.DataFrame(
        {
            "arm": arms,
            "reward": (generator.random(rows) < np.where(arms == best, 0.6, 0.3)).astype(float),
            "propensity": probabilities[arms],
            "device": devices,
            "age": generator.uniform(10, 70, rows).round(2),
            "member": generator.random(rows) < 0.5,
        }
    )


class Truth(NamedTuple):
    """What a run of the reference finds, and what it should find, since the means are known."""

    accepted: int
    replayed: float
    weighted: float
    self_normalised: float
    doubly_robust: float
    pulls: np.ndarray
    value: float
    """The mean over rows of the expected reward of the policy's distribution at that row."""


def make_log(rows, means, logging=None, seed=0):
    """A log of Bernoulli arms, drawn with the probabilities ``logging``."""
    generator = np.random.default_rng(seed)
    probabilities = np.full(len(means), 1 / len(means)) if logging is None else np.array(logging)
    arms = generator.choice(len(means), size=rows, p=probabilities)
    rewards = (generator.random(rows) < np.array(means)[arms]).astype(float)
    return pl.DataFrame({"arm": arms, "reward": rewards, "propensity": probabilities[arms]})


def replay_by_hand(log, policy, arms, horizon, means, floor=None, seed=0):
    """Replay a log with ``choose``, ``assign``, ``learn`` and ``distribution`` of a learner."""
    learner = Learner(policy, arms=arms, horizon=horizon, seed=seed, log=False)
    coins = stream_for(seed, Purpose.ACCEPTANCE, 0)
    least = float(log["propensity"].min()) if floor is None else floor
    counts, sums, logged = np.zeros(arms), np.zeros(arms), 0.0
    pulls, estimates = np.zeros(arms, dtype=int), np.zeros(arms)
    paid, weights, doubly, value = [], [], [], []
    fresh, collected = True, []
    for number, (arm, reward, propensity) in enumerate(
        log.select("arm", "reward", "propensity").iter_rows()
    ):
        shares = np.array(list(learner.distribution().values()))
        if fresh:
            usual = (logged + 0.5) / (number + 1)
            estimates, fresh = (sums + usual) / (counts + 1), False
        weight = shares[arm] / max(propensity, least)
        weights.append(weight)
        paid.append(weight * reward)
        doubly.append(shares @ estimates + weight * (reward - estimates[arm]))
        value.append(shares @ np.array(means))
        ticket = learner.choose()
        if ticket.arm == arm and (propensity <= least or uniform(coins) * propensity < least):
            learner.learn(learner.assign(ticket), reward)
            pulls[arm] += 1
            collected.append(reward)
            fresh = True
        counts[arm] += 1
        sums[arm] += reward
        logged += reward
        estimates[arm] += (reward - estimates[arm]) / (counts[arm] + 1)
    return Truth(
        len(collected),
        float(np.mean(collected)),
        float(np.mean(paid)),
        float(np.sum(paid) / np.sum(weights)),
        float(np.mean(doubly)),
        pulls,
        float(np.mean(value)),
    )
