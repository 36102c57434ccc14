"""Simulate one policy, or compare many on the same rewards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.environments import Environment
from armrace.errors import InvalidParameter
from armrace.policies import Policy
from armrace.simulation.compilation import checked_parts, compile_experiments, first_parts
from armrace.simulation.executors import running_executor
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.parallel import run_all
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.replication import run_replication
from armrace.simulation.results import Comparison, Result
from armrace.specification import is_list

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
    account: str = "largest",
    refresh: float = 0.0,
    checked: bool = False,
) -> Result:
    """Run one policy in one environment under one attack.

    The same arguments give the same figures, on any executor and with any number of workers. Ctrl-C
    keeps the replications that are finished.

    Args:
        policy: the algorithm: a name of ``POLICIES``, a specification, or plain data with a
            ``name``.
        environment: the source of rewards: a specification, plain data with a ``name``, or a list
            of means, which stands for Bernoulli arms.
        adversary: the attack: a name of ``ADVERSARIES``, a specification, or plain data with a
            ``name``.
        budget: the most corruption that the attack may spend; required for every attack except
            ``none``.
        horizon: the number of rounds of each replication.
        replications: the number of independent runs.
        seed: the seed of all randomness.
        executor: what runs the replications: None for threads, an executor such as those of
            ``concurrent.futures``, or one of ``threads``, ``processes`` and ``dask``,
            which is then started for this call.
        engine: ``plain`` plays every round; ``leap`` skips rounds that cannot matter, and draws
            different random numbers from the same distribution; ``auto`` leaps beyond ten million
            rounds where that is possible.
        workers: the number of threads, or of processes of a named executor; by default one per
            core.
        progress: whether to show a progress bar; by default on a terminal, and a line per minute
            elsewhere.
        audit: the level at which every replication is audited at its end; by default no audit.
        account: what a round costs the attack: ``largest``, as in the paper, its largest change;
            ``seen``, only the change of the arm that is drawn, as for an attacker who sees the arm
            before answering. The guarantees of the paper do not cover the second.
        refresh: for an attack that reads a distribution that is costly to compute, such as that of
            Thompson sampling: the distribution is recomputed when the plays of an arm have grown
            by this share and the rounds by a third of it; 0 recomputes it in every round.
        checked: whether to compile the policy with bounds checks. Slower, for policies under
            development: a wrong index in its own code is refused instead of overwriting memory.

    Returns:
        The ledger of all replications, with the specification that runs it again.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.

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
        account=account,
        refresh=refresh,
    )
    return _run([experiment], executor, workers, progress, checked)[0]


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
    account: str = "largest",
    refresh: float = 0.0,
    checked: bool = False,
) -> Comparison:
    """Run many policies on the same rewards under the same attack.

    Policies that leap meet different rewards from the same distribution. Arguments are
    as for :func:`simulate`, and shared by all policies, but ``policies`` is a list of them.

    Returns:
        A :class:`Result` for each policy, with tables of their figures and differences.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.
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
            account=account,
            refresh=refresh,
        )
        for policy in policies
    ]
    return Comparison(_run(experiments, executor, workers, progress, checked))


def _run(
    experiments: Sequence[Experiment],
    executor: Executor | str | None,
    workers: int | None,
    progress: Progress,
    checked: bool,
) -> list[Result]:
    """Run experiments on an executor, or on one that is started by name and stopped."""
    with running_executor(executor, workers) as running:
        return run_experiments(experiments, running, workers, progress, checked)


def run_experiments(
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress = None,
    checked: bool = False,
) -> list[Result]:
    """Run experiments with the same number of replications side by side."""
    task = partial(run_replication, checked=checked)
    make = checked_parts if checked else first_parts
    compile_experiments(experiments, executor, progress, make)
    title = experiments[0].policy.tag() if len(experiments) == 1 else "comparing"
    started = time.perf_counter()
    with progress_bar(title, progress) as report:
        finished = run_all(experiments, executor, workers, report, task)
    seconds = time.perf_counter() - started
    if not finished.outcomes:
        raise KeyboardInterrupt
    total = sum(outcome.seconds for row in finished.outcomes for outcome in row)
    results = []
    for experiment, outcomes in zip(experiments, zip(*finished.outcomes, strict=True), strict=True):
        # They ran side by side: each gets its part of the time by what its own loops took.
        share = sum(outcome.seconds for outcome in outcomes) / total
        results.append(
            Result.from_outcomes(
                experiment, finished.replications, outcomes, seconds * share, finished.interrupted
            )
        )
    return results
