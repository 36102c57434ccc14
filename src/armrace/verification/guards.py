"""Checks of a guard: what the base may play, turns, deletions in time, and the overhead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.formatting import count
from armrace.kernels.generics import assign, learn, unwrap_ticket
from armrace.kernels.states import lasting_arrays
from armrace.policies import Guarded
from armrace.statistics import Interval, mean_interval
from armrace.verification.claims import (
    Claim,
    Configuration,
    Judgement,
    Preset,
    cells,
    describe_means,
    experiment_on,
    rarely,
)
from armrace.verification.guarantees import Subject, guard_layers
from armrace.verification.mechanics import (
    MEANS,
    ArmDeletion,
    FarRun,
    exactly,
    far_setting,
    play_far,
)
from armrace.verification.runs import Runs
from armrace.verification.theorems import FAR, below_bound

_GAPS = theory.gaps_of(FAR)
_ATTACKS = ("none", "zero-best-when-likely", "swap-best")
_BASE_LAYERS = 1
_COMPARED = 20_000
"""The horizon on which the regret of the guard is compared with that of its base."""


def guard_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims of Theorem C about a guard."""
    yield from guard_mechanics_claims(subject, preset, seed)
    for cell in cells(subject, FAR, _ATTACKS, preset.corruption, preset.horizon, preset.runs, seed):
        yield _deleted_in_time(cell)
        yield below_bound(cell)
    yield _overhead(subject, preset, seed)


def guard_mechanics_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about how a guard runs."""
    policy: Any = subject.policy
    if not isinstance(policy, Guarded):
        return
    runs = cache(
        lambda: [
            play_far(policy, preset.path_rounds, seed + run) for run in range(preset.replayed_runs)
        ]
    )

    def wrongly_played() -> Iterator[tuple[int, int]]:
        for run in runs():
            found = wrong_plays(run.plays, run.records.deletions, len(MEANS), policy.lead)
            yield sum(found), len(run.tickets)

    for claim, measure, differing in (
        (
            "the base plays no arm that the guard has deleted, and turns go round the active arms",
            "share of the rounds in which another arm is played, which is 0",
            wrongly_played,
        ),
        (
            "the base learns what it drew and was paid in its own rounds, and nothing else",
            "share of the base's arrays that differ from those of one that was told this, 0",
            lambda: (wrong_feed(policy, run) for run in runs()),
        ),
    ):
        judge = exactly(differing)
        yield Claim(claim, subject.label, far_setting(preset), measure, (), judge, "Theorem C")


class WrongPlays(NamedTuple):
    """Rounds in which an arm is played that should not be."""

    base: int
    turns: int


def wrong_plays(
    plays: Sequence[tuple[int, int]], deletions: set[ArmDeletion], arms: int, lead: int
) -> WrongPlays:
    """Count the plays that a guard should not have made, from its plays and deletions alone."""
    wrong = [0, 0]
    for (_, arm), (is_turn, may) in zip(
        plays, prescribed_rounds(plays, deletions, arms, lead), strict=True
    ):
        wrong[is_turn] += int(not may[arm])
    return WrongPlays(*wrong)


def prescribed_rounds(
    plays: Sequence[tuple[int, int]], deletions: set[ArmDeletion], arms: int, lead: int
) -> Iterator[tuple[bool, npt.NDArray[np.bool_]]]:
    """Yield for each round whether it is a turn of its layer's, and the arms that may be played."""
    layers = 1 + max(label for label, _ in plays)
    active = np.ones((layers, arms), dtype=bool)
    moves, turns = np.zeros(layers, dtype=int), np.zeros((layers, arms), dtype=int)
    pending = sorted(deletions, key=lambda deletion: deletion.at)
    for number, (label, arm) in enumerate(plays, start=1):
        while pending and pending[0].at < number:
            gone = pending.pop(0)
            if gone.layer < layers:
                active[gone.layer, gone.arm] = False
        is_turn = False
        if label >= 0:
            moves[label] += 1
            is_turn = bool(active[label].any()) and moves[label] % (1 + lead) == 0
        if is_turn:
            rank = np.where(active[label], turns[label], np.inf)
            yield True, np.arange(arms) == np.argmin(rank)
            turns[label, arm] += 1
        else:
            allowed = active[active.any(axis=1)]
            yield False, allowed[0] if len(allowed) else np.ones(arms, dtype=bool)


def wrong_feed(policy: Guarded, run: FarRun) -> tuple[int, int]:
    """Count the arrays of a guard's base that differ from those of a base fed by the definition."""
    arms = run.records.pulls.shape[1]
    fed = policy.base.start(arms, len(run.tickets))
    rounds = prescribed_rounds(run.plays, run.records.deletions, arms, policy.lead)
    for ticket, reward, (is_turn, _) in zip(run.tickets, run.rewards, rounds, strict=True):
        if not is_turn:
            inner = unwrap_ticket(ticket, _BASE_LAYERS)
            paid = reward if inner.arm == ticket.arm else 0.0
            learn(fed, assign(fed, inner), paid)
    told = dict(lasting_arrays(getattr(run.state, "guard", run.state).base))
    differing = [
        name for name, array in lasting_arrays(fed) if not np.allclose(array, told[name], rtol=1e-9)
    ]
    return len(differing), len(told)


def _deleted_in_time(cell: Configuration) -> Claim:
    """Claim that a tolerant layer has deleted the bad arm by the round that the proof gives."""
    policy: Any = cell.policy
    arms, horizon, delta = len(FAR), cell.experiment.horizon, cell.subject.delta
    layers = guard_layers(policy, arms, horizon)
    failure = delta / (4 * arms * len(layers))
    due = np.array([_round_of_deletion(policy, layer, failure) <= horizon for layer in layers])

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        books = runs[0].layers
        tolerant = cell.subject.tolerant(policy, arms, horizon, runs[0].corruption)
        kept = books.active[:, :, int(np.argmin(FAR))]
        return rarely(_any(kept & tolerant & due), delta, level)

    return Claim(
        "a tolerant layer has deleted a bad arm by round R(a)",
        cell.subject.label,
        f"{cell.setting}; delta = {delta:g}; R(a) is below T in {int(due.sum())} layers",
        "probability of failure, at most delta",
        (cell.experiment,),
        judge,
        "Lemma 7",
    )


def _round_of_deletion(policy: Any, layer: theory.SharpLayer, failure: float) -> float:
    turns = [theory.sharp_plays_until_deleted(gap, layer) for gap in _GAPS]
    (moves,) = theory.moves_until_deleted(turns)
    return theory.rounds_until_moves((1 + policy.lead) * moves, layer.share, failure)


def _any(table: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    return np.asarray(table.any(axis=1))


def _overhead(subject: Subject, preset: Preset, seed: int) -> Claim:
    """Claim that without corruption a guard adds at most its overhead to the base's regret."""
    policy: Any = subject.policy
    guarded, alone = (
        experiment_on(each, FAR, "none", 0.0, _COMPARED, 2 * preset.runs, seed)
        for each in (policy, policy.base)
    )
    limit = theory.guard_overhead(
        _GAPS, _COMPARED, policy.delta, policy.share, policy.lead, policy.first
    )

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        more = runs[0].pseudo_regret - runs[1].pseudo_regret
        interval = Interval(*mean_interval(more, level))
        over = int((more > limit).sum())
        return Judgement(more.size, over, interval, limit, interval.low <= limit)

    return Claim(
        "without corruption a guard adds no more than its overhead to the base's regret",
        subject.label,
        f"{describe_means(FAR)}; no attack; T = {count(_COMPARED)}",
        "mean of the pseudo-regret beyond that of the base alone, at most the overhead",
        (guarded, alone),
        judge,
        "Theorem C",
    )
