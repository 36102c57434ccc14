"""What the age of weights costs: regret when decisions are drawn by weights of a while ago.

A lease of ``visits`` decisions is drawn with the weights of its beginning, and its rewards are
learned when it ends. The same delay of a batch is what any policy pays that learns in batches:
Thompson sampling, which draws each decision by itself, is shown beside it.

Run as ``python -m docs.experiments.lease_age [RUNS]``; prints the table of the guide.
"""

from __future__ import annotations

import sys

import numpy as np

from armrace.kernels.generics import Ticket
from armrace.learner import Learner
from armrace_client.leases import integer_weights

__all__ = ["regret_of_batches", "regret_of_leases"]

MEANS = (0.5, 0.4)
HORIZON = 100_000
VISITS = (1, 10, 100, 1000, 10_000)


def regret_of_leases(policy: str, visits: int, seed: int, horizon: int = HORIZON) -> float:
    """Return the pseudo-regret of decisions that are drawn under leases.

    Args:
        policy: a policy that draws by weights.
        visits: how many decisions are drawn under each lease.
        seed: the seed of draws and rewards.
        horizon: the number of decisions.
    """
    rng, learner = (
        np.random.default_rng(seed),
        Learner(policy, len(MEANS), horizon, seed, log=False),
    )
    lost, means = 0.0, np.array(MEANS)
    for first in range(0, horizon, visits):
        count = min(visits, horizon - first)
        weights = np.array(integer_weights(learner.weights().tolist())) / 2**32
        arms = rng.choice(len(MEANS), count, p=weights)
        tickets = [Ticket(int(arm), probability=float(weights[arm])) for arm in arms]
        made = [learner.recount(ticket, replays=False) for ticket in tickets]
        rewards = (rng.random(count) < means[arms]).astype(float).tolist()
        for decision, reward in zip(made, rewards, strict=True):
            learner.learn(decision, reward)
        lost += float((means.max() - means[arms]).sum())
    return lost


def regret_of_batches(policy: str, visits: int, seed: int, horizon: int = HORIZON) -> float:
    """Return the pseudo-regret of decisions whose rewards are learned in batches.

    Args:
        policy: the policy.
        visits: how many decisions are made between two batches of rewards.
        seed: the seed of decisions and rewards.
        horizon: the number of decisions.
    """
    rng, learner = (
        np.random.default_rng(seed),
        Learner(policy, len(MEANS), horizon, seed, log=False),
    )
    lost, means = 0.0, np.array(MEANS)
    for first in range(0, horizon, visits):
        made = learner.decide_many(min(visits, horizon - first))
        arms = made.records["arm"]
        learner.learn_many(made, (rng.random(len(made)) < means[arms]).astype(float))
        lost += float((means.max() - means[arms]).sum())
    return lost


def main() -> None:
    """Print mean and standard error of each case."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rows = (
        ("optimistic-log-barrier, leases", regret_of_leases, "optimistic-log-barrier"),
        ("optimistic-log-barrier, batches", regret_of_batches, "optimistic-log-barrier"),
        ("tsallis-inf, leases", regret_of_leases, "tsallis-inf"),
        ("thompson, batches", regret_of_batches, "thompson"),
    )
    print("| |", " | ".join(f"{visits:,}" for visits in VISITS), "|")
    for name, play, policy in rows:
        cells = []
        for visits in VISITS:
            lost = [play(policy, visits, seed) for seed in range(runs)]
            error = np.std(lost, ddof=1) / np.sqrt(runs)
            cells.append(f"{np.mean(lost):.0f} ± {error:.0f}")
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
