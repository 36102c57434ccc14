"""Trying every claim: the experiments once each, then a verdict a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.policies import Policy
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.experiment import Experiment
from armrace.simulation.parallel import run_all
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.replication import LONGEST_PLAYED_BY_DEFAULT
from armrace.specification import is_list
from armrace.verification.asymptotics import (
    RACES_THAT_LEAP,
    Curve,
    asymptotic_claims,
    asymptotic_series,
    draw_up,
)
from armrace.verification.checks import Check, Claim
from armrace.verification.contracts import CHECKED, CHECKED_AT_LENGTH, Subject, make_subject
from armrace.verification.forms import FULL, QUICK, Form
from armrace.verification.lemmas import lemma_claims
from armrace.verification.lower_bounds import race_lower_bounds, ucb1_lower_bounds
from armrace.verification.regrets import regret_claims
from armrace.verification.runs import Runs, examine, gather, witnessed_parts

__all__ = ["ERROR_PROBABILITY", "Verification", "make_claims", "try_claims", "verify"]

Policies = Sequence[Policy | str | Mapping[str, Any]] | None

ERROR_PROBABILITY = 0.01
"""With which all true claims together are called refuted, at most."""


class Verification(msgspec.Struct, frozen=True):
    """The claims that were tried, and with what they may be wrongly refuted."""

    checks: tuple[Check, ...]
    seed: int
    quick: bool
    curves: tuple[Curve, ...] = ()
    """Growth on the paper's axes, of the asymptotic form."""
    error_probability: float = ERROR_PROBABILITY

    @property
    def holds(self) -> bool:
        """Whether no claim was refuted."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The claims that were refuted."""
        return tuple(check for check in self.checks if check.verdict == "fails")

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        count = len(self.checks)
        if self.holds:
            return f"All {count} claims hold."
        return f"{len(self.failed)} of {count} claims fail."

    def to_builtins(self) -> list[dict[str, Any]]:
        """As plain data: an object for each claim."""
        rows: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(self.checks))
        return rows


def verify(
    policies: Policies = None,
    *,
    quick: bool = False,
    asymptotic: bool = False,
    seed: int = 0,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Verification:
    """Try every lemma and theorem of the paper by experiment.

    ``policies`` are races, by name, as specifications or as plain data with a ``name``; a policy
    of your own is held to the promises of the race that it derives from. By default all races
    are tried, and UCB1 under the lower bounds. ``quick`` takes a minute at most in place of a
    quarter of an hour. ``asymptotic`` shows how the regret grows up to 10^12 rounds and a
    corruption of 10^6 instead.

    Every interval is computed at the level of 1% divided by the number of claims, so that with
    probability 99% no true claim is called refuted.
    """
    form = QUICK if quick else FULL
    if asymptotic:
        return _verify_growth(policies, form, seed, executor, workers, progress)
    claims = make_claims(policies, form, seed)
    return Verification(try_claims(claims, executor, workers, progress), seed, quick)


def _verify_growth(
    policies: Policies,
    form: Form,
    seed: int,
    executor: Executor | None,
    workers: int | None,
    progress: Progress,
) -> Verification:
    subjects = _subjects(policies, RACES_THAT_LEAP)
    series = [
        each
        for subject in subjects
        for each in asymptotic_series(subject, form.asymptotic_runs, seed)
    ]
    claims = [claim for each in series for claim in asymptotic_claims(each)]
    played = _play(claims, executor, workers, progress)
    curves = tuple(draw_up(each, played) for each in series)
    return Verification(_judge_all(claims, played), seed, form is QUICK, curves)


def _subjects(policies: Policies, usual: Sequence[str | Mapping[str, Any]]) -> list[Subject]:
    if policies is not None and not is_list(policies):
        raise InvalidParameter(f"policies must be a list of races; got {policies!r}.")
    if policies is not None and not len(policies):
        raise InvalidParameter("policies must name at least one race; got none.")
    return [make_subject(policy) for policy in (usual if policies is None else policies)]


def make_claims(policies: Policies, form: Form, seed: int) -> list[Claim]:
    """All that is to be tried, lemmas first."""
    subjects = _subjects(policies, CHECKED if form is QUICK else CHECKED_AT_LENGTH)
    families = (lemma_claims, regret_claims, race_lower_bounds)
    claims = [
        claim
        for family in families
        for subject in subjects
        for claim in family(subject, form, seed)
    ]
    return claims if policies is not None else [*claims, *ucb1_lower_bounds(form, seed)]


def try_claims(
    claims: Sequence[Claim],
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> tuple[Check, ...]:
    """A verdict for each claim, all of them together at the error probability."""
    return _judge_all(claims, _play(claims, executor, workers, progress))


def _judge_all(claims: Sequence[Claim], played: Mapping[Experiment, Runs]) -> tuple[Check, ...]:
    level = ERROR_PROBABILITY / len(claims)
    return tuple(_judge(claim, played, level) for claim in claims)


def _judge(claim: Claim, played: Mapping[Experiment, Runs], level: float) -> Check:
    found = claim.judge([played[experiment] for experiment in claim.experiments], level)
    return Check(
        claim=claim.claim,
        policy=claim.policy,
        setting=claim.setting,
        measure=claim.measure,
        runs=found.runs,
        failures=found.failures,
        interval=(float(found.interval.low), float(found.interval.high)),
        limit=float(found.limit),
        verdict="holds" if found.holds else "fails",
    )


def _play(
    claims: Sequence[Claim], executor: Executor | None, workers: int | None, progress: Progress
) -> dict[Experiment, Runs]:
    """Every experiment that some claim needs, once."""
    experiments = list(dict.fromkeys(e for claim in claims for e in claim.experiments))
    compile_experiments(experiments, executor, progress, witnessed_parts)
    total = sum(map(_cost, experiments))
    played: dict[Experiment, Runs] = {}
    done = 0.0
    with progress_bar("verifying", progress) as report:
        for experiment in experiments:
            cost = _cost(experiment)
            portion = _portion(report, done / total, cost / total)
            finished = run_all([experiment], executor, workers, portion, task=examine)
            if finished.interrupted:
                raise KeyboardInterrupt
            played[experiment] = gather([row[0] for row in finished.outcomes])
            done += cost
    return played


def _cost(experiment: Experiment) -> float:
    """About how long it takes: races leap over most of a long run."""
    return min(experiment.horizon, LONGEST_PLAYED_BY_DEFAULT) * experiment.replications


def _portion(
    report: Callable[[float], None], start: float, length: float
) -> Callable[[float], None]:
    """Progress of one experiment as progress of the whole."""
    return lambda share: report(start + share * length)
