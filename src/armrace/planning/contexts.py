"""Whether contexts pay: what leaves of a log would earn, and what they would cost."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import Any

import msgspec

from armrace.contexts import Schema
from armrace.formatting import count, figure, percent
from armrace.offline import Log
from armrace.offline.visitors import choose_leaves, visitors_of
from armrace.planning.question import Question
from armrace.policies import RECOMMENDED, recommended
from armrace.simulation.experiment import make_experiment
from armrace.simulation.simulate import run_experiments

_MOST_RUNS = 8
_ERRORS = 2.0
"""Losses that differ by so many standard errors differ by more than chance."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy loses on the visitors of a log, against the best arm of each."""

    policy: str
    mean: float
    error: float
    """The standard error of the mean."""


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    """What contexts are worth on a log's visitors."""

    schema: Schema
    """The features, with the leaves that are proposed."""
    horizon: int
    kept: float
    """The share of the fitted differences between visitors that other rows confirm."""
    losses: list[Loss]
    """The recommended policy, which ignores contexts, comes first."""
    sentences: list[str]

    @property
    def best(self) -> Loss:
        """The policy with contexts that loses least."""
        return min(self.losses[1:], key=lambda each: each.mean)

    @property
    def earned(self) -> float:
        """How much more the best of them earns than the policy that ignores contexts."""
        return self.losses[0].mean - self.best.mean

    @property
    def is_clear(self) -> bool:
        """Whether that is more than chance explains."""
        return abs(self.earned) > _ERRORS * math.hypot(self.losses[0].error, self.best.error)


def weigh_contexts(
    log: Log,
    question: Question,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Contexts:
    """Find what contexts earn and cost on the visitors of a log, without an attack.

    Args:
        log: a log with a schema, whose own leaves are replaced by those that are proposed.
        question: the traffic, and how often it is simulated.
        executor: see :func:`armrace.simulate`.
        workers: see :func:`armrace.simulate`.
        progress: whether to show progress bars.
    """
    leaves = choose_leaves(log, question.horizon)
    crowd = visitors_of(log.with_leaves(leaves.schema))
    plain: dict[str, Any] = recommended(len(log.arms))
    tried = [plain, {"name": "expert-barrier"}]
    if leaves.schema.leaves:
        tried.insert(1, {**plain, "name": "leaf-barrier"})
    experiments = [
        make_experiment(
            policy=policy,
            environment=crowd.environment,
            horizon=question.horizon,
            replications=min(question.replications, _MOST_RUNS),
            seed=question.seed,
        )
        for policy in tried
    ]
    results = run_experiments(experiments, executor, workers, progress)
    if results[0].interrupted:
        raise KeyboardInterrupt
    figures = [result.figure("pseudo_regret") for result in results]
    found = Contexts(
        schema=leaves.schema,
        horizon=question.horizon,
        kept=crowd.kept,
        losses=[
            Loss(policy=policy["name"], mean=each.mean, error=each.stderr)
            for policy, each in zip(tried, figures, strict=True)
        ],
        sentences=[],
    )
    words = [*leaves.sentences(), _simulated(found), _verdict(found)]
    if leaves.schema.leaves and leaves.interval.low <= 0.0 < found.earned:
        words.append("The log alone does not prove it: the interval of what leaves earn reaches 0.")
    return msgspec.structs.replace(found, sentences=words)


def _simulated(found: Contexts) -> str:
    losses = ", ".join(
        f"{each.policy} {figure(each.mean)} (\N{PLUS-MINUS SIGN} {figure(each.error)})"
        for each in found.losses
    )
    return (
        f"On visitors like those of the log, {count(found.horizon)} decisions lose against the "
        f"best arm of each visitor: {losses}; {RECOMMENDED} ignores contexts. Of the differences "
        f"between visitors that rows show, {percent(found.kept)} are simulated: as much as other "
        "rows confirm."
    )


def _verdict(found: Contexts) -> str:
    if not found.is_clear:
        return "Contexts make no difference here beyond chance: leave them out."
    amount = f"{figure(abs(found.earned))} rewards in {count(found.horizon)} decisions"
    if found.earned < 0.0:
        return f"Contexts cost more than they earn here, by {amount}: leave them out."
    return f"Contexts earn {amount} with {found.best.policy}: declare them."
