"""What policies lose where the model does not hold: means that move, rewards that come late.

``python docs/experiments/moving_means.py`` prints the table of the page on moving means;
``--quick`` plays fewer and shorter runs.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numba
import numpy as np

import armrace
from armrace.environments import Bernoulli, Changing, Environment, Seasonal
from armrace.extending import assign, choose, learn
from armrace.randomness import Purpose, stream_for

HORIZON, QUICK_HORIZON = 100_000, 10_000
RUNS, QUICK_RUNS = 100, 3
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
AFRESH = [{"name": "restarting", "base": base} for base in POLICIES[:2]]
LATE = {"delay of 1,000": (1000, 1), "batches of 1,000": (0, 1000)}
"""How many rounds later rewards come, and in batches of how many rounds."""

Floats = np.ndarray


def worlds(horizon: int) -> dict[str, Environment]:
    """Means that stay, that change places at once or little by little, and that go up and down."""
    levels = ((GOOD, BAD), (BAD, GOOD))
    middle, swing = 0.5 * (GOOD + BAD), 0.5 * (GOOD - BAD)
    return {
        "still": Bernoulli(means=(GOOD, BAD)),
        "change at T/10": Changing(levels=levels, changes=(horizon // 10,)),
        "change at T/2": Changing(levels=levels, changes=(horizon // 2,)),
        "slow crossing": Changing(levels=levels, changes=(0,), lasting=horizon),
        "season": Seasonal(means=(middle, middle), swings=(swing, -swing), period=horizon // 10),
    }


def lost_in(world: Environment, horizon: int, runs: int) -> list[Floats]:
    """What each policy loses against the best arm of each round, in each run."""
    policies: list[Any] = [*POLICIES, *AFRESH]
    found = armrace.compare(policies, world, horizon=horizon, replications=runs, progress=False)
    still = isinstance(world, Bernoulli)
    measure = "pseudo_regret" if still else "dynamic_regret"
    return [result.sample(measure) for result in found.results.values()]


@numba.njit
def lost_late(state, stream, coins, delay, batch):  # type: ignore[no-untyped-def]
    """What a policy loses where means stay and rewards come late."""
    tickets = [choose(state, stream, None)]
    tickets.clear()
    total, learned = 0.0, 0
    for number in range(coins.size):
        ticket = assign(state, choose(state, stream, None))
        tickets.append(ticket)
        total += (GOOD - BAD) * ticket.arm
        if (number + 1) % batch == 0:
            while learned <= number - delay:
                mean = GOOD if tickets[learned].arm == 0 else BAD
                learn(state, tickets[learned], 1.0 * (coins[learned] < mean))
                learned += 1
    return total


def losses_late(policy: str, delay: int, batch: int, horizon: int, runs: int) -> Floats:
    """The loss of each run."""
    found = []
    for run in range(runs):
        state = armrace.POLICIES.make(policy).start(2, horizon)
        coins = np.random.default_rng((run, 1)).random(horizon)
        stream = stream_for(run, Purpose.LEARNER, 0)
        found.append(lost_late(state, stream, coins, delay, batch))
    return np.array(found)


def cell(losses: Floats) -> str:
    """A mean with its standard error."""
    return f"{losses.mean():,.0f} ± {losses.std(ddof=1) / math.sqrt(losses.size):,.0f}"


def print_table(horizon: int, runs: int) -> None:
    """A row for each policy, and for two of them with restarts at an alarm."""
    named = worlds(horizon)
    print(f"What is lost against the best arm of each of {horizon:,} rounds, {runs} runs:\n")
    headings = [*named, *LATE]
    print(f"| policy | {' | '.join(headings)} |\n|---|{'---:|' * len(headings)}")
    columns = [lost_in(world, horizon, runs) for world in named.values()]
    for place, policy in enumerate(POLICIES):
        cells = [cell(column[place]) for column in columns]
        cells += [cell(losses_late(policy, *late, horizon, runs)) for late in LATE.values()]
        print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)
    for place, policy in enumerate(POLICIES[:2], start=len(POLICIES)):
        cells = [cell(column[place]) for column in columns]
        print(f"| `{policy}`, afresh at an alarm | {' | '.join(cells)} | | |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    print_table(*((QUICK_HORIZON, QUICK_RUNS) if quick else (HORIZON, RUNS)))


if __name__ == "__main__":
    main()
