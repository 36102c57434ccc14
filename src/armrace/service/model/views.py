"""What an experiment shows of itself, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from armrace.contexts import LEAST_ROUNDS
from armrace.formatting import count, figure, percent
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.history import HistoryPoint, point_of
from armrace.service.model.settings import GRID, Guardrail
from armrace.service.model.visits import DAY, ArmTotals, SourceCounts, SourceDay
from armrace.statistics.best_arm import Evidence, best_arm, level_of
from armrace.statistics.bounded_means import bernstein_for_all_times, interval_for_all_times
from armrace.statistics.distributions import chi_square_tail
from armrace_client.answers import (
    ArmSummary,
    BestArmStatement,
    DeletionView,
    ExperimentHealth,
    ExperimentView,
    GuardrailArm,
    GuardrailView,
    HistoryView,
    HoldoutView,
    LayerView,
    LeafArmView,
    LeafView,
    RatioCheck,
    RatioRow,
    SourceDayView,
    SourceView,
)
from armrace_client.operations import AUDIT_LEVEL

_LEAST_SHOWN, _MOST_SHOWN = 8, 100_000
"""How many moments of a history are shown, and how many counts of arms in all."""
_RECENT = 10
"""Decisions since this many points ago count as recent."""
_LEAST_EXPECTED = 5.0
_LEVEL = 0.05
"""How likely an interval of a mean in a leaf is wrong at any time; so also of the holdout's, and
the statement which arm is the best."""
_IMMEDIATE = (
    "Rewards are learned as they come. Where rewards that come late differ from those that come at "
    "once, as clicks differ from their absence, means are biased, and neither the guarantee nor "
    "the audit covers that."
)


def head_text(experiment: ExperimentState) -> str:
    """Return the end of the log of an experiment as text, by which a state can be referred to."""
    return f"{experiment.head.sequence}-{experiment.head.digest.hex()[:16]}"


def view_of(experiment: ExperimentState, opened: int | None = None) -> ExperimentView:
    """Return the state of an experiment, or of a frozen one, with how many visits were open."""
    return ExperimentView(
        experiment.name,
        experiment.phase,
        experiment.settings.shown(),
        experiment.created,
        experiment.generation.number,
        experiment.generation.horizon,
        experiment.decisions,
        len(experiment.open) if opened is None else opened,
        _arms(experiment),
        _layers(experiment),
        _notes(experiment),
        experiment.conflicts,
        [*experiment.holds.standing],
        head_text(experiment),
        _leaves(experiment),
        _experts(experiment),
        _coefficients(experiment),
        _best(experiment),
        _holdout(experiment),
        _guardrails(experiment),
    )


def _notes(experiment: ExperimentState) -> list[str]:
    notes = [_IMMEDIATE] if experiment.is_immediate else []
    leaves, arms = experiment.settings.shape.leaves, len(experiment.generation.places)
    each = experiment.generation.horizon // (leaves * arms)
    if leaves > 1 and each < LEAST_ROUNDS:
        notes.append(
            f"The horizon has {each} decisions for each arm in each of {leaves} leaves: with fewer "
            f"than {LEAST_ROUNDS}, fewer leaves would earn more."
        )
    return notes


def _leaves(experiment: ExperimentState) -> list[LeafView]:
    """Return the leaves that had visitors, in their order, unless there is but one leaf."""
    if len(experiment.leaf_names) < 2:
        return []
    generation, found = experiment.generation, []
    for leaf, totals in sorted(experiment.leaves.items()):
        weights: dict[Any, float] = {}
        if generation.looks_at_leaf_alone:
            weights = generation.learner.distribution(generation.visitor_of_leaf(leaf))
        arms = [
            LeafArmView(
                arm,
                counts.decisions,
                counts.learned(experiment.missing)[0],
                _mean(experiment, counts),
                *_interval(experiment, counts),
                weights.get(index),
            )
            for index, (arm, counts) in enumerate(zip(experiment.arms, totals.arms, strict=True))
        ]
        decisions = sum(counts.decisions for counts in totals.arms)
        found.append(LeafView(experiment.leaf_names[leaf], decisions, arms))
    return found


def _interval(experiment: ExperimentState, totals: ArmTotals) -> tuple[float | None, float | None]:
    learned, steps = totals.learned(experiment.missing)
    if not learned:
        return None, None
    low, high = interval_for_all_times(steps / GRID, learned, _LEVEL)
    return experiment.scale.reward(low * GRID), experiment.scale.reward(high * GRID)


def _best(experiment: ExperimentState) -> BestArmStatement | None:
    """Return which arm is the best, and how many forged visits that withstands."""
    if experiment.settings.schema is not None:  # which arm is shown depends on the visitor
        return None
    missing, declared = experiment.missing, len(experiment.settings.arms)
    held = experiment.sources.quarantined()
    arms, levels, names = [], [], []
    for place, totals in enumerate(experiment.totals.arms):
        if experiment.statuses[place] == "retired":
            continue
        learned, steps = totals.learned(missing)
        # Rewards in quarantine may be honest: they may have been anything until that is settled.
        doubtful = min(held, totals.withheld)
        known = steps / GRID - doubtful * (missing or 0) / GRID
        rewards = learned + (doubtful if missing is None else 0)
        arms.append(Evidence(known, known + doubtful, rewards))
        levels.append(level_of(place, declared, _LEVEL))
        names.append(experiment.arms[place])
    found = best_arm(arms, levels)
    if found is None:
        return None
    arm, visits = names[found.place], sum(each.rewards for each in arms)
    forged = f"even if up to {count(found.forged)}" if found.forged else "if none"
    words = (
        f"{arm} is the best arm with {percent(1 - _LEVEL)} confidence, {forged} of the "
        f"{count(visits)} counted visits {'were' if found.forged else 'was'} forged."
    )
    return BestArmStatement(arm, 1 - _LEVEL, found.forged, visits, words)


def _holdout(experiment: ExperimentState) -> HoldoutView | None:
    """Return what the policy has earned against the holdout."""
    found, settings, scale = experiment.comparison, experiment.settings, experiment.scale
    if found is None:
        return None
    terms = found.visits + found.policy_visits
    difference = lower = upper = None
    if terms:
        # The smaller share has the larger terms.
        bound = 1.0 / min(settings.holdout, 1.0 - settings.holdout)
        span = bernstein_for_all_times(found.difference, found.squares, terms, bound, _LEVEL)
        width = settings.rewards[1] - settings.rewards[0]
        difference, lower, upper = (
            width * min(max(each, -1.0), 1.0) for each in (found.difference / terms, *span)
        )
    return HoldoutView(
        settings.holdout,
        settings.holdout_arm,
        found.visits,
        scale.reward(found.steps / found.visits) if found.visits else None,
        found.policy_visits,
        scale.reward(found.policy_steps / found.policy_visits) if found.policy_visits else None,
        difference,
        lower,
        upper,
        1 - _LEVEL,
    )


def _guardrails(experiment: ExperimentState) -> list[GuardrailView]:
    """Return what is known of each guardrail, and what is wrong with it."""
    return [_guardrail(experiment, *each) for each in experiment.settings.guardrails.items()]


def _guardrail(experiment: ExperimentState, name: str, declared: Guardrail) -> GuardrailView:
    scale, settings = declared.scale(), experiment.settings
    level = _LEVEL / len(settings.guardrails)
    found = []
    for place, totals in enumerate(experiment.guardrails[name]):
        own = level_of(place, len(settings.arms), level)
        sums = totals.steps / GRID, totals.squares, totals.count
        low, high = bernstein_for_all_times(*sums, 1.0, own)
        mean = scale.reward(totals.steps / totals.count) if totals.count else None
        ends = scale.reward(max(low, 0.0) * GRID), scale.reward(min(high, 1.0) * GRID)
        found.append(GuardrailArm(experiment.arms[place], totals.count, mean, *ends))
    active = [
        each for each, status in zip(found, experiment.statuses, strict=True) if status != "retired"
    ]
    warnings = []
    for each in active:
        span = f"its mean is between {figure(each.lower)} and {figure(each.upper)}"
        if declared.limit is not None and _is_worse(declared, each, declared.limit, declared.limit):
            warnings.append(f"{name} of {each.arm} is beyond {figure(declared.limit)}: {span}.")
        # Where visitors differ, arms are shown to different ones, and cannot be compared.
        others = [] if settings.schema is not None else active
        worst = [o for o in others if _is_worse(declared, each, o.lower, o.upper)]
        if worst:
            sign = 1 if declared.worse == "higher" else -1
            best = min(worst, key=lambda other: sign * (other.lower + other.upper))
            warnings.append(
                f"{name} of {each.arm} is worse than that of {best.arm}: {span}, and that of "
                f"{best.arm} between {figure(best.lower)} and {figure(best.upper)}."
            )
    return GuardrailView(name, declared.worse, declared.limit, found, warnings)


def _is_worse(declared: Guardrail, arm: GuardrailArm, lower: float, upper: float) -> bool:
    return arm.lower > upper if declared.worse == "higher" else arm.upper < lower


def _experts(experiment: ExperimentState) -> dict[str, float]:
    generation = experiment.generation
    found = generation.learner.experts()
    if found is None or not generation.trust:
        return {}
    names = [*found[0], *(f"always {experiment.arms[place]}" for place in generation.places)]
    # An arm that is new has none until the next decision; arms come last.
    trust = generation.trust + [0.0] * (len(names) - len(generation.trust))
    return dict(zip(names, trust, strict=True))


def _coefficients(experiment: ExperimentState) -> dict[str, dict[str, float]]:
    """Return what every feature adds to the predicted reward of each arm, in units of rewards."""
    generation, schema = experiment.generation, experiment.settings.schema
    found = None if schema is None else generation.learner.coefficients()
    if found is None or schema is None:
        return {}
    low, high = experiment.settings.rewards
    # A coordinate of a vector is that of the visitor divided by a constant.
    width = (high - low) / schema.scale
    names, arms = schema.coordinate_names(), [experiment.arms[p] for p in generation.places]
    models = ["every arm"] if schema.arm_features else arms
    return {
        model: dict(zip(names, [row[0] + low, *row[1:]], strict=True))
        for model, row in zip(models, (found * width).tolist(), strict=True)
    }


def _mean(experiment: ExperimentState, totals: ArmTotals) -> float | None:
    learned, steps = totals.learned(experiment.missing)
    return experiment.scale.reward(steps / learned) if learned else None


def _arms(experiment: ExperimentState) -> list[ArmSummary]:
    weights: dict[Any, float] = {}
    if experiment.settings.schema is None:
        weights = experiment.generation.learner.distribution()
    named = zip(experiment.arms, experiment.statuses, experiment.totals.arms, strict=True)
    return [
        ArmSummary(
            arm,
            status,
            totals.decisions,
            totals.closed,
            totals.rewarded,
            totals.withheld,
            _mean(experiment, totals),
            weights.get(index),
        )
        for index, (arm, status, totals) in enumerate(named)
    ]


def _layers(experiment: ExperimentState) -> list[LayerView]:
    """Return the layers of the policy; leaves, which some policies keep apart, are no layers."""
    if experiment.settings.schema is not None and experiment.generation.looks_at_leaf_alone:
        return []
    scale, arms = experiment.scale, [experiment.arms[p] for p in experiment.generation.places]

    def in_rewards(mean: float | None) -> float | None:
        return None if mean is None else scale.reward(mean * GRID)

    return [
        LayerView(
            each.layer,
            arms[each.arm],
            each.assigned,
            each.pulls,
            in_rewards(each.mean),
            in_rewards(each.lower),
            in_rewards(each.upper),
            each.active,
            each.eliminated_at,
            each.eliminated_by,
            each.evidence,
            in_rewards(each.evidence_mean),
        )
        for each in experiment.generation.learner.inspect()
    ]


def history_of(experiment: ExperimentState, time: int) -> HistoryView:
    """Return the history of an experiment up to ``time``."""
    history, scale = experiment.history, experiment.scale
    now = point_of(experiment, time, is_audited=True)
    begin = HistoryPoint(experiment.created, 0, 0, [], [], [], 0, 0.0)
    points = [begin, *(point for point in history.points if point.time < time), now]
    deletions = _deletions(experiment, points)
    # With thousands of arms, fewer moments are shown, so that the answer stays small.
    step = -(-len(points) // max(_LEAST_SHOWN, _MOST_SHOWN // len(experiment.arms)))
    points = [begin, *points[:0:-step][::-1]]
    learned = _by_arm(point.learned for point in points)
    steps = _by_arm(point.steps for point in points)

    def earned(learned: int, steps: int) -> float:
        return scale.low * (learned - steps / GRID) + scale.high * (steps / GRID)

    return HistoryView(
        bucket=history.bucket,
        times=[point.time for point in points],
        arms=list(experiment.arms),
        decisions=_by_arm(point.decisions for point in points),
        learned=learned,
        earned=[list(map(earned, *both)) for both in zip(learned, steps, strict=True)],
        alarms=[point.alarms for point in points],
        certificates=[point.certificate for point in points],
        level=AUDIT_LEVEL,
        tolerated=experiment.generation.learner.tolerated(),
        deletions=deletions,
        rulings=[*history.rulings],
        experts=_experts_over_time(experiment, points),
    )


def _experts_over_time(
    experiment: ExperimentState, points: list[HistoryPoint]
) -> dict[str, list[float | None]]:
    found = experiment.generation.learner.experts()
    if found is None or experiment.settings.schema is None:
        return {}
    names = [*found[0], "single arms"]
    return {
        name: [point.trust[place] if point.trust else None for point in points]
        for place, name in enumerate(names)
    }


def _by_arm(counts: Iterable[list[int]]) -> list[list[int]]:
    """Return the counts of each arm, which are 0 in points from before it was added."""
    return [list(each) for each in zip_longest(*counts, fillvalue=0)]


def _deletions(experiment: ExperimentState, points: list[HistoryPoint]) -> list[DeletionView]:
    own = [point for point in points if point.generation == experiment.generation.number]
    places = experiment.generation.places
    found = [
        DeletionView(
            layer,
            experiment.arms[places[arm]],
            by,
            when,
            next((point.time for point in own if point.rounds >= when), points[-1].time),
        )
        for layer, arm, when, by in experiment.generation.learner.deletions()
    ]
    return sorted(found, key=lambda each: (each.round, each.layer))


def sources_of(experiment: ExperimentState, time: int) -> list[SourceView]:
    """Return the sources of an experiment in the order in which they came."""
    sources, final = experiment.sources, time - experiment.window

    def view(source: str | None, counts: SourceCounts, others: bool = False) -> SourceView:
        days = [_day(experiment, *each, final) for each in sorted(counts.days.items())]
        return SourceView(source, others, days, [*counts.delays])

    found = [view(name or None, counts) for name, counts in sources.named.items()]
    return found + ([view(None, sources.others, True)] if sources.others.days else [])


def _day(experiment: ExperimentState, number: int, day: SourceDay, final: int) -> SourceDayView:
    count = day.counted + day.quarantined + day.retracted
    date = datetime.fromtimestamp(number * DAY / 1000, UTC).date().isoformat()
    return SourceDayView(
        "earlier" if number < 0 else date,
        (number + 1) * DAY <= final,
        day.counted,
        day.quarantined,
        day.retracted,
        experiment.scale.reward(day.steps / count) if count else None,
        day.visits,
    )


def health_of(experiment: ExperimentState, time: int) -> ExperimentHealth:
    """Return an experiment at a glance."""
    points, totals = experiment.history.points, experiment.totals.arms
    past = points[-_RECENT].decisions if len(points) >= _RECENT else []
    made = [each.decisions for each in totals]
    recent = [now - before for now, before in zip_longest(made, past, fillvalue=0)]
    arm = max(range(len(totals)), key=recent.__getitem__)
    best = totals[arm] if any(each.rewarded for each in totals) and recent[arm] else None
    return ExperimentHealth(
        name=experiment.name,
        phase=experiment.phase,
        policy=str(experiment.settings.policy["name"]),
        created=experiment.created,
        decisions=experiment.decisions,
        open=len(experiment.open),
        best=None if best is None else experiment.arms[arm],
        share=None if best is None else recent[arm] / sum(recent),
        mean=None if best is None else _mean(experiment, best),
        alarms=points[-1].alarms if points else 0,
        times=[experiment.created, *(point.time for point in points), time],
        traffic=[0, *(sum(point.decisions) for point in points), experiment.decisions],
    )


def ratio_of(experiment: ExperimentState) -> RatioCheck:
    """Compare how often arms were chosen with the sums of their published probabilities."""
    arms = experiment.totals.arms
    rows = [
        RatioRow(name, totals.comparable, totals.expected)
        for name, totals in zip(experiment.arms, arms, strict=True)
    ]
    left_out = experiment.decisions - sum(totals.comparable for totals in arms)
    # Each count minus its expectation is a sum of martingale differences, whose conditional
    # variances are at most the probabilities. So the statistic is at most as large as Pearson's.
    cells = [totals for totals in arms if totals.expected >= _LEAST_EXPECTED]
    if len(cells) < 2:
        return RatioCheck(rows, left_out, None, None)
    statistic = math.fsum((t.comparable - t.expected) ** 2 / t.expected for t in cells)
    return RatioCheck(rows, left_out, statistic, chi_square_tail(statistic, len(cells) - 1))
