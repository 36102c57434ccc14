"""Search for worst attacks on a grid of environments and budgets, for ``docs/arena.md``.

``python docs/grid.py FOLDER [PART...]`` plays the cells that the folder does not hold yet, one
verdict per file, on one core; ``python docs/arena.py worst FOLDER/PART`` prints a table. The parts
are campaigns of their own:

- ``budgets``: the four environments that are cheap to play, at five budgets.
- ``environments``: the other two at two budgets.
- ``thompson``: Thompson sampling, which is slower, at two budgets.
- ``long``: two arms for a million rounds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from armrace.red_team.campaign import Campaign, run_campaign
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

POLICIES = (
    "optimistic-log-barrier",
    {"name": "optimistic-log-barrier", "optimism": 0.1},
    "tsallis-inf",
    "lb-inf",
    "sharp-race",
    "ucb1",
)
CHEAP = ("two-arms", "one-better", "clicks", "near-ties")
COSTLY = ("ratings", "hundred-arms")

CAMPAIGNS = {
    "budgets": Campaign(
        policies=POLICIES,
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in CHEAP},
        budgets=(32.0, 100.0, 316.0, 1000.0, 5623.0),
        effort="quick",
    ),
    "environments": Campaign(
        policies=POLICIES,
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in COSTLY},
        budgets=(100.0, 1000.0),
        effort="quick",
    ),
    "thompson": Campaign(
        policies=("thompson",),
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in (*CHEAP, "ratings")},
        budgets=(100.0, 1000.0),
        effort="quick",
    ),
    "long": Campaign(
        policies=("optimistic-log-barrier", "tsallis-inf"),
        environments={"two-arms": ENVIRONMENTS_OF_THE_ARENA["two-arms"]},
        budgets=(1000.0,),
        horizon=1_000_000,
        effort="quick",
    ),
}


def main(folder: str, *parts: str) -> None:
    """Play what is missing."""
    for part in parts or CAMPAIGNS:

        def report(done: int, total: int, words: str, part: str = part) -> None:
            spent = time.process_time()
            print(f"{part}: {done} of {total}, {spent:,.0f} s: {words}", flush=True)

        run_campaign(CAMPAIGNS[part], Path(folder) / part, workers=1, report=report)


if __name__ == "__main__":
    main(*sys.argv[1:])
