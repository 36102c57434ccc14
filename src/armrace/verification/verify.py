"""The function ``verify``, which plays each experiment once and then judges each claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec

from armrace import __version__
from armrace.errors import InvalidParameter
from armrace.policies import Guarded, Policy
from armrace.reports import Presentation
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.experiment import Experiment
from armrace.simulation.parallel import run_all
from armrace.simulation.progress import Progress, progress_bar
from armrace.simulation.replication import LONGEST_PLAYED_BY_DEFAULT
from armrace.specification import is_list
from armrace.verification.claims import FULL, QUICK, Check, Claim, Preset
from armrace.verification.contexts import (
    CHECKED_CONTEXTUAL,
    ContextSubject,
    context_claims,
    find_contextual,
)
from armrace.verification.guarantees import (
    CHECKED,
    CHECKED_AT_LENGTH,
    GUARANTEES,
    Subject,
    make_policy,
    make_subject,
)
from armrace.verification.leader_guarantees import (
    CHECKED_LEADERS,
    CHECKED_LEADERS_AT_LENGTH,
    LEADERS,
    LeaderSubject,
    find_leader,
)
from armrace.verification.leaders import leader_claims
from armrace.verification.mechanics import guard_claims, mechanics_claims
from armrace.verification.protocol import protocol_claims
from armrace.verification.runs import Runs, examine, gather, witnessed_parts
from armrace.verification.spending import martingale_claims, spending_claims
from armrace.verification.theorems import (
    RACES_THAT_LEAP,
    Curve,
    GrowthSeries,
    asymptotic_claims,
    asymptotic_series,
    draw_up,
    lemma_claims,
    race_lower_bounds,
    regret_claims,
    ucb1_lower_bounds,
)

Descriptions = Sequence[Policy | str | Mapping[str, Any]]
Policies = Descriptions | None

ERROR_PROBABILITY = 0.01
"""An upper bound on the probability that any true claim is called refuted."""


class Verification(msgspec.Struct, Presentation, frozen=True):
    """The claims that were checked, and the probability of a wrong refutation."""

    checks: tuple[Check, ...]
    seed: int
    quick: bool
    curves: tuple[Curve, ...] = ()
    """Growth on the paper's axes, of the asymptotic form."""
    error_probability: float = ERROR_PROBABILITY
    settings: dict[str, Any] = {}
    """The arguments that give the same figures, as plain data."""

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
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Verification:
    """Try the theorems of races, guards and leaders, also for contexts, and how they run.

    Every interval is computed at the level of 1% divided by the number of claims, so that with
    probability 99% no true claim is called refuted.

    Args:
        policies: Races, guards, regularised leaders, ``leaf-barrier`` and ``expert-barrier``, by
            name, as specifications or as plain data with a ``name``. A policy of your own is held
            to the guarantee of the class that it derives from. By default all are tried, and UCB1
            under the lower bounds.
        quick: Take a minute and a half of processor time at most, in place of half an hour.
        asymptotic: Show instead how the regret of races grows up to 10^12 rounds and a corruption
            of 10^6.
        seed: The seed of all runs; the same seed gives the same figures.
        executor: See :func:`armrace.simulate`.
        workers: See :func:`armrace.simulate`.
        progress: True or False to show a progress bar or not, or a function that is called with
            the share done.

    Returns:
        The checks with their verdicts, and the growth curves of the asymptotic form.
    """
    preset = QUICK if quick else FULL
    series = _make_series(policies, preset, seed) if asymptotic else []
    growth = [claim for each in series for claim in asymptotic_claims(each)]
    claims = growth if asymptotic else make_claims(policies, preset, seed)
    with running_executor(executor, workers) as running:
        played = _play(claims, running, workers, progress)
    named = None if policies is None else [_plain(policy) for policy in policies]
    return Verification(
        _judge_all(claims, played, seed, quick, progress),
        seed,
        quick,
        tuple(draw_up(each, played) for each in series),
        settings={"policies": named, "quick": quick, "asymptotic": asymptotic, "seed": seed},
    )


def _plain(policy: Policy | str | Mapping[str, Any]) -> Any:
    """Leave a name as it is, since a race that is named alone is tried with another delta."""
    return policy.to_builtins() if isinstance(policy, Policy) else policy


def _make_series(policies: Policies, preset: Preset, seed: int) -> list[GrowthSeries]:
    """Return the runs of growing length and corruption of each race."""
    return [
        each
        for race in _listed(policies, RACES_THAT_LEAP)
        for each in asymptotic_series(make_subject(race), preset.asymptotic_runs, seed)
    ]


def _listed(policies: Policies, usual: Descriptions) -> Descriptions:
    """Return the policies to be checked, by default the usual ones."""
    if policies is None:
        return usual
    if not is_list(policies):
        raise InvalidParameter(f"policies must be a list of policies; got {policies!r}.")
    if not len(policies):
        raise InvalidParameter("policies must name at least one policy; got none.")
    return policies


AnySubject = Subject | LeaderSubject | ContextSubject


def make_subjects(policies: Policies, usual: Descriptions) -> list[AnySubject]:
    """Return the races, guards, leaders and policies for contexts to be checked."""
    found: list[AnySubject] = []
    for description in _listed(policies, usual):
        policy = make_policy(description)
        leader = find_leader(policy) or find_contextual(policy)
        if leader is None and not isinstance(policy, tuple(GUARANTEES)):
            tags = [kind.tag() for kind in (*GUARANTEES, *LEADERS)]
            known = ", ".join([*tags, *CHECKED_CONTEXTUAL])
            raise InvalidParameter(
                f"policies must have a guarantee that is known here ({known}); got {policy.tag()}."
            )
        found.append(leader or make_subject(policy))
    return found


def make_claims(policies: Policies, preset: Preset, seed: int) -> list[Claim]:
    """Make all claims to be checked, lemmas first."""
    quick = (*CHECKED, *CHECKED_LEADERS, *CHECKED_CONTEXTUAL)
    full = (*CHECKED_AT_LENGTH, *CHECKED_LEADERS_AT_LENGTH, *CHECKED_CONTEXTUAL)
    subjects = make_subjects(policies, quick if preset is QUICK else full)
    leaders = [subject for subject in subjects if isinstance(subject, LeaderSubject)]
    contextual = [subject for subject in subjects if isinstance(subject, ContextSubject)]
    layered = [subject for subject in subjects if isinstance(subject, Subject)]
    guards = [subject for subject in layered if isinstance(subject.policy, Guarded)]
    races = [subject for subject in layered if subject not in guards]
    of_all = (spending_claims, mechanics_claims, martingale_claims, lemma_claims)
    claims = [
        claim
        for subject in subjects
        for claim in protocol_claims(subject.label, _facing(subject), preset, seed)
    ]
    claims += [
        claim
        for family in (*of_all, regret_claims, race_lower_bounds)
        for subject in races
        for claim in family(subject, preset, seed)
    ]
    claims += [
        claim
        for family in (*of_all, guard_claims)
        for subject in guards
        for claim in family(subject, preset.of_guards(), seed)
    ]
    claims += [
        claim for leader in leaders for claim in leader_claims(leader, preset.of_leaders(), seed)
    ]
    claims += [
        claim for each in contextual for claim in context_claims(each, preset.of_leaders(), seed)
    ]
    return claims if policies is not None else [*claims, *ucb1_lower_bounds(preset, seed)]


def _facing(subject: AnySubject) -> Policy:
    """Return the policy, which is told some corruption if it takes a bound on it."""
    return subject.facing(8.0) if isinstance(subject, Subject) else subject.policy


def try_claims(
    claims: Sequence[Claim],
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress = None,
    *,
    seed: int = 0,
    quick: bool = False,
) -> tuple[Check, ...]:
    """Return a verdict for each claim, all of them jointly at the error probability.

    ``seed`` and ``quick`` are noted in the checks; the claims have been made with them.
    """
    played = _play(claims, executor, workers, progress)
    return _judge_all(claims, played, seed, quick, progress)


def _judge_all(
    claims: Sequence[Claim],
    played: Mapping[Experiment, Runs],
    seed: int,
    quick: bool,
    progress: Progress,
) -> tuple[Check, ...]:
    level, found = ERROR_PROBABILITY / len(claims), []
    # A bar of its own: replays take long. A function has been told all, and is not told less again.
    with progress_bar("judging", False if callable(progress) else progress) as report:
        for claim in claims:
            found.append(_judge(claim, played, level, seed, quick))
            report(len(found) / len(claims))
    return tuple(found)


def _judge(
    claim: Claim, played: Mapping[Experiment, Runs], level: float, seed: int, quick: bool
) -> Check:
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
        theorem=claim.theorem,
        seed=seed,
        version=__version__,
        form="quick" if quick else "full",
    )


def _play(
    claims: Sequence[Claim], executor: Executor | None, workers: int | None, progress: Progress
) -> dict[Experiment, Runs]:
    """Play every experiment that some claim needs, each once."""
    experiments = list(dict.fromkeys(e for claim in claims for e in claim.experiments))
    compile_experiments(experiments, executor, progress, witnessed_parts)
    total = max(1.0, sum(map(_cost, experiments)))
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
    """Estimate how long an experiment takes; races leap over most of a long run."""
    return min(experiment.horizon, LONGEST_PLAYED_BY_DEFAULT) * experiment.replications


def _portion(
    report: Callable[[float], None], start: float, length: float
) -> Callable[[float], None]:
    """Turn the progress of one experiment into progress of the whole."""
    return lambda share: report(start + share * length)
