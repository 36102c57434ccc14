"""Add the winners of searches to the library that comes with the package.

``python docs/library.py FOLDER...``, where each folder holds the verdicts of a campaign: the folder
``worst`` in the folder of an arena, or one of the folders of ``docs/grid.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from armrace.files import write_text
from armrace.red_team.campaign import winners_of
from armrace.red_team.library import load_library

PLACE = Path(__file__).parents[1] / "src" / "armrace" / "red_team" / "winners.json"


def main(*folders: str) -> None:
    """Add verdicts; the worst of several for the same policy, kind and budget is kept."""
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.json"))]
    verdicts = [msgspec.json.decode(file.read_bytes()) for file in files]
    # Policies with parameters of their own would compete with the defaults for the same place.
    usual = [found for found in verdicts if found["policy_name"] == found["policy"]["name"]]
    best = {}
    for winner in sorted([*load_library(), *winners_of(usual)], key=lambda each: each.mean):
        best[winner.policy, winner.kind, winner.budget, winner.horizon] = winner
    lines = [msgspec.json.encode(winner).decode() for _, winner in sorted(best.items())]
    write_text(PLACE, "[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} winners in {PLACE.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
