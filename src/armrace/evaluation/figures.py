"""The figures of a policy on a form of the log, out of the tallies of its runs."""

from __future__ import annotations

import numpy as np

from armrace.adversaries import NoAttack
from armrace.evaluation.estimates import estimate_gain, estimates_of
from armrace.evaluation.forms import PlannedRuns
from armrace.evaluation.results import AttackOnLog, Gain, PolicyReplay, Verdict
from armrace.kernels.replay import ACCEPTED, LOGGED, REPLAYED, TOTAL
from armrace.randomness import Purpose, generator_for
from armrace.statistics.scales import Scale

__all__ = ["figures_of"]


def figures_of(
    plan: PlannedRuns, scale: Scale, floor: float, level: float, seed: int, *, weighs: bool
) -> PolicyReplay:
    """Return the estimates of a policy, and what else is known of its runs.

    Args:
        plan: the runs, which have replayed all rows.
        scale: the range of the log's rewards.
        floor: smaller propensities were raised to this one.
        level: the probability with which an interval may be wrong.
        seed: the seed of the bootstrap.
        weighs: whether the runs have weighed all rows.
    """
    tallies = [run.tally for run in plan.runs]
    # A probability of at most 1 over a propensity that is raised to the floor.
    heaviest = 1.0 / floor
    # Every policy has the same generator, so that its figures do not depend on the others.
    generator = generator_for(seed, Purpose.BOOTSTRAP)
    found = estimates_of(tallies, scale, heaviest, level, weighs, generator)
    gain = None
    if weighs:
        value, ends = estimate_gain(tallies, scale, heaviest, level)
        gain = Gain(value=value, low=ends.low, high=ends.high)
    accepted = np.array([tally.counts[ACCEPTED] for tally in tallies], dtype=np.float64)
    sums = np.array([tally.sums[REPLAYED, TOTAL] for tally in tallies])
    means = sums[accepted > 0] / accepted[accepted > 0]
    pulls = np.sum([tally.pulls for tally in tallies], axis=0)
    return PolicyReplay(
        policy=plan.label,
        specification=plan.policy.to_builtins(),
        form=plan.form.name,
        rows=plan.rows,
        logged_mean=scale.reward(float(tallies[0].moments[LOGGED]) / plan.rows),
        rounds=float(accepted.mean()),
        acceptance=float(accepted.mean()) / plan.rows,
        horizon=plan.horizon,
        estimates=found,
        lowest=scale.reward(float(means.min())) if means.size else None,
        highest=scale.reward(float(means.max())) if means.size else None,
        shares=(pulls / max(1, pulls.sum())).tolist(),
        gain=gain,
        verdict=_verdict(found[-1].is_enough, gain),
        attack=_attack(plan),
        curve=_curve(plan, scale),
    )


def _verdict(is_enough: bool, gain: Gain | None) -> Verdict:
    if not is_enough:
        return "not enough data"
    if gain is None or gain.low <= 0.0 <= gain.high:
        return "undecided"
    return "better" if gain.low > 0.0 else "worse"


def _attack(plan: PlannedRuns) -> AttackOnLog | None:
    if isinstance(plan.form.attack, NoAttack):
        return None
    return AttackOnLog(
        specification=plan.form.attack.to_builtins(),
        budget=plan.form.budget,
        spent=float(np.mean([run.ledger.charged[0] for run in plan.runs])),
        seen=float(np.mean([run.ledger.seen[0] for run in plan.runs])),
        found_by=plan.form.found_by,
    )


def _curve(plan: PlannedRuns, scale: Scale) -> list[tuple[float, float, float]]:
    """Return rows, rounds and the mean reward so far, at some places along the log."""
    curve = np.mean([run.tally.curve for run in plan.runs], axis=0)
    return [
        (float(rows), float(rounds), scale.reward(float(paid / rounds)))
        for rows, rounds, paid, _ in curve
        if rounds > 0.0
    ]
