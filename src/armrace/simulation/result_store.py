"""A folder of results, in files named by a hash of everything that the figures depend on.

A finished experiment is one file. An experiment under way is several, each with some of the
replications, so that an interruption costs little. The number of replications is not part of the
name: if more are asked for later, those that are stored are not played again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from armrace.errors import DamagedFile
from armrace.forensics import Audit
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import Outcome
from armrace.simulation.results import Result
from armrace.simulation.storage import load, save


class StoredResult:
    """The files of an experiment in a folder.

    Without ``curves``, they hold the ledger at the horizon only.
    """

    def __init__(self, experiment: Experiment, folder: Path, *, curves: bool = True) -> None:
        self.experiment = experiment
        self._folder = folder
        self._curves = curves
        self._key = _key(experiment, curves)

    @property
    def lock(self) -> Path:
        """The file to lock before anything is added."""
        return self._folder / f"{self._key}.lock"

    @property
    def whole(self) -> Path:
        """The file of the finished experiment."""
        return self._folder / f"{self._key}.parquet"

    def result(self) -> Result | None:
        """Return the result if all replications that the experiment asks for are stored."""
        if not self.whole.exists():
            return None
        whole = _read(self.whole)
        asked = self.experiment.replications
        rows = whole.rows.filter(pl.col("replication") < asked)
        # By number: an interruption may have left out some below the highest.
        if rows["replication"].n_unique() < asked:
            return None
        seconds = whole.seconds * asked / whole.replications
        audits = [found for number, found in _audits(whole).items() if number < asked]
        spec = self.experiment.to_builtins()
        return Result(spec, rows, whole.view, seconds, audits=audits, means=whole.means)

    def missing(self) -> list[int]:
        """Return the replications that are asked for and not stored."""
        there: set[int] = set()
        for piece in self._pieces():
            there.update(piece.final["replication"].to_list())
        return [n for n in range(self.experiment.replications) if n not in there]

    def add(self, outcomes: dict[int, Outcome]) -> None:
        """Store more replications."""
        numbers = sorted(outcomes)
        found = [outcomes[number] for number in numbers]
        seconds = sum(outcome.seconds for outcome in found)
        part = Result.from_outcomes(self.experiment, numbers, found, seconds, interrupted=True)
        rows = part.rows if self._curves else part.final
        target = self._folder / f"{self._key}-{numbers[0]}.parquet"
        save(Result(part.spec, rows, part.view, seconds, True, part.audits, part.means), target)

    def finish(self) -> None:
        """Join the stored pieces into one file, in which replications may still be missing."""
        parts = self._parts()
        if not parts:
            return
        pieces = self._pieces()
        rows = pl.concat([piece.rows for piece in pieces]).unique(["replication", "round"])
        view = next((piece.view for piece in pieces if piece.view), [])
        seconds = sum(piece.seconds for piece in pieces)
        numbers = rows["replication"].unique()
        reached = int(numbers.max()) + 1  # type: ignore[arg-type]  # a number, as there are rows
        spec = {**self.experiment.to_builtins(), "replications": reached}
        interrupted = len(numbers) < reached
        audits: dict[int, Audit] = {}
        for piece in pieces:
            audits.update(_audits(piece))
        found = [audits[number] for number in sorted(audits)]
        rows = rows.sort("replication", "round")
        means = pieces[0].means
        # Pieces are removed only after the whole is on disk. If the process is killed in between,
        # replications are stored twice, which ``unique`` above resolves the next time.
        save(Result(spec, rows, view, seconds, interrupted, found, means), self.whole)
        for part in parts:
            part.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob(f"{self._key}-*.parquet"))

    def _pieces(self) -> list[Result]:
        files = [self.whole] if self.whole.exists() else []
        return [_read(file) for file in (*files, *self._parts())]


def _read(file: Path) -> Result:
    try:
        return load(file)
    except DamagedFile as error:
        raise DamagedFile(f"{file} is damaged; remove it, and its part is played again.") from error


def _audits(piece: Result) -> dict[int, Audit]:
    """Audits by replication; empty if none were asked for."""
    numbers = piece.final["replication"].to_list()
    return dict(zip(numbers, piece.audits, strict=True)) if piece.audits else {}


def _key(experiment: Experiment, curves: bool) -> str:
    spec: dict[str, Any] = experiment.to_builtins()
    # More replications continue the same experiment: its first ones stay as they are.
    del spec["replications"]
    told: Sequence[Any] = [experiment_code(experiment), curves, spec]
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:20]
