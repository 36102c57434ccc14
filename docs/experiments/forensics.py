"""Audits of honest and of attacked runs: false alarms, power, and certificates next to the truth.

``python docs/experiments/forensics.py`` prints the tables of the page and draws its plot;
``--quick`` plays fewer and shorter runs and draws nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import armrace
from armrace.simulation.results import AuditSummary

LEVEL = 0.05
HONEST_RUNS, HONEST_HORIZON = 2000, 10_000
POWER_RUNS, POWER_HORIZON = 100, 50_000
BUDGETS = (10, 30, 100, 300, 1000, 3000)
QUICK_RUNS, QUICK_HORIZON, QUICK_BUDGETS = 10, 10_000, (30, 1000)
QUICK_HONEST_RUNS = 20
ATTACKS = ("swap-best", "click-bots", "sleeper-bots")
POLICIES = ("multi-layer-race", "ucb1")
LAWS: dict[str, Any] = {"even odds": [0.5, 0.4, 0.4], "click rates": [0.05, 0.03, 0.03]}
HONEST: dict[str, tuple[str, Any]] = {
    "`multi-layer-race`, even odds": ("multi-layer-race", LAWS["even odds"]),
    "`multi-layer-race`, click rates": ("multi-layer-race", LAWS["click rates"]),
    "`multi-layer-race`, beta": (
        "multi-layer-race",
        {"name": "beta", "alphas": [4, 0.2], "betas": [2, 0.2]},
    ),
    "`best-of-all-worlds`, even odds": ("best-of-all-worlds", LAWS["even odds"]),
    "`ucb1`, even odds": ("ucb1", LAWS["even odds"]),
    "`tsallis-inf`, click rates": ("tsallis-inf", LAWS["click rates"]),
}
PLOT = Path(__file__).with_suffix(".svg")


class Cell(NamedTuple):
    """Many audited runs of one policy under one attack."""

    law: str
    policy: str
    attack: str
    budget: float
    spent: float
    found: AuditSummary


def play(
    policy: str, law: Any, attack: str, budget: float, horizon: int, runs: int, level: float = LEVEL
) -> tuple[float, AuditSummary]:
    """What was spent in the mean, and what the audits found."""
    result = armrace.simulate(
        policy, law, attack, budget, horizon, runs, seed=1, progress=False, audit=level
    )
    found = result.audit_summary()
    assert found is not None
    return result.figure("corruption").mean, found


def print_honest(horizon: int, runs: int) -> None:
    """Runs without any attack: alarms, and certificates above 0, at two levels."""
    print(f"| policy and law | alarms at {LEVEL} | alarms at 0.5 | of |")
    print("|---|---:|---:|---:|")
    for name, (policy, law) in HONEST.items():
        _, strict = play(policy, law, "none", 0.0, horizon, runs)
        _, loose = play(policy, law, "none", 0.0, horizon, runs, level=0.5)
        print(f"| {name} | {strict.alarmed} | {loose.alarmed} | {runs:,} |")


def attacked(horizon: int, runs: int, budgets: Iterable[float]) -> Iterator[Cell]:
    """All policies and laws under all attacks."""
    for law, means in LAWS.items():
        for policy in POLICIES:
            for attack in ATTACKS:
                for budget in budgets:
                    spent, found = play(policy, means, attack, budget, horizon, runs)
                    yield Cell(law, policy, attack, budget, spent, found)


def print_attacked(cells: list[Cell]) -> None:
    """Shares of runs with an alarm, those with one by the layers, and the mean certificate."""
    print("Share of runs with any alarm:\n")
    _print_table(cells, lambda cell: _percent(cell, cell.found.alarmed))
    print("\nShare of runs in which the layers disagree:\n")
    raced = [cell for cell in cells if cell.policy != "ucb1"]
    _print_table(raced, lambda cell: _percent(cell, cell.found.alarms["disagreement"]))
    print("\nMean certificate:\n")
    _print_table(cells, lambda cell: f"{cell.found.certificate.mean:,.0f}")
    exceeded, runs = (sum(column) for column in zip(*map(_exceeded, cells), strict=True))
    print(f"\nThe certificate was above the corruption spent in {exceeded} of {runs:,} runs.")


def _percent(cell: Cell, count: int) -> str:
    return f"{100 * count / cell.found.replications:.0f}%"


def _exceeded(cell: Cell) -> tuple[int, int]:
    return cell.found.exceeded, cell.found.replications


def _print_table(cells: list[Cell], figure: Callable[[Cell], str]) -> None:
    """A row a policy, law and attack; a column a budget."""
    budgets = list(dict.fromkeys(cell.budget for cell in cells))
    print(f"| policy, law, attack | {' | '.join(f'{budget:,}' for budget in budgets)} |")
    print(f"|---|{'---:|' * len(budgets)}")
    rows: dict[str, list[str]] = {}
    for cell in cells:
        name = f"`{cell.policy}`, {cell.law}, `{cell.attack}`"
        rows.setdefault(name, []).append(figure(cell))
    for name, figures in rows.items():
        print(f"| {name} | {' | '.join(figures)} |")


def draw(cells: list[Cell]) -> None:
    """Shares of alarms, and of the corruption that was certified, against what was spent."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "armrace"
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(2, len(ATTACKS), figsize=(9.6, 5.4), sharex=True, sharey=True)
    for (law, policy), style in zip(
        [(law, policy) for law in LAWS for policy in POLICIES], ("-o", "--o", "-s", "--s"),
        strict=True,
    ):  # fmt: skip
        for column, attack in enumerate(ATTACKS):
            line = [c for c in cells if (c.law, c.policy, c.attack) == (law, policy, attack)]
            spent = [cell.spent for cell in line]
            alarmed = [cell.found.alarmed / cell.found.replications for cell in line]
            certified = [cell.found.certificate.mean / cell.spent for cell in line]
            colour = "C0" if law == "even odds" else "C1"
            for row, values in enumerate((alarmed, certified)):
                panels[row, column].plot(
                    spent, values, style, color=colour, markersize=3.5, label=f"{policy}, {law}"
                )
            panels[0, column].set(title=attack, xscale="log", ylim=(-0.03, 1.03))
            panels[1, column].set(xlabel="corruption spent")
    panels[0, 0].set(ylabel="share of runs with an alarm")
    panels[1, 0].set(ylabel="certified share of it, mean")
    panels[1, 1].legend(fontsize="x-small", loc="upper left", handlelength=4)
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Play honest and attacked runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, no plot")
    quick = parser.parse_args().quick
    print("\nHonest:\n")
    print_honest(*((QUICK_HORIZON, QUICK_HONEST_RUNS) if quick else (HONEST_HORIZON, HONEST_RUNS)))
    print("\nAttacked:\n")
    size = (QUICK_HORIZON, QUICK_RUNS, QUICK_BUDGETS)
    cells = list(attacked(*(size if quick else (POWER_HORIZON, POWER_RUNS, BUDGETS))))
    print_attacked(cells)
    if not quick:
        draw(cells)


if __name__ == "__main__":
    main()
