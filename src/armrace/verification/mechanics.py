"""Checks that a race runs as the proofs assume: shares, turns, own rewards, deletions.

Shares are random and checked by an exact test. The rest must hold in every run, so that a single
violation refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.kernels.generics import Ticket
from armrace.learner import Learner
from armrace.policies import Policy
from armrace.statistics import Interval, clopper_pearson
from armrace.verification.claims import (
    Claim,
    Judge,
    Judgement,
    Preset,
    describe_means,
    experiment_on,
    never,
)
from armrace.verification.guarantees import PrescribedRace, Subject, ends
from armrace.verification.runs import Books, Runs

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_EQUAL = (0.5, 0.5, 0.5)
"""Arms of which none is deleted in a short run."""
_TOLD = 8.0
MEANS = (0.9, 0.1, 0.6, 0.75)
"""Mean rewards of the arms in runs that are played a second time: at all distances, so that arms
are deleted early and late."""
_PART = 4
"""How many short runs of the sub-sampling lemma one run of shares and turns replaces."""
_ROUNDING = 1e-6
_AGE = 7
"""Intervals other than the paper's may be one part in ``2^7`` old."""


def mechanics_claims(subject: Subject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about shares, turns, own rewards and deletions of a race."""
    policy = subject.facing(_TOLD)
    rounds, runs = preset.path_rounds, preset.sampling_runs // _PART
    rule = subject.guarantee.rule(policy, len(_EQUAL), rounds)
    experiment = experiment_on(policy, _EQUAL, "none", 0.0, rounds, runs, seed)
    setting = f"means 0.5, 0.5, 0.5; no attack; T = {count(rounds)}"

    def claim(
        text: str, measure: str, theorem: str, judge: Callable[[Books, float], Judgement]
    ) -> Claim:
        judged: Judge = lambda runs, level: judge(runs[0].layers, level)  # noqa: E731
        return Claim(text, subject.label, setting, measure, (experiment,), judged, theorem)

    if rule.share.size > 1:
        yield claim(
            "every layer gets its share of the rounds",
            "rounds of a layer, divided by its share of them, equal to 1",
            subject.guarantee.thinning,
            lambda books, level: share_judgement(rule, books, rounds, level),
        )
    yield claim(
        "each active arm has a turn in every (1 + lead) K moves of a layer",
        "probability of failure, which is 0",
        subject.guarantee.deletion,
        lambda books, level: never(_misses_turns(rule, books), level),
    )
    yield claim(
        "a layer learns from its own plays, once from each",
        "probability of failure, which is 0",
        "Fact 1",
        lambda books, level: never((books.pulls != books.assigned).any(axis=(1, 2)), level),
    )
    yield from _replay_claims(subject, policy, preset, seed)


def share_judgement(rule: PrescribedRace, books: Books, rounds: int, level: float) -> Judgement:
    """Judge shares by an exact binomial test for each layer, at a joint level; show the worst."""
    plays = books.assigned.sum(axis=2)
    layers = plays.shape[1]
    judged = []
    for layer in range(layers):
        share = float(rule.share[layer])
        if share > 0:
            found = clopper_pearson(int(plays[:, layer].sum()), len(plays) * rounds, level / layers)
            off = max(found.low - share, share - found.high) / share
            judged.append((off, Interval(found.low / share, found.high / share)))
    off, interval = max(judged)
    wrong = sum(each > 0 for each, _ in judged)
    return Judgement(len(plays), wrong, interval, 1.0, off <= 0)


def _misses_turns(rule: PrescribedRace, books: Books) -> Bools:
    """Find runs with unequal turns, by the final counts in layers that have all their arms."""
    moves = books.assigned.sum(axis=2)
    least = moves // ((1 + rule.lead) * books.assigned.shape[2])
    whole = books.active.all(axis=2)
    return np.asarray(((books.assigned.min(axis=2) < least) & whole).any(axis=1))


class ArmDeletion(NamedTuple):
    """The round in which an arm was deleted from a layer, and by which layer."""

    layer: int
    arm: int
    at: int
    by: int


class Records(NamedTuple):
    """What the layers know: rows are layers, columns are arms."""

    pulls: Floats
    sums: Floats
    lower: Floats
    """Ends of the intervals, of all arms with a reward, at the end of the run."""
    upper: Floats
    deletions: set[ArmDeletion]


class FarRun(NamedTuple):
    """A run of the compiled race or guard, to its horizon."""

    tickets: list[Ticket]
    rewards: list[float]
    records: Records
    state: Any

    @property
    def plays(self) -> list[tuple[int, int]]:
        """Layer and arm of every play, in order."""
        return [(ticket.layer, ticket.arm) for ticket in self.tickets]


class OpenLearner(Learner):
    """A learner whose running state can be read."""

    @property
    def state(self) -> Any:
        """The state of the policy."""
        return self._state


def play_far(policy: Policy, rounds: int, seed: int) -> FarRun:
    """Play a race or a guard to its horizon, on rewards of 0 and 1."""
    learner = OpenLearner(policy, arms=len(MEANS), horizon=rounds, seed=seed, log=False)
    draws = np.random.default_rng(seed).random((rounds, len(MEANS)))
    table = (draws < np.array(MEANS)).astype(np.float64).tolist()
    tickets, rewards = [], []
    for row in table:
        decision = learner.decide()
        reward = row[decision.ticket.arm]
        learner.learn(decision, reward)
        tickets.append(decision.ticket)
        rewards.append(reward)
    views = learner.inspect()
    rows = [(v.pulls, v.pulls * (v.mean or 0), v.lower or 0, v.upper or 0) for v in views]
    pulls, sums, lower, upper = np.array(rows).T.reshape(4, -1, len(MEANS))
    gone = {
        ArmDeletion(view.layer, view.arm, view.eliminated_at, view.eliminated_by)
        for view in views
        if view.eliminated_at is not None and view.eliminated_by is not None
    }
    return FarRun(tickets, rewards, Records(pulls, sums, lower, upper, gone), learner.state)


def _replay_claims(subject: Subject, policy: Policy, preset: Preset, seed: int) -> Iterator[Claim]:
    """Claim that records and deletions are those that the prescribed rule gives for the plays."""
    rule = subject.guarantee.rule(policy, len(MEANS), preset.path_rounds)

    @cache
    def replays() -> list[tuple[Records, Records]]:
        runs = [
            play_far(policy, preset.path_rounds, seed + run) for run in range(preset.replayed_runs)
        ]
        return [
            (run.records, prescribed_records(rule, run.plays, run.rewards, len(MEANS)))
            for run in runs
        ]

    def differing_records() -> Iterator[tuple[int, int]]:
        for found, prescribed in replays():
            for one, other in zip(found[:-1], prescribed[:-1], strict=True):
                yield int((np.abs(one - other) > _ROUNDING).sum()), one.size

    def differing_deletions() -> Iterator[tuple[int, int]]:
        for found, prescribed in replays():
            one, other = found.deletions, prescribed.deletions
            yield len(one ^ other), max(1, len(one | other))

    for claim, measure, differing, theorem in (
        (
            "the records of every layer are those of its own plays and rewards",
            "share of the counts, sums and ends of intervals that differ, which is 0",
            differing_records,
            "Fact 1",
        ),
        (
            "arms are deleted at the play at which the prescribed intervals part",
            "share of the deletions that differ, which is 0",
            differing_deletions,
            subject.guarantee.deletion,
        ),
    ):
        yield Claim(
            claim, subject.label, far_setting(preset), measure, (), exactly(differing), theorem
        )


def far_setting(preset: Preset) -> str:
    """Describe the runs of :func:`play_far`."""
    length = f"T = {count(preset.path_rounds)}; {preset.replayed_runs} runs"
    return f"{describe_means(MEANS)}; no attack; {length}"


def exactly(
    differing: Callable[[], Iterable[tuple[int, int]]],
) -> Judge:
    """Return the judge of things of which none may differ."""

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        wrong, total = map(sum, zip(*differing(), strict=True))
        share = wrong / total
        return Judgement(total, wrong, Interval(share, share), 0.0, wrong == 0)

    return judge


def prescribed_records(
    rule: PrescribedRace, plays: Sequence[tuple[int, int]], rewards: Sequence[float], arms: int
) -> Records:
    """Return the records and deletions of a race with this rule if its layers make these plays.

    Rewards are 0 or 1. A layer of -1 means that no layer learns from the play.
    """
    layers = rule.share.size
    pulls, sums = np.zeros((layers, arms)), np.zeros((layers, arms))
    active = np.ones((layers, arms), dtype=bool)
    lower, upper = np.full((layers, arms), -np.inf), np.full((layers, arms), np.inf)
    patience = np.zeros((layers, arms), dtype=int)
    found = set()
    for number, ((played, arm), reward) in enumerate(zip(plays, rewards, strict=True), start=1):
        if played < 0:
            continue
        pulls[played, arm] += 1
        sums[played, arm] += reward
        for layer in range(played, -1, -1) if rule.pooled else (played,):
            if not active[layer, arm] or active[layer].sum() == 1:
                continue
            patience[layer, arm] -= 1
            if patience[layer, arm] >= 0:
                continue
            used = slice(layer, None) if rule.pooled else slice(layer, layer + 1)
            seen = pulls[used, arm].sum()
            if rule.kind != "paper":
                patience[layer, arm] = int(seen) >> _AGE
            lower[layer, arm], upper[layer, arm] = ends(rule, layer, seen, sums[used, arm].sum())
            beaten = active[layer] & (upper[layer] < lower[layer][active[layer]].max())
            for other in np.flatnonzero(beaten):
                for faster in range(layer + 1):
                    if active[faster, other]:
                        active[faster, other] = False
                        found.add(ArmDeletion(faster, int(other), number, layer))
    for layer, arm in np.ndindex(layers, arms):
        used = slice(layer, None) if rule.pooled else slice(layer, layer + 1)
        seen = pulls[used, arm].sum()
        last = ends(rule, layer, seen, sums[used, arm].sum()) if seen else (0.0, 0.0)
        lower[layer, arm], upper[layer, arm] = last
    return Records(pulls, sums, lower, upper, found)
