"""Checks that races and guards run as the proofs assume: shares, turns, own rewards, deletions.

Shares are random and checked by an exact test. The rest must hold in every run, so that a single
violation refutes it. A guard is also checked for what its base may play and learn, for deletions in
time, and for its overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.formatting import count
from armrace.kernels.generics import Ticket, assign, learn, unwrap_ticket
from armrace.kernels.states import lasting_arrays
from armrace.learner import Learner
from armrace.policies import Guarded, Policy
from armrace.statistics import Interval, clopper_pearson, mean_interval
from armrace.verification.claims import (
    Claim,
    Configuration,
    Judge,
    Judgement,
    Preset,
    cells,
    describe_means,
    experiment_on,
    never,
    rarely,
)
from armrace.verification.guarantees import PrescribedRace, Subject, ends, guard_layers
from armrace.verification.runs import Books, Runs
from armrace.verification.theorems import FAR, below_bound

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

    claim = "a tolerant layer has deleted a bad arm by round R(a)"
    more = f"; R(a) is below T in {int(due.sum())} layers"
    return cell.claim(claim, more, "probability of failure, at most delta", judge, "Lemma 7")


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
