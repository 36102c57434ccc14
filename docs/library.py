"""Add the winners of searches to the library that comes with the package.

``python docs/library.py FOLDER...``, where each folder holds the verdicts of a batch of searches:
the folder ``worst`` in the folder of an arena, or one of the folders of ``docs/grid.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

import armrace
from armrace.files import write_text
from armrace.red_team.batches import newest_verdicts, winners_of
from armrace.red_team.library import FORMAT, Winner, load_library
from armrace.red_team.verdict import changed_parameters

PLACE = Path(__file__).parents[1] / "src" / "armrace" / "red_team" / "winners.json"


def main(*folders: str) -> None:
    """Add verdicts; one for the same policy, environment, budget and horizon is replaced.

    The newest stays, not the largest: the largest of several held-out means is no held-out mean.
    """
    files = [file for folder in folders for file in Path(folder).glob("*.json")]
    verdicts = list(newest_verdicts(files).values())
    # Policies with parameters of their own would compete with the defaults for the same place.
    usual = [found for found in verdicts if found["policy_name"] == found["policy"]["name"]]
    known = load_library()
    efforts = {(found["search"]["effort"], found["search"]["seed"]) for found in usual}
    if efforts - {(known.effort, known.seed)}:
        raise SystemExit(f"the library has winners of effort {known.effort}, seed {known.seed}.")
    kept = {
        (each.policy, each.environment, each.budget, each.horizon): each
        for each in [*known.winners, *winners_of(usual)]
    }
    header = {
        "format": FORMAT,
        "figures": armrace.FIGURES,
        "version": armrace.__version__,
        "effort": known.effort,
        "seed": known.seed,
    }
    lines = ",\n".join(written(winner) for _, winner in sorted(kept.items()))
    opening = msgspec.json.encode(header).decode().removesuffix("}")
    write_text(PLACE, f'{opening},"winners":[\n{lines}\n]}}\n')
    print(f"{len(kept)} winners in {PLACE.name}")


def written(winner: Winner) -> str:
    """A winner as a line: its attack without the parameters that have their defaults."""
    attack = winner.make()
    short = {"name": attack.identifier(), **changed_parameters(attack)}
    return msgspec.json.encode(msgspec.structs.replace(winner, attack=short)).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
