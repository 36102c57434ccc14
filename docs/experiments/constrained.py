"""Tsallis-INF and others where the means move up and down together and the gap stays.

``python docs/experiments/constrained.py`` prints the tables of the page and draws its plot;
``--quick`` plays fewer and shorter tables and draws nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

import armrace
from armrace.environments import Table

HORIZON, TABLES = 100_000, 20
QUICK_HORIZON, QUICK_TABLES = 40_000, 4
ARMS, GAP, GROWTH = 8, 0.125, 1.6
POLICIES: dict[str, str | dict[str, str]] = {
    "tsallis-inf": "tsallis-inf",
    "tsallis-inf, iw": {"name": "tsallis-inf", "estimator": "iw"},
    "exp3-plus-plus": "exp3-plus-plus",
    "exp3": "exp3",
    "ucb1": "ucb1",
    "thompson": "thompson",
    "multi-layer-race": "multi-layer-race",
}
PLOT = Path(__file__).with_suffix(".svg")

Floats = npt.NDArray[np.float64]


def means(horizon: int, moving: bool) -> Floats:
    """Means of all arms in every round; the first arm is the best by ``GAP`` throughout."""
    low = np.full(horizon, 0.5 - GAP / 2)
    start, length, high = 0, 1.0, True
    while moving and start < horizon:
        end = start + round(length)
        low[start:end] = 1.0 - GAP if high else 0.0
        start, length, high = end, length * GROWTH, not high
    return np.column_stack([low + GAP] + [low] * (ARMS - 1))


def regrets(horizon: int, tables: int, moving: bool) -> tuple[Floats, dict[str, Floats]]:
    """Rounds, and for each policy the sum of gaps by then: a row a table."""
    found: dict[str, list[Floats]] = {name: [] for name in POLICIES}
    rounds = np.empty(0)
    for number in range(tables):
        generator = np.random.default_rng(number)
        rewards = (generator.random((horizon, ARMS)) < means(horizon, moving)).astype(float)
        for name, policy in POLICIES.items():
            result = armrace.simulate(
                policy, Table(rewards), horizon=horizon, replications=1, seed=number, progress=False
            )
            best = result.arms.filter(result.arms["arm"] == 0)
            rounds = best["round"].to_numpy()
            found[name].append(GAP * (rounds - best["pulls"].to_numpy()))
    return rounds, {name: np.array(rows) for name, rows in found.items()}


def print_table(rounds: Floats, found: dict[str, Floats]) -> None:
    """Mean regret with its standard error at a tenth of the rounds and at the end."""
    early = int(np.argmin(np.abs(rounds - rounds[-1] / 10)))
    print(f"| policy | after {rounds[early]:,} | after {rounds[-1]:,} | ratio |")
    print("|---|---:|---:|---:|")
    for name, rows in found.items():
        error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        mean = rows.mean(axis=0)
        cells = (f"{mean[i]:,.0f} ± {error[i]:,.0f}" for i in (early, -1))
        print(f"| `{name}` | {' | '.join(cells)} | {mean[-1] / mean[early]:.1f} |")


def draw(rounds: Floats, found: dict[str, Floats]) -> None:
    """Mean regret against rounds, both logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "armrace"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, rows in found.items():
        axes.plot(rounds[8:], rows.mean(axis=0)[8:], label=name)
    axes.set(xscale="log", yscale="log", xlabel="round", ylabel="mean regret")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Play both environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter tables, no plot")
    quick = parser.parse_args().quick
    size = (QUICK_HORIZON, QUICK_TABLES) if quick else (HORIZON, TABLES)
    for moving in (True, False):
        print(f"\nMeans that {'move' if moving else 'stay'}:\n")
        rounds, found = regrets(*size, moving)
        print_table(rounds, found)
        if moving and not quick:
            draw(rounds, found)


if __name__ == "__main__":
    main()
