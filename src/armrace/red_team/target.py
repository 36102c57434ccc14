"""What a search attacks, how many simulations it may use, and what its attacks cost."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary, Setting
from armrace.environments import Environment
from armrace.errors import DamagedFile, InvalidParameter, UnknownName
from armrace.files import make_folder
from armrace.kernels.crowds import Crowd
from armrace.kernels.fingerprints import is_own
from armrace.policies import Policy
from armrace.randomness import MAXIMAL_SEED
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.experiment import Experiment, make_experiment, refresh_for
from armrace.simulation.parallel import Batch, run_missing
from armrace.simulation.replication import run_replication
from armrace.simulation.results import FIGURES_OF_A_RUN, WHERE_MEANS_MOVE, check_measure
from armrace.statistics import standard_error


class SearchBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many simulations a search may use, and for what.

    The initial candidates go through several rungs: each keeps the best attacks so far and plays
    some replications more of each. Then ``generations`` of an evolution vary the best ``parents``.
    The best ``finalists`` are compared on seeds of their own; the winner is frozen and confirmed,
    next to the best built-in attack, on seeds that took no part.
    """

    rungs: tuple[tuple[int, int], ...]
    """For each rung the number of attacks kept and the replications added of each."""
    parents: int
    children: int
    generations: int
    replications: int
    """Replications of each parent and child in each generation."""
    finalists: int
    selecting: int
    confirming: int
    known: int = MAXIMAL_SEED
    """How many known attacks are tried at first; if there are more, at even distances."""

    @property
    def searching(self) -> int:
        """Replications of the initial candidates and of the evolution."""
        initial = sum(kept * added for kept, added in self.rungs)
        return initial + self.generations * (self.parents + self.children) * self.replications

    @property
    def total(self) -> int:
        """All replications: of searching, selecting and confirming."""
        return self.searching + self.finalists * self.selecting + 2 * self.confirming


EFFORTS: dict[str, SearchBudget] = {
    "few": SearchBudget(
        # For agents of which a single call takes long, or costs money.
        rungs=((16, 1), (4, 3)),
        parents=2,
        children=2,
        generations=1,
        replications=2,
        finalists=2,
        selecting=4,
        confirming=8,
        known=12,
    ),
    "quick": SearchBudget(
        # Two replications of each attack at first: one alone often drops the best.
        rungs=((56, 2), (16, 4), (6, 8)),
        parents=3,
        children=4,
        generations=3,
        replications=4,
        finalists=3,
        selecting=24,
        confirming=60,
    ),
    "usual": SearchBudget(
        rungs=((96, 2), (40, 4), (16, 10)),
        parents=4,
        children=8,
        generations=6,
        replications=8,
        finalists=5,
        selecting=60,
        confirming=200,
    ),
    "full": SearchBudget(
        rungs=((200, 3), (80, 8), (32, 20)),
        parents=6,
        children=14,
        generations=14,
        replications=14,
        finalists=8,
        selecting=200,
        confirming=1000,
    ),
}


def find_budget(name: str) -> SearchBudget:
    """The budget of this effort, or an error that suggests the nearest."""
    if name not in EFFORTS:
        raise UnknownName.among("effort", name, EFFORTS)
    return EFFORTS[name]


Objective = Literal["mean", "p95"]
OBJECTIVES: tuple[Objective, ...] = ("mean", "p95")

Floats = npt.NDArray[np.float64]


class Target(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A policy under attack, and what the attacker wants to be large."""

    policy: Policy
    environment: Environment
    budget: float
    horizon: int
    measure: str = "pseudo_regret"
    objective: Objective = "mean"
    account: str = "largest"

    def __post_init__(self) -> None:
        check_measure(self.measure)
        if self.objective not in OBJECTIVES:
            raise UnknownName.among("objective", self.objective, OBJECTIVES)
        if not self.budget > 0:
            raise InvalidParameter(f"budget must be above 0; got {self.budget:g}.")
        self.experiment("none", 1, 0)  # refused here, not after the first simulations

    def experiment(self, attack: Adversary | str, replications: int, seed: int) -> Experiment:
        """The experiment in which an attack is tried.

        An attack that looks at a costly distribution, such as Thompson sampling's, sees one that
        is computed now and then; see :func:`armrace.simulation.experiment.refresh_for`.
        """
        made = attack if isinstance(attack, Adversary) else None
        return make_experiment(
            policy=self.policy,
            environment=self.environment,
            adversary=attack,
            budget=self.budget,
            horizon=self.horizon,
            replications=replications,
            seed=seed,
            account=self.account,
            refresh=0.0 if made is None else refresh_for(self.policy, made),
        )

    def setting(self) -> Setting:
        """What an attacker knows before the first round."""
        return self.experiment("none", 1, 0).setting()._replace(budget=float(self.budget))

    def value(self, sample: Floats) -> float:
        """What the attacker wants to be large, of a sample of the measure."""
        return float(sample.mean() if self.objective == "mean" else np.quantile(sample, 0.95))

    def cautious_value(self, sample: Floats) -> float:
        """The value less one standard error: what attacks are ranked by.

        Regrets under attack have heavy tails. Ranked by plain means, the luckiest of many attacks
        would win, and its held-out figure would be far below.
        """
        return self.value(sample) - standard_error(sample)

    @property
    def sees_arm(self) -> bool:
        """Whether attacks see the arm before they answer, and pay for what is seen alone."""
        return self.account == "seen"

    def model(self) -> str:
        """Name the account in words, where it is not the paper's; empty where it is."""
        return "by attacks that see the arm, charged for what is seen" if self.sees_arm else ""

    @cached_property
    def crowd(self) -> Crowd | None:
        """The kinds of visitors, where they differ."""
        return self.environment.crowd()

    def all_lost(self) -> float:
        """The pseudo-regret of playing the worst arm in every round."""
        means = self.setting().means if self.crowd is None else self.crowd.means
        return float(self.horizon * np.ptp(means, axis=-1).mean())

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        data = {field: getattr(self, field) for field in self.__struct_fields__}
        return {
            **data,
            "policy": self.policy.to_builtins(),
            "environment": self.environment.to_builtins(),
        }


Row = list[float]


class _Line(msgspec.Struct):
    """Replications of one attack in one stage."""

    stage: int
    attack: str
    rows: dict[int, Row]


class Journal:
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
    given = [experiment_code(experiment), target.to_builtins(), seed]
    return hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest()[:20]


class Stage(IntEnum):
    """The stages of a search, each with seeds of its own."""

    SEARCHING = 1
    SELECTING = 2
    CONFIRMING = 3


def seed_of(seed: int, stage: Stage) -> int:
    """Return the seed of the experiments of a stage."""
    state = np.random.SeedSequence([seed, int(stage)]).generate_state(1, dtype=np.uint64)
    return int(state[0]) & MAXIMAL_SEED


_KEPT = (*FIGURES_OF_A_RUN, *WHERE_MEANS_MOVE)


def final_ledger(
    experiment: Experiment, replication: int, control: npt.NDArray[np.int64] | None = None
) -> list[float]:
    """Play one replication and return the measures at the horizon."""
    outcome = run_replication(experiment, replication, control)
    return [float(getattr(outcome, measure)[-1]) for measure in _KEPT]


class Ratings:
    """What attacks achieved in one stage of a search."""

    def __init__(
        self,
        target: Target,
        stage: Stage,
        seed: int,
        journal: Journal,
        executor: Executor | None = None,
        workers: int | None = None,
    ) -> None:
        self.target = target
        self.stage = stage
        self.seed = seed_of(seed, stage)
        self.played = 0
        self._journal = journal
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
            known = self._journal.known(self.stage, key)
            absent = [number for number in range(first, last) if number not in known]
            if absent:
                experiments.append(self.target.experiment(attack, last, self.seed))
                keys.append(key)
                missing.append(absent)

        def receive(batch: Batch, outcomes: Sequence[Any]) -> None:
            rows = dict(zip(batch.replications, outcomes, strict=True))
            self._journal.add(self.stage, keys[batch.position], rows)

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
            known = self._journal.known(self.stage, key)
            self._rows.setdefault(key, []).extend(known[n] for n in range(first, last))
        # Those from the journal count too: a search that was resumed gives the same verdict.
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
        of an attack that was edited since are not taken from the journal.
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
        column = _KEPT.index(measure or self.target.measure)
        return np.array([row[column] for row in self._rows[self._key(attack)]])

    def value(self, attack: Adversary) -> float:
        """Return what the attack achieved: the mean or the quantile that it wants to be large."""
        return self.target.value(self.sample(attack))

    def count(self, attack: Adversary) -> int:
        """Return how many replications of an attack were played."""
        return len(self._rows[self._key(attack)])
