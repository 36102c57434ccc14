"""What policies lose where the model does not hold: means that move, rewards that come late.

``python docs/experiments/moving_means.py`` prints the tables of the page on moving means;
``--quick`` plays fewer and shorter runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

import armrace
from armrace.extending import assign, choose, learn
from armrace.learner import Learner
from armrace.randomness import Purpose, stream_for

HORIZON, QUICK_HORIZON = 100_000, 10_000
RUNS, QUICK_RUNS = 100, 3
AUDITS = 100
"""How often the learner that starts afresh is audited."""
GOOD, BAD = 0.6, 0.4
POLICIES = (
    "optimistic-log-barrier",
    "thompson",
    "tsallis-inf",
    "lb-inf",
    "sharp-race",
    "ucb1",
    "kl-ucb",
    "exp3",
)

Floats = np.ndarray


def changed_at(part: float) -> Callable[[int], Floats]:
    """Means of two arms that change places once, after a part of the rounds."""

    def means(horizon: int) -> Floats:
        first = np.arange(horizon) < part * horizon
        return np.where(first[:, None], [GOOD, BAD], [BAD, GOOD])

    return means


def crossing(horizon: int) -> Floats:
    """Means that change places little by little, over the whole time."""
    part = np.linspace(0.0, 1.0, horizon)
    return np.stack([GOOD + (BAD - GOOD) * part, BAD + (GOOD - BAD) * part], axis=1)


def season(horizon: int) -> Floats:
    """Means that go up and down like a wave, ten times."""
    wave = 0.5 * (GOOD - BAD) * np.sin(20 * math.pi * np.arange(horizon) / horizon)
    middle = 0.5 * (GOOD + BAD)
    return np.stack([middle + wave, middle - wave], axis=1)


class World(NamedTuple):
    """Means in each round, and how many rounds later rewards come, singly or in batches."""

    means: Callable[[int], Floats]
    delay: int = 0
    batch: int = 1


WORLDS = {
    "still": World(changed_at(1.0)),
    "change at T/10": World(changed_at(0.1)),
    "change at T/2": World(changed_at(0.5)),
    "slow crossing": World(crossing),
    "season": World(season),
    "delay of 1,000": World(changed_at(1.0), delay=1000),
    "batches of 1,000": World(changed_at(1.0), batch=1000),
}


@numba.njit
def lost(state, stream, means, coins, delay, batch):  # type: ignore[no-untyped-def]
    """What a policy loses against the best arm of each round."""
    rounds = means.shape[0]
    tickets = [choose(state, stream, None)]
    tickets.clear()
    total, learned = 0.0, 0
    for number in range(rounds):
        ticket = assign(state, choose(state, stream, None))
        tickets.append(ticket)
        total += np.max(means[number]) - means[number, ticket.arm]
        if (number + 1) % batch == 0:
            while learned <= number - delay:
                arm = tickets[learned].arm
                learn(state, tickets[learned], 1.0 * (coins[learned] < means[learned, arm]))
                learned += 1
    return total


def lost_by(policy: str, world: World, horizon: int, runs: int) -> Floats:
    """The loss of each run."""
    found = []
    for run in range(runs):
        state = armrace.POLICIES.make(policy).start(2, horizon)
        coins = np.random.default_rng((run, 1)).random(horizon)
        stream = stream_for(run, Purpose.LEARNER, 0)
        found.append(lost(state, stream, world.means(horizon), coins, world.delay, world.batch))
    return np.array(found)


def lost_afresh(policy: str, world: World, horizon: int, runs: int) -> Floats:
    """The loss of a learner that is audited now and then, and starts afresh at an alarm."""
    found = []
    for run in range(runs):
        means, coins = world.means(horizon), np.random.default_rng((run, 1)).random(horizon)
        learner = Learner(policy, arms=2, horizon=horizon, seed=run, log=False)
        total = 0.0
        for number in range(horizon):
            decision = learner.decide()
            arm = decision.ticket.arm
            total += means[number].max() - means[number, arm]
            learner.learn(decision, float(coins[number] < means[number, arm]))
            if (number + 1) % (horizon // AUDITS) == 0 and learner.audit(level=0.05).alarms:
                learner = Learner(policy, arms=2, horizon=horizon, seed=run + number, log=False)
        found.append(total)
    return np.array(found)


def cell(losses: Floats) -> str:
    """A mean with its standard error."""
    return f"{losses.mean():,.0f} ± {losses.std(ddof=1) / math.sqrt(losses.size):,.0f}"


def print_table(horizon: int, runs: int) -> None:
    """A row for each policy, and one for a learner that starts afresh."""
    print(f"What is lost against the best arm of each of {horizon:,} rounds, {runs} runs:\n")
    print(f"| policy | {' | '.join(WORLDS)} |\n|---|{'---:|' * len(WORLDS)}")
    for policy in POLICIES:
        cells = [cell(lost_by(policy, world, horizon, runs)) for world in WORLDS.values()]
        print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)
    first = POLICIES[0]
    at_once = [world for world in WORLDS.values() if world.delay == 0 and world.batch == 1]
    cells = [cell(lost_afresh(first, world, horizon, runs)) for world in at_once]
    print(f"| `{first}`, afresh at an alarm | {' | '.join(cells)} | | |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    print_table(*((QUICK_HORIZON, QUICK_RUNS) if quick else (HORIZON, RUNS)))


if __name__ == "__main__":
    main()
