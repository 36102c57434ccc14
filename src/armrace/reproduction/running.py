"""Runs the studies of a paper, judges what it states, and runs archives of results again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from armrace import FIGURES, __version__
from armrace.errors import InvalidParameter, UnknownName
from armrace.loading import load
from armrace.reproduction.papers import PAPERS
from armrace.reproduction.studies import Finding, Form, Paper, Point, Reproduced, Study
from armrace.simulation import Comparison, Experiment, Result, make_experiment
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


def _run(
    study: Study,
    points: Sequence[Point],
    form: Form,
    executor: Executor | None,
    workers: int | None,
) -> Reproduced:
    started = time.perf_counter()
    results: list[Any] = []
    experiments = [each.experiment for each in points]
    for _, group in groupby(experiments, lambda each: (type(each), each.replications)):
        together = list(group)
        if isinstance(together[0], Experiment):
            results += run_experiments(together, executor, workers, False)
        else:
            results += [each.run() for each in together]
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


_IGNORED = ("name",)


class Rerun(NamedTuple):
    """A result of an archive, and the first place where it differs from a run of today."""

    label: str
    runs: int
    difference: str
    """Where they differ; empty if all figures are equal."""

    @property
    def equal(self) -> bool:
        """Whether every figure of the ledger is the same."""
        return not self.difference


def read_archive(path: str | Path) -> tuple[list[str], list[Result], list[Experiment]]:
    """Read an archive or a single result, and make its experiments, without running anything.

    A file may come from anyone: it may name policies, attacks and environments of the library
    only, since a class of its own would be imported.
    """
    found = load(path)
    compared = found if isinstance(found, Comparison) else Comparison([found])
    for result in compared.results.values():
        _refuse_own_classes(result.spec)
    experiments = [make_experiment(**_arguments(r)) for r in compared.results.values()]
    return list(compared.results), list(compared.results.values()), experiments


def _refuse_own_classes(data: Any) -> None:
    """Refuse a specification, or one inside it, that is named by the path of its class."""
    if isinstance(data, dict):
        name = data.get("name")
        if isinstance(name, str) and ":" in name:
            raise InvalidParameter(
                f"the file names a class of its own, {name!r:.80}, which would be imported; run "
                "its specification in Python if you trust it."
            )
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            _refuse_own_classes(each)


def _arguments(result: Result) -> dict[str, Any]:
    return {**{k: v for k, v in result.spec.items() if k not in _IGNORED},
            "replications": result.replications}  # fmt: skip


def rerun(
    labels: Sequence[str],
    results: Sequence[Result],
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    workers: int | None = None,
) -> list[Rerun]:
    """Run the experiments of an archive again, and compare each ledger, figure by figure."""
    again = [run_experiments([each], executor, workers)[0] for each in experiments]
    return [
        Rerun(label, result.replications, first_difference(result.rows, new.rows))
        for label, result, new in zip(labels, results, again, strict=True)
    ]


def first_difference(then: pl.DataFrame, now: pl.DataFrame) -> str:
    """Return the first place where two ledgers differ, in words; empty if they are equal."""
    if then.columns != now.columns or then.height != now.height:
        return f"{then.height} rows of {then.width} columns, now {now.height} of {now.width}"
    for name in then.columns:
        if not then[name].equals(now[name]):
            pairs = zip(then[name].to_list(), now[name].to_list(), strict=True)
            row, (one, other) = next(
                (n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]
            )
            place = then.row(row, named=True)
            return (
                f"{name} in replication {place['replication']} after {place['round']:,} rounds: "
                f"{one}, now {other}"
            )
    return ""
