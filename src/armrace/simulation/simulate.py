"""The front door: simulate one policy, or compare many on the same rewards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.environments import Environment
from armrace.errors import InvalidParameter
from armrace.policies import Policy
from armrace.simulation.comparison import Comparison
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import EXECUTORS, chosen_executor
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.parallel import run_all
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.results import Result
from armrace.specification import is_list

__all__ = ["compare", "run_experiments", "simulate"]

PolicyLike = Policy | str | Mapping[str, Any]
EnvironmentLike = Environment | Mapping[str, Any] | npt.ArrayLike
AdversaryLike = Adversary | str | Mapping[str, Any]


def simulate(
    policy: PolicyLike,
    environment: EnvironmentLike,
    adversary: AdversaryLike = "none",
    budget: float | None = None,
    horizon: float = 100_000,
    replications: int = 100,
    seed: int = 0,
    executor: Executor | str | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    progress: bool | None = None,
    audit: float | None = None,
) -> Result:
    """Run one policy in one environment under one attack.

    Policy, environment and adversary are specifications, names, or plain data with a ``name``;
    a list of means stands for Bernoulli arms; an attack needs a budget. Replications run in
    threads, or on ``executor``, which changes nothing in the result. The ``engine`` plays every
    round (``plain``) or leaps over those that cannot matter (``leap``); ``auto`` leaps where it
    can beyond ten million rounds. Ctrl-C keeps the replications that are finished. With
    ``audit``, the level of an audit, every replication is audited at its end.

    >>> result = simulate("ucb1", [0.9, 0.1], horizon=100, replications=2, seed=7)
    >>> result.final["pulls"].to_list()
    [[94, 6], [94, 6]]
    """
    experiment = make_experiment(
        policy=policy,
        environment=environment,
        adversary=adversary,
        budget=budget,
        horizon=horizon,
        replications=replications,
        seed=seed,
        engine=engine,
        audit=audit,
    )
    return _run([experiment], executor, workers, progress)[0]


def compare(
    policies: Sequence[PolicyLike],
    environment: EnvironmentLike,
    adversary: AdversaryLike = "none",
    budget: float | None = None,
    horizon: float = 100_000,
    replications: int = 100,
    seed: int = 0,
    executor: Executor | str | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    progress: bool | None = None,
    audit: float | None = None,
) -> Comparison:
    """Run many policies on the same rewards under the same attack.

    Policies that leap (see :func:`simulate`) meet rewards of the same law, but not the same.
    """
    if not is_list(policies) or not len(policies):
        raise InvalidParameter(f"policies must be a list of policies; got {policies!r}.")
    experiments = [
        make_experiment(
            policy=policy,
            environment=environment,
            adversary=adversary,
            budget=budget,
            horizon=horizon,
            replications=replications,
            seed=seed,
            engine=engine,
            audit=audit,
        )
        for policy in policies
    ]
    return Comparison(_run(experiments, executor, workers, progress))


def _run(
    experiments: Sequence[Experiment],
    executor: Executor | str | None,
    workers: int | None,
    progress: Progress,
) -> list[Result]:
    """Run experiments on an executor, or on one that is started by name and stopped."""
    if isinstance(executor, str):
        with chosen_executor(executor, None, workers) as chosen:
            return run_experiments(experiments, chosen, workers, progress)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InvalidParameter(
            f"executor must be one of {', '.join(EXECUTORS)}, or have submit as those of "
            f"concurrent.futures do; got {executor!r}."
        )
    return run_experiments(experiments, executor, workers, progress)


def run_experiments(
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> list[Result]:
    """Run experiments of equally many replications side by side, each replication together."""
    compile_experiments(experiments, executor, False if callable(progress) else progress)
    title = experiments[0].policy.tag() if len(experiments) == 1 else "comparing"
    started = time.perf_counter()
    with progress_bar(title, progress) as report:
        finished = run_all(experiments, executor, workers, report)
    seconds = time.perf_counter() - started
    if not finished.outcomes:
        raise KeyboardInterrupt
    total = sum(outcome.seconds for row in finished.outcomes for outcome in row)
    results = []
    for experiment, outcomes in zip(experiments, zip(*finished.outcomes, strict=True), strict=True):
        share = sum(outcome.seconds for outcome in outcomes) / total
        results.append(
            Result.from_outcomes(
                experiment, finished.replications, outcomes, seconds * share, finished.interrupted
            )
        )
    return results
