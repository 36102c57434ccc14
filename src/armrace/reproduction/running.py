"""The function ``reproduce``: plays the studies of a paper, and judges what the paper states."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import groupby
from typing import cast

import msgspec

from armrace import FIGURES, __version__
from armrace.errors import UnknownName
from armrace.reproduction.papers import PAPERS
from armrace.reproduction.studies import (
    Finding,
    Form,
    Paper,
    Playable,
    Played,
    Point,
    Reproduced,
    Study,
)
from armrace.simulation import Experiment
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.simulate import run_experiments


class Reproduction(msgspec.Struct, frozen=True):
    """The studies of a paper that were run, with the settings that give the same figures."""

    paper: str
    quick: bool
    seed: int
    studies: tuple[Reproduced, ...]
    seconds: float
    version: str = __version__
    figures: int = FIGURES
    """The number that changes whenever seeds give other figures."""

    @property
    def verdict(self) -> str:
        """What agrees, in a sentence."""
        found = [finding for study in self.studies for finding in study.findings]
        agreed = sum(finding.agrees for finding in found)
        if agreed == len(found):
            return f"All {agreed} statements agree."
        return f"{agreed} of {len(found)} statements agree."


def find_paper(name: str) -> Paper:
    """Return a paper of the list by its name."""
    if name not in PAPERS:
        raise UnknownName.among("paper", name, PAPERS)
    return PAPERS[name]


def reproduce(
    paper: str,
    studies: Sequence[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Reproduction:
    """Run the experiments of a published paper again, and say what agrees with it.

    Args:
        paper: the name of a paper, see ``PAPERS``.
        studies: which of its studies; by default all.
        quick: fewer and shorter runs, at most two minutes on two cores.
        seed: the seed of all runs.
        executor: see :func:`armrace.simulate`.
        workers: see :func:`armrace.simulate`.
        progress: whether to show a progress bar.

    Returns:
        What was found in each study: the points that are drawn, and each statement's verdict.
    """
    found = find_paper(paper)
    known = {study.name: study for study in found.studies}
    for name in studies or ():
        if name not in known:
            raise UnknownName.among("study", name, known)
    chosen = list(found.studies) if studies is None else [known[name] for name in studies]
    started = time.perf_counter()
    form = Form(quick, seed)
    with running_executor(executor, workers) as running:
        points = [study.points(form) for study in chosen]
        every = [each.experiment for placed in points for each in placed]
        simulated = [each for each in every if isinstance(each, Experiment)]
        compile_experiments(simulated, running, progress)
        done: list[Reproduced] = []
        with progress_bar(f"reproducing {paper}", progress) as report:
            for study, placed in zip(chosen, points, strict=True):
                done.append(_run(study, placed, form, running, workers))
                report(len(done) / len(chosen))
    return Reproduction(paper, quick, seed, tuple(done), time.perf_counter() - started)


def _kind(experiment: Experiment | Playable) -> tuple[bool, int]:
    """What experiments that run together have in common."""
    return isinstance(experiment, Experiment), experiment.replications


def _run(
    study: Study,
    points: Sequence[Point],
    form: Form,
    executor: Executor | None,
    workers: int | None,
) -> Reproduced:
    started = time.perf_counter()
    results: list[Played] = []
    experiments = [each.experiment for each in points]
    for (simulated, _), group in groupby(experiments, _kind):
        if simulated:
            results += run_experiments(cast("list[Experiment]", [*group]), executor, workers, False)
        else:
            results += [each.run() for each in cast("list[Playable]", [*group])]
    if any(result.interrupted for result in results):
        raise KeyboardInterrupt
    found = study.found(points, results)
    findings = []
    for statement in study.statements:
        agrees, shown = statement.check(found)
        why = "" if agrees else statement.why
        findings.append(Finding(statement.said, bool(agrees), shown, why))
    return Reproduced(
        study.name,
        study.rows(points, results, form),
        tuple(findings),
        time.perf_counter() - started,
        sum(result.replications for result in results),
    )
