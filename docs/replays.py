"""Play known attacks once more, for the figures and errors of ``docs/arena.md``.

``python docs/replays.py POLICY...`` plays the cells of some policies, or of all, that
``docs/arena_cells.ndjson`` does not have with as many runs, on one core, and appends a line for
each: the attack, and what it costs on the seeds that a search holds out. A quick search holds out
60 runs; here there are at least ``RUNS``, and ``OFTEN`` for the leaders where they are cheap.
The last line of a cell counts.

No search is run. The attack that the library has for a cell, ``strip`` with three edges and one
like it are tried on the seeds of selection, and the one that costs most is played. If the library
has none, or where there are many runs, those that it has for the policy at other budgets, for its
base and variants, and for similar targets are tried as well. ``near-ties`` is not in
the library: there a quick search is run, as for a policy that the library does not know, which
begins with the attacks above. To play a cell again, take its line out of the file.
``docs/arena_page.py`` writes the page from the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
from grid import CHEAP, LEADERS, series_of

from armrace.adversaries import Adversary, DoubleImpact, FreeRide, Strip, TwoPhase
from armrace.red_team.batches import SearchCell
from armrace.red_team.library import load_library, winners_for
from armrace.red_team.search import search
from armrace.red_team.target import Journal, Ratings, Stage, find_budget
from armrace.red_team.verdict import HeldOut, changed_parameters, held_out

FILE = Path(__file__).with_name("arena_cells.ndjson")
PARTS = ("budgets", "all", "rest", "ratings", "many")
OFTEN, RUNS = 200, 100
FEWER = 8
"""So many times fewer runs, and for the finalists three times as many, choose an attack."""
FINALISTS = 4
MOST_SIMILAR = 5
EDGES = (0.0, 0.1, 0.2)


def main() -> None:
    """Play the cells that the file does not have."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--environments", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--file", type=Path, default=FILE)
    given = parser.parse_args()
    lines = given.file.read_bytes().splitlines() if given.file.exists() else []
    rows = map(msgspec.json.decode, lines)
    known = {tuple(row["cell"]) for row in rows if row["replications"] >= RUNS}
    for series in series_of(PARTS, given.policies, given.environments):
        before: list[Adversary] = []
        for cell in series.cells:
            key = (cell.environment, cell.policy, cell.target.budget)
            if key in known:
                continue
            known.add(key)
            attack, found = play(cell, before)
            before.append(attack)
            described = {"name": attack.identifier(), **changed_parameters(attack)}
            figures = {name: round(getattr(found, name), 1) for name in ("mean", "stderr", "p95")}
            row = {"cell": key, "attack": described, **figures, "replications": found.replications}
            with given.file.open("ab") as out:
                out.write(msgspec.json.encode(row) + b"\n")
            print(*key, f"{found.mean:.0f} ± {found.stderr:.1f}", attack.tag(), flush=True)


def play(cell: SearchCell, before: list[Adversary]) -> tuple[Adversary, HeldOut]:
    """An attack on a cell, and what it costs in runs that took no part in its choice."""
    attacks = known_attacks(cell)
    known = {winner.policy for winner in load_library().winners}
    if cell.environment == "near-ties" or cell.policy not in known:
        plan = msgspec.structs.replace(find_budget("quick"), confirming=runs_of(cell))
        given = before if cell.environment == "near-ties" else [*before, *attacks]
        verdict = search(cell.target, plan, "quick", 0, given=given, workers=1, compiling=False)
        return verdict.attack, verdict.held_out
    book = Journal(cell.target, 0)
    choosing = Ratings(cell.target, Stage.SELECTING, 0, book, workers=1)

    def cost(attack: Adversary) -> float:
        return cell.target.cautious_value(choosing.sample(attack))

    choosing.rate(attacks, runs_of(cell) // FEWER)
    few = sorted(attacks, key=cost, reverse=True)[:FINALISTS]
    choosing.rate(few, 2 * runs_of(cell) // FEWER)
    worst = max(few, key=cost)
    confirming = Ratings(cell.target, Stage.CONFIRMING, 0, book, workers=1)
    confirming.rate([worst], runs_of(cell))
    return worst, held_out(confirming, worst)


def runs_of(cell: SearchCell) -> int:
    """How many runs a cell has."""
    is_leader = cell.policy.split(", ")[0] in LEADERS and cell.environment in (*CHEAP, "near-ties")
    return OFTEN if is_leader else RUNS


def known_attacks(cell: SearchCell) -> list[Adversary]:
    """The attack that was found for the cell, and others that are tried there."""
    target, winners = cell.target, load_library().winners
    place = cell.environment, target.horizon
    here = [each for each in winners if (each.environment, each.horizon) == place]
    own = [w.make() for w in here if (w.policy, w.budget) == (cell.policy, target.budget)]
    tried = [*own, *(Strip(edge=edge) for edge in EDGES)]
    tried.append(TwoPhase(first="double-impact", decoy="all", first_low=0.15))
    if not own or runs_of(cell) == OFTEN:
        names, kin = {target.policy.tag(), cell.policy.rpartition(" ")[2]}, _kin(cell.policy)
        tried += [each.make() for each in here if each.policy in names]
        same = [each for each in here if each.budget == target.budget]
        tried += [each.make() for each in same if _kin(each.policy) == kin]
        tried += [*winners_for(target)[:MOST_SIMILAR], DoubleImpact(), FreeRide()]
    return list(dict.fromkeys(tried))


def _kin(policy: str) -> str:
    """The part of a name that variants of a policy share: ``thompson`` of ``thompson-cf``."""
    return policy.partition(", ")[0].partition("-")[0]


if __name__ == "__main__":
    main()
