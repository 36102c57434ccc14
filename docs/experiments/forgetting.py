"""The frontier between forgetting and robustness: who starts afresh often is fooled often.

``python docs/experiments/forgetting.py`` plays each policy in a world that changes, in one that
stays and under the worst attack that a search finds there, prints the table of the page and draws
its figure. ``--quick`` plays two policies in short runs and draws nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import armrace
from armrace.environments import Changing

PLOT = Path(__file__).with_suffix(".svg")
FIGURES = Path(__file__).with_suffix(".json")
GOOD, BAD = 0.6, 0.4
ROUNDS, RUNS, BUDGETS = 10_000, 200, (50.0, 200.0)
CHANGE = 0.43
"""When the best arm changes, as a share of the rounds: not when a period ends."""
BASES = ("thompson", "optimistic-log-barrier")
PERIODS = (5000, 2000, 1000, 500, 200)
SEARCHING, PLAYING = 1, 2
"""Seeds: the search has another than the runs whose means are shown."""


def policies(base: str) -> Iterator[tuple[str, Any]]:
    """The base as it is, with restarts at an alarm, and with periods."""
    yield "never", base
    yield "at an alarm", {"name": "restarting", "base": base}
    for period in PERIODS:
        yield (
            f"every {period:,} rounds",
            {"name": "restarting", "base": base, "when": "period", "period": period},
        )


def losses(
    policy: Any, rounds: int, runs: int, budgets: tuple[float, ...], effort: str
) -> dict[str, Any]:
    """What a policy loses where the best arm changes, where it stays, and under attack."""
    change = round(CHANGE * rounds)
    changing = Changing(levels=((GOOD, BAD), (BAD, GOOD)), changes=(change,))
    still = [GOOD, BAD]
    played = {"horizon": rounds, "replications": runs, "seed": PLAYING, "progress": False}
    found = {
        "change": armrace.simulate(policy, changing, **played).figure("dynamic_regret"),
        "still": armrace.simulate(policy, still, **played).figure("pseudo_regret"),
    }
    tried, words = [], []
    for budget in budgets:
        verdict = armrace.redteam(
            policy, still, budget, rounds, effort=effort, seed=SEARCHING, progress=False
        )
        attacked = armrace.simulate(policy, still, verdict.attack, budget, **played)
        # Who may spend more may also stop where a smaller budget ends.
        tried.append((attacked.figure("pseudo_regret"), verdict.description))
        found[f"C = {budget:g}"], worst = max(tried, key=lambda each: each[0].mean)
        words.append(worst)
    return {**{name: [each.mean, each.stderr] for name, each in found.items()}, "words": words}


def measured(quick: bool) -> dict[str, dict[str, Any]]:
    """The losses of all policies; those that the file has are not played again."""
    known = {} if quick or not FIGURES.exists() else json.loads(FIGURES.read_text())
    for base in BASES[: 1 if quick else None]:
        for words, policy in list(policies(base))[: 2 if quick else None]:
            name = f"{base}, {words}"
            if name not in known:
                setting = (2000, 3, (20.0,), "few") if quick else (ROUNDS, RUNS, BUDGETS, "quick")
                known[name] = losses(policy, *setting)
                if not quick:
                    FIGURES.write_text(json.dumps(known, indent=1) + "\n")
    return known


def print_table(found: dict[str, dict[str, Any]]) -> None:
    """A row for each policy."""
    columns = [name for name in next(iter(found.values())) if name != "words"]
    print(f"| policy, starting afresh | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name, losses_of in found.items():
        cells = [f"{m:,.0f} ± {e:,.0f}" for m, e in (losses_of[k] for k in columns)]
        print(f"| `{name.replace(', ', '`, ')} | {' | '.join(cells)} |")


def draw(found: dict[str, dict[str, Any]]) -> None:
    """Each policy as a point: what it loses to a change, and what it loses to an attack."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "armrace"
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(BUDGETS), figsize=(11, 5))
    for axes, budget in zip(panels, BUDGETS, strict=True):
        ends = ("change", f"C = {budget:g}")
        for base, marker in zip(BASES, "os", strict=True):
            rows = {words: found[f"{base}, {words}"] for words, _ in policies(base)}
            x, y = ([row[end][0] for row in rows.values()] for end in ends)
            wide, high = ([1.96 * row[end][1] for row in rows.values()] for end in ends)
            axes.errorbar(x, y, high, wide, fmt=marker, label=base, capsize=2, markersize=5)
            axes.plot(x[:1] + x[2:], y[:1] + y[2:], linewidth=0.7, color="grey", zorder=0)
            for words, left, up in zip(rows, x, y, strict=True):
                short = words.removeprefix("every ").removesuffix(" rounds")
                axes.annotate(short, (left, up), (5, 4), textcoords="offset points", fontsize=8)
        axes.set(xscale="log", yscale="log", xlim=(50, 1500), ylim=(50, 2500))
        axes.set_xlabel("lost where the best arm changes once (dynamic regret)")
        axes.set_ylabel(f"lost under the worst attack found, {ends[1]}")
    panels[0].legend(frameon=False, loc="lower left")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two policies and short runs")
    quick = parser.parse_args().quick
    found = measured(quick)
    print_table(found)
    if not quick:
        draw(found)


if __name__ == "__main__":
    main()
