"""Play ``strip`` on policies whose worst attacks were searched before it was known.

``python docs/strip.py FOLDER POLICY...`` plays it in ``clicks`` and ``one-better`` at four budgets,
with the edge that costs most in a few runs, for as many held-out runs as a search has, and appends
a line for each cell to ``strip.ndjson`` in the folder. ``docs/arena_page.py`` writes such a figure
into the page where it is larger than what the search had found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from grid import CAMPAIGNS
from grid import chains as chains_of

from armrace.adversaries import Strip
from armrace.red_team.notebook import Notebook
from armrace.red_team.ratings import Ratings, Stage
from armrace.red_team.verdict import held_out

EDGES = (0.0, 0.1, 0.2)
LARGEST, CHOOSING, CONFIRMING = 1000.0, 6, 60


def main(folder: str, *policies: str) -> None:
    """Play the cells of some policies that the file does not have."""
    file = Path(folder) / "strip.ndjson"
    lines = file.read_bytes().splitlines() if file.exists() else []
    known = {tuple(msgspec.json.decode(line)["cell"]) for line in lines}
    for chain in chains_of(CAMPAIGNS, policies, ("clicks", "one-better")):
        for cell in chain.cells:
            key = (cell.environment, cell.policy, cell.target.budget)
            if key in known or cell.target.budget > LARGEST or cell.target.horizon != 100_000:
                continue
            known.add(key)
            book = Notebook(cell.target, 0)
            choosing = Ratings(cell.target, Stage.SELECTING, 0, book, workers=1)
            confirming = Ratings(cell.target, Stage.CONFIRMING, 0, book, workers=1)
            attacks = [Strip(edge=edge) for edge in EDGES]
            choosing.rate(attacks, CHOOSING)
            worst = max(attacks, key=choosing.value)
            confirming.rate([worst], CONFIRMING)
            found = held_out(confirming, worst).to_builtins()
            line = msgspec.json.encode({"cell": key, "held_out": found, "edge": worst.edge})
            with file.open("ab") as out:
                out.write(line + b"\n")
            print(*key, f"{found['mean']:.0f} ± {found['stderr']:.0f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
