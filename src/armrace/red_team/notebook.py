"""The notebook of a search: every replication that was played, so that a search can go on.

A search is a deterministic function of its ratings. To continue one that was interrupted, it runs
again from the start and takes from the notebook what was already played.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from armrace.errors import DamagedFile
from armrace.files import make_folder
from armrace.simulation.code_digest import experiment_code

if TYPE_CHECKING:
    from armrace.red_team.target import Target

__all__ = ["Notebook"]

Row = list[float]


class _Line(msgspec.Struct):
    """Replications of one attack in one stage."""

    stage: int
    attack: str
    rows: dict[int, Row]


class Notebook:
    """Replications by stage and attack, in memory and, with a folder, in a file.

    The name of the file is a digest of all that the figures depend on, so that searches of
    different targets, or with changed code, never mix.
    """

    def __init__(self, target: Target, seed: int, folder: Path | None = None) -> None:
        self._known: defaultdict[tuple[int, str], dict[int, Row]] = defaultdict(dict)
        self._file = None if folder is None else folder / f"{_digest(target, seed)}.ndjson"
        if folder is not None and self._file is not None:
            make_folder(folder)
            if self._file.exists():
                self._read(self._file)

    def known(self, stage: int, attack: str) -> Mapping[int, Row]:
        """Return the replications of an attack that were played, by number."""
        return self._known[stage, attack]

    def add(self, stage: int, attack: str, rows: dict[int, Row]) -> None:
        """Record replications that were played."""
        self._known[stage, attack].update(rows)
        if self._file is not None:
            # One write at the end of the file: whatever kills the process, at most the last line is
            # cut off.
            line = msgspec.json.encode(_Line(stage, attack, rows))
            with self._file.open("ab") as file:
                file.write(line + b"\n")

    def _read(self, file: Path) -> None:
        lines = file.read_bytes().split(b"\n")
        # The last line is empty, or one that was cut off when the process was killed.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                read = msgspec.json.decode(line, type=_Line)
            except msgspec.MsgspecError as error:
                raise DamagedFile(
                    f"line {number} of {file} is damaged; remove the file, and the search starts "
                    "again."
                ) from error
            self._known[read.stage, read.attack].update(read.rows)
        if lines[-1]:
            file.write_bytes(b"\n".join([*lines[:-1], b""]))


def _digest(target: Target, seed: int) -> str:
    experiment = target.experiment("none", 1, 0)
    told = [experiment_code(experiment), target.to_builtins(), seed]
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:20]
