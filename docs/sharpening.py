"""Print the tables of ``docs/theory.md``: what each part of the sharp race buys, and coverage.

``python docs/sharpening.py`` takes some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import armrace
from armrace.formatting import figure
from armrace.policies import POLICIES, Policy
from armrace.simulation import make_experiment
from armrace.simulation.arena import ATTACKS as ARENA_ATTACKS
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.parallel import run_all
from armrace.statistics import clopper_pearson
from armrace.theory import agnostic_regret, sharp_regret
from armrace.verification.guarantees import make_subject
from armrace.verification.runs import examine, gather, witnessed_parts

DELTA = 0.05
HORIZON = 1_000_000
RUNS_OF_REGRET = 20
RUNS_OF_GRID = 3
RUNS_OF_COVERAGE = 1000
ATTACKS = ("zero-best-when-likely", "swap-best", "adaptive-constant")
LEVEL = 0.01


def races() -> Iterator[tuple[str, Policy]]:
    """The races by name, from the paper's to the sharpest."""
    yield "`multi-layer-race`, the paper's intervals", POLICIES.make("multi-layer-race")
    for kind in ("hoeffding", "bernstein", "kl", "kl-mixture", "kl-jeffreys"):
        options: dict[str, Any] = {"name": "multi-layer-race", "intervals": kind}
        yield f"`{kind}`", POLICIES.make(options)
        if kind.startswith("kl-"):
            yield f"`{kind}`, pooled", POLICIES.make({**options, "pool": True})
    yield "`sharp-race` without a leader", POLICIES.make({"name": "sharp-race", "lead": 0})
    yield "`sharp-race`", POLICIES.make("sharp-race")


def print_bounds() -> None:
    """What is proved of the literal race and of the sharp one; a dash where that is nothing."""
    corruptions = (0, 30, 100, 1_000, 10_000)
    print("| K, gap, T | race | C = " + " | ".join(f"{c:,}" for c in corruptions) + " |")
    print("|---|---|" + "---|" * len(corruptions))
    for arms, gap, power in ((2, 0.5, 6), (2, 0.1, 9), (10, 0.1, 6), (10, 0.1, 9), (10, 0.1, 12)):
        horizon = 10**power
        for name, bound in (("literal", agnostic_regret), ("`sharp-race`", sharp_regret)):
            proved = [
                bound([gap] * (arms - 1), horizon, DELTA, c).pseudo_regret for c in corruptions
            ]
            shown = [f"{b:,.0f}" if b < 0.999999 * gap * horizon else "-" for b in proved]
            exponent = power if power < 10 else f"{{{power}}}"
            print(f"| {arms}, {gap:g}, $10^{exponent}$ | {name} | {' | '.join(shown)} |")


def print_parts() -> None:
    """Regret without attack, and under one, for each of the races."""
    settings = [("none", None), ("swap-best", 1000), ("zero-best-when-likely", 1000)]
    names = [(e, a, c) for e in ("one-better", "clicks") for a, c in settings]
    print("| | " + " | ".join(f"{e}, {a if c is None else f'{a} {c}'}" for e, a, c in names) + " |")
    print("|---|" + "---|" * len(names))
    rows: dict[str, list[str]] = {label: [] for label, _ in races()}
    for environment, attack, budget in names:
        found = armrace.compare(
            [policy for _, policy in races()],
            ENVIRONMENTS_OF_THE_ARENA[environment],
            attack,
            budget,
            horizon=HORIZON,
            replications=RUNS_OF_REGRET,
        )
        for row, result in zip(rows.values(), found.results.values(), strict=True):
            row.append(figure(result.figure("pseudo_regret").mean))
    for label, cells in rows.items():
        print(f"| {label} | " + " | ".join(cells) + " |")


def print_grid() -> None:
    """Regret relative to the literal race, over the arena's cells of at most T^(1/2) corruption."""
    literal, *others = [label for label, _ in races()]
    ratios: dict[str, list[float]] = {label: [] for label in others}
    budget = round(HORIZON**0.5)
    for environment in ENVIRONMENTS_OF_THE_ARENA.values():
        for attack in ("none", *ARENA_ATTACKS):
            found = armrace.compare(
                [policy for _, policy in races()],
                environment,
                attack,
                0 if attack == "none" else budget,
                horizon=HORIZON,
                replications=RUNS_OF_GRID,
            )
            means = [r.figure("pseudo_regret").mean for r in found.results.values()]
            for label, mean in zip(others, means[1:], strict=True):
                ratios[label].append(mean / means[0])
    print(f"| regret divided by that of {literal} | geometric mean | best cell | worst cell |")
    print("|---|---|---|---|")
    for label, cells in ratios.items():
        middle = float(np.exp(np.mean(np.log(cells))))
        print(f"| {label} | {middle:.2f} | {min(cells):.2f} | {max(cells):.2f} |")


def print_coverage() -> None:
    """How often an interval of a tolerant layer misses, and how often one of another layer does."""
    print("| | attack | runs | tolerant layers missed | interval | other layers missed |")
    print("|---|---|---|---|---|---|")
    for label, policy in races():
        for attack in ATTACKS:
            experiment = make_experiment(
                policy=policy,
                environment=[0.55, 0.5, 0.45],
                adversary=attack,
                budget=300,
                horizon=20_000,
                replications=RUNS_OF_COVERAGE,
            )
            compile_experiments([experiment], make=witnessed_parts)
            done = run_all([experiment], None, None, lambda share: None, task=examine)
            runs = gather([row[0] for row in done.outcomes])
            assert runs.books is not None
            tolerant = make_subject(policy).tolerant(policy, 3, 20_000, runs.corruption)
            missed = int((runs.missed & tolerant).any(axis=1).sum())
            others = float(np.mean((runs.missed & ~tolerant).any(axis=1)))
            low, high = clopper_pearson(missed, RUNS_OF_COVERAGE, LEVEL)
            print(
                f"| {label} | `{attack}` | {RUNS_OF_COVERAGE} | {missed} | "
                f"{low:.3f} to {high:.3f} | {others:.0%} |"
            )


if __name__ == "__main__":
    print_bounds()
    print()
    print_parts()
    print()
    print_grid()
    print()
    print_coverage()
