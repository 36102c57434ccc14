"""Cells: experiments that several families of claims share, each a race under one attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from armrace.formatting import count
from armrace.policies import Policy
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.verification.checks import describe_means
from armrace.verification.guarantees import Subject

ATTACKS: tuple[str | Mapping[str, Any], ...] = (
    "none",
    "zero-best",
    "zero-best-when-likely",
    "swap-best",
    {"name": "aae-opening", "boost": True},
    "adaptive-constant",
)
"""The attacks under which lemmas are checked; three of them read the learner's distribution."""


class Cell(NamedTuple):
    """One race under one attack."""

    subject: Subject
    policy: Policy
    experiment: Experiment
    setting: str


def cells(
    subject: Subject,
    means: Sequence[float],
    attacks: Sequence[str | Mapping[str, Any]],
    corruption: float,
    horizon: int,
    runs: int,
    seed: int,
) -> Iterator[Cell]:
    """Return a cell for each attack against which the race has a guarantee."""
    for attack in attacks:
        quiet = attack == "none"
        if quiet or subject.guarantee.robust:
            policy = subject.facing(corruption)
            experiment = make_experiment(
                policy=policy,
                environment=list(means),
                adversary=attack,
                budget=0.0 if quiet else corruption,
                horizon=horizon,
                replications=runs,
                seed=seed,
            )
            yield Cell(subject, policy, experiment, describe(experiment))


def describe(experiment: Experiment) -> str:
    """Arms, attack and length in a line."""
    told = getattr(experiment.policy, "corruption", None)
    parts = [
        describe_means(experiment.environment.mean_rewards(1)),
        "no attack"
        if experiment.budget == 0
        else f"{experiment.adversary.tag()} with C = {count(experiment.budget)}",
        f"T = {count(experiment.horizon)}",
    ]
    return "; ".join([*parts, f"told C = {count(told)}"] if told is not None else parts)
