"""Contextual policies, each under the worst attack that was found for it, with equal effort.

``python docs/experiments/visitors.py`` searches the cells that ``visitors.ndjson`` does not hold
yet, adds them there, and prints the tables of the page; ``--tables`` only prints them; ``--quick``
searches a few short cells and keeps nothing.

Each cell is searched twice: by ``armrace redteam``'s search in a short form, from the same seed for
all; and, once all policies of an environment and a budget have been searched, by every attack that
was found for another of them. Whatever costs most in runs of other seeds is then played in 20 runs
of seeds that took no part.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack
from armrace.adversaries.by_visitor import at_visitors
from armrace.environments import LinearVisitors
from armrace.environments.visitors import CONTEXTUAL, VisitorEnvironment
from armrace.policies import POLICIES
from armrace.red_team.search import families_for, search
from armrace.red_team.target import Journal, Ratings, SearchBudget, Stage, Target
from armrace.red_team.verdict import HeldOut, changed_parameters, held_out
from armrace.simulation import simulate

HORIZON, QUICK_HORIZON = 100_000, 2_000
RUNS = 20
WORKERS = 2
BUDGETS = (0.0, 1_000.0, 100.0, 316.0, 30.0)
"""In the order in which they are searched."""
EFFORT = SearchBudget(
    rungs=((24, 1), (10, 2), (4, 4)), parents=2, children=4, generations=2, replications=2,
    finalists=2, selecting=4, confirming=RUNS,
)  # fmt: skip
QUICK_EFFORT = SearchBudget(
    rungs=((5, 1),), parents=1, children=1, generations=1, replications=1, finalists=1,
    selecting=2, confirming=2,
)  # fmt: skip
TRANSFERRED, FINAL = 2, 6
"""Runs of each attack that was found for another policy, and of the best next to the cell's own."""
POLICIES_JUDGED = (
    "expert-barrier",
    "leaf-barrier",
    "optimistic-log-barrier",
    "linear-thompson",
    "linear-ucb",
    "square-cb",
    "leaf-thompson",
    "cw-oful",
)
PLACES: dict[str, VisitorEnvironment] = {
    **CONTEXTUAL,
    # These two took no part in any choice about a policy.
    "wide": LinearVisitors(
        levels=(0.54, 0.52, 0.50, 0.48), slope=0.08, dimension=19, seed=11
    ),
    "forged": LinearVisitors(
        levels=(0.58, 0.54, 0.50, 0.46), slope=0.07, dimension=9, seed=12, bots=0.1
    ),
}  # fmt: skip
FILE = Path(__file__).with_suffix(".ndjson")

Cell = dict[str, Any]
Key = tuple[str, float, str]


def key_of(cell: Cell) -> Key:
    """What identifies a cell."""
    return cell["environment"], cell["budget"], cell["policy"]


def target_of(place: str, budget: float, policy: str, horizon: int) -> Target:
    """The policy under attack."""
    return Target(
        policy=POLICIES.make(policy), environment=PLACES[place], horizon=horizon,
        budget=budget * horizon / HORIZON,
    )  # fmt: skip


def quiet_cell(place: str, policy: str, horizon: int, runs: int) -> Cell:
    """Play a policy without an attack."""
    result = simulate(
        policy=policy, environment=PLACES[place], horizon=horizon, replications=runs, seed=5_000,
        workers=WORKERS, progress=False,
    )  # fmt: skip
    lost = result.sample("pseudo_regret")
    return cell_of(place, 0.0, policy, lost.tolist(), NoAttack(), 0)


def searched_cell(
    place: str, budget: float, policy: str, given: Sequence[Adversary], horizon: int,
    effort: SearchBudget,
) -> Cell:  # fmt: skip
    """Search the attack that costs a policy most."""
    target = target_of(place, budget, policy, horizon)
    found = search(target, effort, "own", 0, given=given, workers=WORKERS, compiling=False)
    tried = found.search.candidates
    return cell_of(place, budget, policy, list(found.held_out.sample), found.attack, tried)


def cell_of(
    place: str, budget: float, policy: str, lost: Sequence[float], attack: Adversary, tried: int
) -> Cell:
    """A line of the file."""
    plain = {"name": attack.tag(), **changed_parameters(attack)}
    return {
        "environment": place,
        "budget": budget,
        "policy": policy,
        "mean": round(float(np.mean(lost)), 1),
        "stderr": round(float(np.std(lost, ddof=1) / np.sqrt(len(lost))), 1),
        "p95": round(float(np.quantile(lost, 0.95)), 1),
        "runs": len(lost),
        "tried": tried,
        "attack": plain,
        "own": plain,
    }


def transferred_cell(cell: Cell, others: Sequence[Cell], horizon: int, runs: int) -> Cell:
    """Try what was found for other policies, and return the cell of what costs most."""
    target = target_of(*key_of(cell), horizon)
    (family,) = families_for(target)
    own = ADVERSARIES.make(cell["attack"])
    found = [at_visitors(ADVERSARIES.make(other["own"]), family) for other in others]
    attacks = [attack for attack in dict.fromkeys(found) if attack != own]
    if not attacks:
        return {**cell, "transferred": 0}
    journal = Journal(target, 1)
    selecting = Ratings(target, Stage.SELECTING, 1, journal, workers=WORKERS)
    selecting.rate(attacks, TRANSFERRED)
    rival = max(attacks, key=selecting.value)
    finals = Ratings(target, Stage.SEARCHING, 1, journal, workers=WORKERS)
    finals.rate([own, rival], FINAL)
    chosen = max((own, rival), key=finals.value)
    if chosen is own:
        return {**cell, "transferred": len(attacks)}
    confirming = Ratings(target, Stage.CONFIRMING, 0, journal, workers=WORKERS)
    confirming.rate([chosen], runs)
    confirmed: HeldOut = held_out(confirming, chosen)
    if confirmed.mean < cell["mean"]:  # as in a search: the worst found is what stands there
        return {**cell, "transferred": len(attacks)}
    new = cell_of(*key_of(cell), list(confirmed.sample), chosen, cell["tried"])
    return {**new, "own": cell["own"], "transferred": len(attacks)}


def play_missing(
    known: dict[Key, Cell],
    places: Sequence[str],
    budgets: Sequence[float],
    horizon: int,
    effort: SearchBudget,
    policies: Sequence[str] = POLICIES_JUDGED,
) -> Iterator[Cell]:
    """Find the cells that are missing, those of a budget together."""
    for budget in budgets:
        for place in places:
            row = [(place, budget, policy) for policy in policies]
            for key in row:
                if key in known:
                    continue
                if budget == 0.0:
                    known[key] = quiet_cell(place, key[2], horizon, effort.confirming)
                else:
                    earlier = [known.get((place, other, key[2])) for other in budgets if other]
                    given = [ADVERSARIES.make(cell["attack"]) for cell in earlier if cell]
                    known[key] = searched_cell(*key, given, horizon, effort)
                yield known[key]
            for key in row if budget else ():
                if "transferred" not in known[key]:
                    others = [known[other] for other in row if other != key]
                    known[key] = transferred_cell(known[key], others, horizon, effort.confirming)
                    yield known[key]


def read(file: Path) -> dict[Key, Cell]:
    """Read the cells; of those of the same key the last counts."""
    lines = file.read_text().splitlines() if file.exists() else []
    cells = [json.loads(line) for line in lines]
    return {key_of(cell): cell for cell in cells}


def tables(known: dict[Key, Cell]) -> str:
    """A table for each environment: a row for each policy, a column for each budget."""
    lines = []
    for place, environment in PLACES.items():
        budgets = sorted({key[1] for key in known if key[0] == place})
        if not budgets:
            continue
        crowd = environment.crowd()
        best = HORIZON * crowd.means.max(axis=1).mean()
        chance = best - HORIZON * crowd.means.mean()
        constant = best - HORIZON * crowd.means.mean(axis=0).max()
        lines += [
            f"**`{place}`.** Playing at random loses {chance:,.0f}, always the best arm "
            f"{constant:,.0f}.\n",
            f"| policy | {' | '.join(f'C = {each:,.0f}' for each in budgets)} |",
            f"|---|{'---:|' * len(budgets)}",
        ]
        for policy in POLICIES_JUDGED:
            found = [known.get((place, budget, policy)) for budget in budgets]
            lines.append(f"| `{policy}` | {' | '.join(map(words_of, found))} |")
        lines.append("")
    return "\n".join(lines)


def frontier(known: dict[Key, Cell]) -> str:
    """What ``expert-barrier`` loses, divided by the least that another policy loses."""
    budgets = sorted({key[1] for key in known})
    lines = [
        f"| environment | {' | '.join(f'C = {each:,.0f}' for each in budgets)} |",
        f"|---|{'---:|' * len(budgets)}",
    ]
    for place in PLACES:
        cells = []
        for budget in budgets:
            row = [known.get((place, budget, policy)) for policy in POLICIES_JUDGED]
            if None in row:
                cells.append("")
                continue
            own, *others = row
            best = min(others, key=lambda cell: cell["mean"])
            cells.append(f"{own['mean'] / best['mean']:.2f} (`{best['policy']}`)")
        lines.append(f"| `{place}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def words_of(cell: Cell | None) -> str:
    """A mean with its standard error, and the 95th percentile."""
    if cell is None:
        return ""
    return f"{cell['mean']:,.0f} ± {cell['stderr']:,.0f} ({cell['p95']:,.0f})"


def asked(description: str | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a few short cells; nothing is kept")
    parser.add_argument("--tables", action="store_true", help="only print the tables")
    return parser.parse_args()


def main() -> None:
    """Search what is missing, and print the tables."""
    given = asked(__doc__)
    known = {} if given.quick else read(FILE)
    if given.quick:
        list(play_missing(known, ["segments"], (0.0, 100.0), QUICK_HORIZON, QUICK_EFFORT))
    elif not given.tables:
        for cell in play_missing(known, list(PLACES), BUDGETS, HORIZON, EFFORT):
            with FILE.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            print(*key_of(cell), words_of(cell), file=sys.stderr, flush=True)
    print(tables(known))
    print(frontier(known))


if __name__ == "__main__":
    main()
