"""Which optimism to take for how many arms: two values under attack, for ``docs/arena.md``.

``python docs/by_arms.py FOLDER`` plays the recommended policy with its default optimism and with
0.1, for several numbers of arms, two levels of rewards and two budgets, and prints how the two
compare. Each meets the attack of a list that costs it most in some runs, in other runs. The list
has ``strip`` with several edges, three more attacks and the nearest winners of searches. Each cell
is a file, and what is there is not played again; ``--print`` only prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import armrace
from armrace.adversaries import ADVERSARIES, Adversary, Strip
from armrace.environments import Bernoulli
from armrace.files import make_folder, write_text
from armrace.policies import POLICIES
from armrace.red_team.library import winners_for
from armrace.red_team.target import Journal, Ratings, Stage, Target

ARMS = (5, 10, 20, 40)
RATES = ((0.5, 0.4), (0.06, 0.035))
BUDGETS = (50.0, 500.0)
HORIZON = 50_000
OPTIMISM = (0.5, 0.1)
SEED = 25
CHOOSING, JUDGING, QUIET = 40, 300, 100
"""Runs of every attack, of the worst of them, and without an attack."""


def targets() -> Iterator[tuple[str, Target]]:
    """All cells, by a name."""
    for arms in ARMS:
        for best, other in RATES:
            means = [other] * arms
            means[arms // 2] = best  # not the first, which ties would favour
            for budget in BUDGETS:
                for optimism in OPTIMISM:
                    policy = POLICIES.make({"name": "optimistic-log-barrier", "optimism": optimism})
                    target = Target(
                        policy=policy,
                        environment=Bernoulli(means=tuple(means)),
                        budget=budget,
                        horizon=HORIZON,
                    )
                    yield f"{arms}-{best:g}-{budget:g}-{optimism:g}", target


def play(folder: Path) -> None:
    """Play the cells that the folder does not hold."""
    make_folder(folder)
    for name, target in targets():
        file = folder / f"{name}.json"
        if not file.exists():
            attack, sample = under_the_worst(target)
            quiet = armrace.simulate(
                target.policy,
                target.environment,
                horizon=HORIZON,
                replications=QUIET,
                seed=SEED,
                workers=1,
                progress=False,
            )
            found = {
                "attack": attack.to_builtins(),
                "sample": sample,
                "quiet": quiet.sample("pseudo_regret").tolist(),
            }
            write_text(file, msgspec.json.encode(found).decode())
            print(name, f"{np.mean(found['sample']):.0f}", file=sys.stderr, flush=True)


def under_the_worst(target: Target) -> tuple[Adversary, list[float]]:
    """The worst attack of the list, and what it cost in runs that took no part in the choice."""
    listed: list[Adversary] = [Strip(edge=edge) for edge in (0.0, 0.05, 0.1, 0.15, 0.2, 0.35)]
    listed += map(ADVERSARIES.make, ("free-ride", "double-impact", "spoil-then-swap"))
    listed = list(dict.fromkeys([*listed, *winners_for(target)[:5]]))
    book = Journal(target, SEED)
    choosing = Ratings(target, Stage.SELECTING, SEED, book, workers=1)
    judging = Ratings(target, Stage.CONFIRMING, SEED, book, workers=1)
    choosing.rate(listed, CHOOSING)
    worst = max(listed, key=choosing.value)
    judging.rate([worst], JUDGING)
    return worst, judging.sample(worst).tolist()


def report(folder: Path) -> None:
    """Print, for each number of arms, what optimism 0.1 loses relative to the default."""
    names = [name for name, _ in targets()]
    found: dict[str, dict[str, Any]] = {
        name: msgspec.json.decode((folder / f"{name}.json").read_bytes())
        for name in names
        if (folder / f"{name}.json").exists()
    }
    small, large = BUDGETS
    print(
        f"| arms | quiet | mean, C = {small:g} | mean, C = {large:g} | p95, {small:g} | {large:g} |"
    )
    print("|---|---|---|---|---|---|")
    for arms in ARMS:
        texts = [str(arms), _ratio(found, arms, BUDGETS[:1], "quiet", "mean")]
        texts += [_ratio(found, arms, (each,), "sample", "mean") for each in BUDGETS]
        texts += [_ratio(found, arms, (each,), "sample", "p95") for each in BUDGETS]
        print(f"| {' | '.join(texts)} |")


def _ratio(
    found: dict[str, dict[str, Any]], arms: int, budgets: tuple[float, ...], of: str, what: str
) -> str:
    """The geometric mean over rates of a figure's ratio, with a bootstrapped standard error."""
    generator = np.random.default_rng(0)
    names = [f"{arms}-{best:g}-{budget:g}-" for best, _ in RATES for budget in budgets]
    pairs = [
        tuple(np.array(found[f"{name}{optimism:g}"][of]) for optimism in reversed(OPTIMISM))
        for name in names
        if all(f"{name}{optimism:g}" in found for optimism in OPTIMISM)
    ]
    if not pairs:
        return "-"

    def value(sample: Any) -> float:
        return float(sample.mean() if what == "mean" else np.quantile(sample, 0.95))

    def one(draw: bool) -> float:
        logs = []
        for pair in pairs:
            taken = [generator.choice(part, part.size) if draw else part for part in pair]
            logs.append(np.log(value(taken[0]) / value(taken[1])))
        return float(np.exp(np.mean(logs)))

    return f"{one(False):.2f} ± {np.std([one(True) for _ in range(300)]):.2f}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if "--print" not in sys.argv[2:]:
        play(place)
    report(place)
