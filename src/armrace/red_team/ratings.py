"""What attacks cost, played in parts and kept in a journal."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.errors import DamagedFile
from armrace.files import make_folder
from armrace.kernels.fingerprints import is_own
from armrace.randomness import MAXIMAL_SEED
from armrace.red_team.target import Target
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.experiment import Experiment
from armrace.simulation.parallel import Batch, run_missing
from armrace.simulation.replication import run_replication
from armrace.simulation.results import FIGURES_OF_A_RUN

if TYPE_CHECKING:
    from armrace.red_team.target import Target


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


Floats = npt.NDArray[np.float64]


class Stage(IntEnum):
    """The stages of a search, each with seeds of its own."""

    SEARCHING = 1
    SELECTING = 2
    CONFIRMING = 3


def seed_of(seed: int, stage: Stage) -> int:
    """Return the seed of the experiments of a stage."""
    state = np.random.SeedSequence([seed, int(stage)]).generate_state(1, dtype=np.uint64)
    return int(state[0]) & MAXIMAL_SEED


def final_ledger(
    experiment: Experiment, replication: int, control: npt.NDArray[np.int64] | None = None
) -> list[float]:
    """Play one replication and return the measures at the horizon."""
    outcome = run_replication(experiment, replication, control)
    return [float(getattr(outcome, measure)[-1]) for measure in FIGURES_OF_A_RUN]


class Ratings:
    """What attacks achieved in one stage of a search."""

    def __init__(
        self,
        target: Target,
        stage: Stage,
        seed: int,
        notebook: Notebook,
        executor: Executor | None = None,
        workers: int | None = None,
    ) -> None:
        self.target = target
        self.stage = stage
        self.seed = seed_of(seed, stage)
        self.played = 0
        self._notebook = notebook
        self._executor, self._workers = executor, workers
        self._next = 0
        self._rows: dict[str, list[list[float]]] = {}
        self._attacks: dict[str, Adversary] = {}
        self._compiled: set[type[Adversary]] = set()
        self._code: dict[type[Adversary], str] = {}

    def rate(
        self,
        attacks: Sequence[Adversary],
        replications: int,
        progress: Callable[[float], None] = lambda share: None,
    ) -> None:
        """Play new replications, the same for all ``attacks``."""
        # Numbers that no rating has used: an attack that was lucky before meets other rewards now.
        first, last = self._next, self._next + replications
        self._next = last
        distinct = {self._key(attack): attack for attack in attacks}
        self._attacks |= distinct
        experiments, keys, missing = [], [], []
        for key, attack in distinct.items():
            known = self._notebook.known(self.stage, key)
            absent = [number for number in range(first, last) if number not in known]
            if absent:
                experiments.append(self.target.experiment(attack, last, self.seed))
                keys.append(key)
                missing.append(absent)

        def receive(batch: Batch, outcomes: Sequence[Any]) -> None:
            rows = dict(zip(batch.replications, outcomes, strict=True))
            self._notebook.add(self.stage, keys[batch.position], rows)

        if experiments:
            self._compile(experiments)
            if run_missing(
                experiments,
                missing,
                self._executor,
                self._workers,
                progress,
                receive,
                final_ledger,
            ):
                raise KeyboardInterrupt
        for key in distinct:
            known = self._notebook.known(self.stage, key)
            self._rows.setdefault(key, []).extend(known[n] for n in range(first, last))
        # Those from the notebook count too: a search that was resumed gives the same verdict.
        self.played += replications * len(distinct)

    def _compile(self, experiments: Sequence[Experiment]) -> None:
        """Compile classes of attacks that were not rated before; the target stays the same."""
        new = {type(each.adversary): each for each in experiments}
        new = {attack: new[attack] for attack in new if attack not in self._compiled}
        compile_experiments(list(new.values()), self._executor, progress=False)
        self._compiled.update(new)

    def _key(self, attack: Adversary) -> str:
        """Return a text that two attacks share if and only if they are the same.

        It includes a digest of the attack's code if that is not the package's own, so that ratings
        of an attack that was edited since are not taken from the notebook.
        """
        kind = type(attack)
        if kind not in self._code:
            experiment = self.target.experiment(attack, 1, 0)
            self._code[kind] = "" if is_own(kind) else f"{experiment_code(experiment)} "
        return self._code[kind] + msgspec.json.encode(attack.to_builtins(), order="sorted").decode()

    def attacks(self) -> list[Adversary]:
        """Return all attacks that were rated, in the order in which they came."""
        return list(self._attacks.values())

    def sample(self, attack: Adversary, measure: str | None = None) -> Floats:
        """Return a measure of all replications of an attack, by default what it wants to raise."""
        # All measures of a replication are kept, so that what was spent is known without a replay.
        column = FIGURES_OF_A_RUN.index(measure or self.target.measure)
        return np.array([row[column] for row in self._rows[self._key(attack)]])

    def value(self, attack: Adversary) -> float:
        """Return what the attack achieved: the mean or the quantile that it wants to be large."""
        return self.target.value(self.sample(attack))

    def count(self, attack: Adversary) -> int:
        """Return how many replications of an attack were played."""
        return len(self._rows[self._key(attack)])
