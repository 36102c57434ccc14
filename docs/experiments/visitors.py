"""What contexts are worth, and what forged feedback does to policies that use them.

``python docs/experiments/visitors.py`` prints the tables of the page on visitors that differ;
``--quick`` plays fewer and shorter runs.
"""

from __future__ import annotations

import argparse

from armrace.adversaries import Adversary, NoAttack
from armrace.adversaries.by_visitor import WORST_KNOWN
from armrace.environments.visitors import CONTEXTUAL, VisitorEnvironment
from armrace.simulation import Result, simulate

HORIZON, QUICK_HORIZON = 100_000, 2_000
RUNS, QUICK_RUNS = 20, 2
CHOOSING = 6
"""Runs, of other seeds, by which the attack is chosen that costs a policy most."""
BUDGETS = (0, 100, 1_000)
POLICIES = (
    "expert-barrier",
    "leaf-barrier",
    "optimistic-log-barrier",
    "linear-thompson",
    "linear-ucb",
    "square-cb",
    "leaf-thompson",
    "cw-oful",
)
NOT_LOOKING = ("linear-thompson", "leaf-thompson")
"""Their distribution takes long to compute: attacks that look at it are not tried on them."""


def loss(
    policy: str, place: VisitorEnvironment, attack: Adversary, budget: float, horizon: int,
    runs: int, seed: int,
) -> Result:  # fmt: skip
    """Play a policy under an attack."""
    return simulate(
        policy=policy, environment=place, adversary=attack, budget=budget, horizon=horizon,
        replications=runs, seed=seed,
    )  # fmt: skip


def worst(
    policy: str, place: VisitorEnvironment, budget: float, horizon: int, runs: int
) -> Adversary:
    """The one of the known attacks that costs a policy most, by runs that are not reported."""
    known = [attack for attack in WORST_KNOWN if policy not in NOT_LOOKING or is_blind(attack)]
    chosen = min(runs, CHOOSING)
    return max(
        known,
        key=lambda each: (
            loss(policy, place, each, budget, horizon, chosen, seed=100)
            .figure("pseudo_regret")
            .mean
        ),
    )


def is_blind(attack: Adversary) -> bool:
    """Whether an attack does the same whatever the distribution is."""
    lows = (getattr(attack, f"{phase}_low") for phase in ("first", "second", "third"))
    return not any(lows) and getattr(attack, "decoy", "") != "likeliest"


def cell(result: Result) -> str:
    """A mean with its standard error."""
    figure = result.figure("pseudo_regret")
    return f"{figure.mean:,.0f} ± {figure.stderr:,.0f}"


def print_table(horizon: int, runs: int) -> None:
    """A table for each environment: a row for each policy, a column for each budget."""
    for name, place in CONTEXTUAL.items():
        means = place.kinds().means
        best = means.max(axis=1)
        nothing = horizon * float(best.mean() - means.mean())
        constant = horizon * float(best.mean() - means.mean(axis=0).max())
        print(f"\n{name}: playing at random loses {nothing:,.0f}, the best arm {constant:,.0f}\n")
        print(f"| policy | {' | '.join(f'C = {each:,}' for each in BUDGETS)} |")
        print(f"|---|{'---:|' * len(BUDGETS)}")
        for policy in POLICIES:
            cells = []
            for budget in BUDGETS:
                scaled = budget * horizon / HORIZON
                attack = worst(policy, place, scaled, horizon, runs) if budget else NoAttack()
                cells.append(cell(loss(policy, place, attack, scaled, horizon, runs, seed=5_000)))
            print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    print_table(*((QUICK_HORIZON, QUICK_RUNS) if quick else (HORIZON, RUNS)))


if __name__ == "__main__":
    main()
