"""Print the guard's tables of the documentation: what is proved, and what is seen.

``python docs/guarding.py`` prints both; the second takes some minutes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import armrace
from armrace.theory import guard_overhead, guarded_regret, sharp_regret

DELTA = 0.05
SETTINGS: tuple[tuple[str, float | None], ...] = (
    ("none", None),
    ("swap-best", 100),
    ("swap-best", 1000),
    ("zero-best-when-likely", 100),
    ("zero-best-when-likely", 1000),
)
ARMS = {"two arms": (0.6, 0.4), "ten arms": (0.5, *[0.4] * 9)}
RUNS = {10**5: 40, 10**6: 10}


def policies() -> dict[str, Any]:
    """The policies that are compared, by the names that the table gives them."""
    found: dict[str, Any] = {}
    for base in ("thompson", "tsallis-inf"):
        found[f"`{base}`"] = base
        found[f"`{base}`, guarded"] = {"name": "guarded", "base": base}
        found[f"`{base}`, guarded, `share` 6"] = {"name": "guarded", "base": base, "share": 6}
    return {**found, "`sharp-race`": "sharp-race"}


def print_bounds() -> None:
    """What is proved of the guard; a dash where that is nothing."""
    corruptions = (0, 100, 1_000, 10_000)
    print(
        "| K, gap, T | `sharp-race`, C = 0 | overhead without corruption | any base, C = ", end=""
    )
    print(" | ".join(f"{c:,}" for c in corruptions) + " |")
    print("|---|---|---|" + "---|" * len(corruptions))
    for arms, gap, power in ((2, 0.5, 6), (2, 0.1, 9), (10, 0.1, 6), (10, 0.1, 9), (10, 0.1, 12)):
        gaps, horizon = [gap] * (arms - 1), 10**power
        proved = [
            sharp_regret(gaps, horizon, DELTA, 0).pseudo_regret,
            guard_overhead(gaps, horizon, DELTA),
            *(guarded_regret(gaps, horizon, DELTA, c).pseudo_regret for c in corruptions),
        ]
        shown = [f"{b:,.0f}" if b < 0.999999 * gap * horizon else "-" for b in proved]
        exponent = power if power < 10 else f"{{{power}}}"
        print(f"| {arms}, {gap:g}, $10^{exponent}$ | {' | '.join(shown)} |")


def print_regrets() -> None:
    """Mean pseudo-regret and its 95th percentile, without an attack and under two."""
    print(
        "| T, arms | | " + " | ".join(a if c is None else f"{a} {c:g}" for a, c in SETTINGS) + " |"
    )
    print("|---|---|" + "---|" * len(SETTINGS))
    for horizon, runs in RUNS.items():
        for label, means in ARMS.items():
            for name, policy in policies().items():
                cells = [_cell(policy, means, horizon, runs, *setting) for setting in SETTINGS]
                exponent = len(str(horizon)) - 1
                print(f"| $10^{exponent}$, {label} | {name} | {' | '.join(cells)} |", flush=True)


def _cell(
    policy: Any,
    means: tuple[float, ...],
    horizon: int,
    runs: int,
    attack: str,
    budget: float | None,
) -> str:
    found = armrace.simulate(
        policy=policy,
        environment=list(means),
        adversary=attack,
        budget=budget,
        horizon=horizon,
        replications=runs,
        seed=11,
        refresh=0.03,
        progress=False,
    )
    sample = np.asarray(found.sample("pseudo_regret"))
    return f"{sample.mean():,.0f} / {np.quantile(sample, 0.95):,.0f}"


if __name__ == "__main__":
    print_bounds()
    print()
    print_regrets()
