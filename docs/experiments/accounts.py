"""Print the table of ``docs/guide/the-model.md``: what each policy loses to who sees the arm.

``python docs/experiments/accounts.py``
"""

from __future__ import annotations

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.policies import POLICIES
from armrace.simulation.experiment import refresh_for

POLICIES_SHOWN = (
    "optimistic-log-barrier",
    "tsallis-inf",
    "exp3",
    "sharp-race",
    "multi-layer-race",
    "thompson",
    "ucb1",
)
ATTACKS = ("zero-best", "double-impact", "free-ride", "spoil-then-swap")
MEANS = (0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5, 0.4, 0.4, 0.4)
BUDGET, HORIZON, RUNS, SEED = 300, 100_000, 40, 11


def worst(policy: str, account: str) -> tuple[float, float, str]:
    """Return the largest mean pseudo-regret of the attacks, its corruption C, and the attack."""
    found = []
    for name in ATTACKS:
        attack = ADVERSARIES.make(name)
        result = armrace.simulate(
            policy,
            list(MEANS),
            attack,
            budget=BUDGET,
            horizon=HORIZON,
            replications=RUNS,
            seed=SEED,
            account=account,
            refresh=refresh_for(POLICIES.make(policy), attack),
            progress=False,
        )
        regret = result.figure("pseudo_regret").mean
        found.append((regret, result.figure("corruption").mean, name))
    return max(found)


def main() -> None:
    """Print one row per policy."""
    print("| policy | charged for the largest change | charged for the drawn arm | C then |")
    print("|---|---|---|---|")
    for policy in POLICIES_SHOWN:
        paper, seen = worst(policy, "largest"), worst(policy, "seen")
        cells = [f"{paper[0]:,.0f} ({paper[2]})", f"{seen[0]:,.0f} ({seen[2]})", f"{seen[1]:,.0f}"]
        print(f"| `{policy}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
