"""Compare the two searchers of the red team at an equal budget, for ``docs/guide/red-team.md``.

``python docs/searchers.py`` searches five cells twice each, on one core, and prints the table. Both
searchers begin with the same candidates and play equally many replications; the figures are of
held-out seeds, which are the same for both.
"""

from __future__ import annotations

import time

import armrace
from armrace.formatting import count, figure
from armrace.red_team.search import SEARCHERS
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

CELLS = (
    ("optimistic-log-barrier", "clicks", 100),
    ("optimistic-log-barrier", "one-better", 100),
    ("optimistic-log-barrier", "two-arms", 100),
    ("lb-inf", "clicks", 316),
    ("tsallis-inf", "one-better", 1000),
)


def main() -> None:
    """Search each cell with each searcher, and print a row a cell."""
    names = " | ".join(f"`{name}`" for name in SEARCHERS)
    print(f"| policy | cell | {names} | best built-in attack |")
    print("|---|---|---|---|---|", flush=True)
    for policy, environment, budget in CELLS:
        texts = []
        for searcher in SEARCHERS:
            began = time.process_time()
            verdict = armrace.redteam(
                policy,
                ENVIRONMENTS_OF_THE_ARENA[environment],
                budget,
                searcher=searcher,
                effort="quick",
                workers=1,
                progress=False,
            )
            found, rival = verdict.held_out, verdict.builtin_held_out
            texts.append(f"{figure(found.mean)} ± {figure(found.stderr)}")
            spent = time.process_time() - began
            print(f"<!-- {searcher}, {spent:.0f} s: {verdict.description} -->", flush=True)
        texts.append(f"{figure(rival.mean)} ± {figure(rival.stderr)} (`{verdict.builtin.tag()}`)")
        cell = f"{environment}, C = {count(budget)}"
        print(f"| `{policy}` | {cell} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
