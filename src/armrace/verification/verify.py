"""Trying every claim: the experiments once each, then a verdict a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.policies import Policy
from armrace.simulation.experiment import Experiment
from armrace.simulation.interrupts import postponed_interrupts
from armrace.simulation.parallel import run_all
from armrace.simulation.progress import Progress, progress_bar
from armrace.verification.checks import Check, Claim
from armrace.verification.contracts import CHECKED, CHECKED_AT_LENGTH, make_subject
from armrace.verification.forms import FULL, QUICK, Form
from armrace.verification.lemmas import lemma_claims
from armrace.verification.lower_bounds import race_lower_bounds, ucb1_lower_bounds
from armrace.verification.regrets import regret_claims
from armrace.verification.runs import Runs, examine, gather, prepare

__all__ = ["ERROR_PROBABILITY", "Verification", "make_claims", "try_claims", "verify"]

ERROR_PROBABILITY = 0.01
"""With which all true claims together are called refuted, at most."""


class Verification(msgspec.Struct, frozen=True):
    """The claims that were tried, and with what they may be wrongly refuted."""

    checks: tuple[Check, ...]
    seed: int
    quick: bool
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
    policies: Sequence[Policy | str | Mapping[str, Any]] | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = None,
) -> Verification:
    """Try every lemma and theorem of the paper by experiment.

    ``policies`` are races, by name, as specifications or as plain data with a ``name``; a policy
    of your own is held to the promises of the race that it derives from. By default all races
    are tried, and UCB1 under the lower bounds. ``quick`` takes a minute at most in place of a
    quarter of an hour.

    Every interval is computed at the level of 1% divided by the number of claims, so that with
    probability 99% no true claim is called refuted.
    """
    claims = make_claims(policies, QUICK if quick else FULL, seed)
    return Verification(try_claims(claims, workers, progress), seed, quick)


def make_claims(
    policies: Sequence[Policy | str | Mapping[str, Any]] | None, form: Form, seed: int
) -> list[Claim]:
    """All that is to be tried, lemmas first."""
    if policies is not None and not policies:
        raise InvalidParameter("policies must name at least one race; got none.")
    usual = CHECKED if form is QUICK else CHECKED_AT_LENGTH
    subjects = [make_subject(policy) for policy in (usual if policies is None else policies)]
    families = (lemma_claims, regret_claims, race_lower_bounds)
    claims = [
        claim
        for family in families
        for subject in subjects
        for claim in family(subject, form, seed)
    ]
    return claims if policies is not None else [*claims, *ucb1_lower_bounds(form, seed)]


def try_claims(
    claims: Sequence[Claim], workers: int | None = None, progress: Progress = None
) -> tuple[Check, ...]:
    """A verdict for each claim, all of them together at the error probability."""
    played = _play(claims, workers, progress)
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
    claims: Sequence[Claim], workers: int | None, progress: Progress
) -> dict[Experiment, Runs]:
    """Every experiment that some claim needs, once."""
    experiments = list(dict.fromkeys(e for claim in claims for e in claim.experiments))
    with postponed_interrupts() as raise_interrupt:
        for experiment in experiments:
            prepare(experiment)
            raise_interrupt()
    total = sum(experiment.horizon * experiment.replications for experiment in experiments)
    played: dict[Experiment, Runs] = {}
    done = 0
    with progress_bar("verifying", progress) as report:
        for experiment in experiments:
            rounds = experiment.horizon * experiment.replications
            portion = _portion(report, done / total, rounds / total)
            finished = run_all([experiment], None, workers, portion, task=examine)
            if finished.interrupted:
                raise KeyboardInterrupt
            played[experiment] = gather([row[0] for row in finished.outcomes])
            done += rounds
    return played


def _portion(
    report: Callable[[float], None], start: float, length: float
) -> Callable[[float], None]:
    """Progress of one experiment as progress of the whole."""
    return lambda share: report(start + share * length)
