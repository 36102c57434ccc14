"""Checks that a race runs as the proofs assume: shares, turns, own rewards, deletions.

Shares are random and checked by an exact test. The rest must hold in every run, so that a single
violation refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.online import Learner
from armrace.policies import Policy
from armrace.simulation.experiment import make_experiment
from armrace.statistics import Interval, clopper_pearson
from armrace.verification.checks import Claim, Judgement, never
from armrace.verification.forms import Form
from armrace.verification.guarantees import Subject
from armrace.verification.rules import Rule, ends
from armrace.verification.runs import Books, Runs

__all__ = [
    "REWARDS",
    "Deletion",
    "deletion_claim",
    "mechanics_claims",
    "play_with_rewards",
    "prescribed_deletions",
    "share_judgement",
]

Bools = npt.NDArray[np.bool_]

_EQUAL = (0.5, 0.5, 0.5)
"""Arms of which none is deleted in a short run."""
_SHORT = 1_000
_TOLD = 8.0
REWARDS = (1.0, 0.0)
"""What the two arms always pay in runs that are played a second time."""
_HORIZON = 4_096
_REPLAYED = 3_000
_AGE = 7
"""Intervals other than the paper's may be one part in ``2^7`` old."""


def mechanics_claims(subject: Subject, form: Form, seed: int) -> Iterator[Claim]:
    """Make the claims about shares, turns, own rewards and deletions of a race.

    Args:
        subject: what is checked, with its guarantee.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    policy = subject.facing(_TOLD)
    rule = subject.guarantee.rule(policy, len(_EQUAL), _SHORT)
    experiment = make_experiment(
        policy=policy,
        environment=list(_EQUAL),
        adversary="none",
        horizon=_SHORT,
        replications=form.sampling_runs,
        seed=seed,
    )
    setting = f"means 0.5, 0.5, 0.5; no attack; T = {count(_SHORT)}"

    def claim(
        text: str,
        measure: str,
        theorem: str,
        judge: Callable[[Books, float], Judgement],
    ) -> Claim:
        def judged(runs: Sequence[Runs], level: float) -> Judgement:
            assert runs[0].books is not None  # races can be inspected
            return judge(runs[0].books, level)

        return Claim(text, subject.label, setting, measure, (experiment,), judged, theorem)

    if rule.share.size > 1:
        yield claim(
            "every layer gets its share of the rounds",
            "rounds of a layer, divided by its share of them, equal to 1",
            subject.guarantee.thinning,
            lambda books, level: share_judgement(rule, books, level),
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
    if hasattr(policy.start(len(REWARDS), _HORIZON), "rule"):
        yield deletion_claim(subject, policy, form, seed)


def share_judgement(rule: Rule, books: Books, level: float) -> Judgement:
    """Judge shares by an exact binomial test for each layer, at a joint level; show the worst.

    Args:
        rule: what the theorem prescribes for each layer.
        books: the records of the layers at the end.
        level: the probability with which the interval may miss.
    """
    plays = books.assigned.sum(axis=2)
    rounds, layers = plays.shape[0] * _SHORT, plays.shape[1]
    judged = []
    for layer in range(layers):
        share = float(rule.share[layer])
        if share > 0:
            found = clopper_pearson(int(plays[:, layer].sum()), rounds, level / layers)
            off = max(found.low - share, share - found.high) / share
            judged.append((off, Interval(found.low / share, found.high / share)))
    off, interval = max(judged)
    wrong = sum(each > 0 for each, _ in judged)
    return Judgement(len(plays), wrong, interval, 1.0, off <= 0)


def _misses_turns(rule: Rule, books: Books) -> Bools:
    """Find runs with unequal turns, by the final counts in layers that have all their arms."""
    moves = books.assigned.sum(axis=2)
    least = moves // ((1 + rule.lead) * books.assigned.shape[2])
    whole = books.active.all(axis=2)
    return np.asarray(((books.assigned.min(axis=2) < least) & whole).any(axis=1))


class Deletion(NamedTuple):
    """The round in which an arm was deleted from a layer, and by which layer."""

    layer: int
    arm: int
    at: int
    by: int


def deletion_claim(subject: Subject, policy: Policy, form: Form, seed: int) -> Claim:
    """Claim that arms are deleted exactly in the rounds that the prescribed widths imply.

    Args:
        subject: what is checked, with its guarantee.
        policy: the race, told the corruption if it takes one.
        form: the sizes of the checks.
        seed: the seed of all runs.
    """
    rule = subject.guarantee.rule(policy, len(REWARDS), _HORIZON)

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        differing = total = 0
        for run in range(form.replayed_runs):
            plays, found = play_with_rewards(policy, seed + run)
            prescribed = prescribed_deletions(rule, plays, REWARDS)
            differing += len(prescribed ^ found)
            total += max(1, len(prescribed | found))
        share = differing / total
        return Judgement(total, differing, Interval(share, share), 0.0, differing == 0)

    return Claim(
        "arms are deleted at the play at which the prescribed intervals part",
        subject.label,
        f"rewards always 1 and 0; {count(_REPLAYED)} rounds of T = {count(_HORIZON)}; "
        f"{form.replayed_runs} runs",
        "share of the deletions that differ, which is 0",
        (),
        judge,
        subject.guarantee.deletion,
    )


def play_with_rewards(policy: Policy, seed: int) -> tuple[list[tuple[int, int]], set[Deletion]]:
    """Play a race; return layers and arms in the order of play, and the deletions.

    Args:
        policy: the race.
        seed: the seed of all runs.
    """
    learner = Learner(policy, arms=len(REWARDS), horizon=_HORIZON, seed=seed)
    plays = []
    for _ in range(_REPLAYED):
        decision = learner.decide()
        arm = decision.ticket.arm
        learner.learn(decision, REWARDS[arm])
        plays.append((decision.ticket.layer, arm))
    return plays, {
        Deletion(view.layer, view.arm, view.eliminated_at, view.eliminated_by)
        for view in learner.inspect()
        if view.eliminated_at is not None and view.eliminated_by is not None
    }


def prescribed_deletions(
    rule: Rule, plays: Sequence[tuple[int, int]], rewards: Sequence[float]
) -> set[Deletion]:
    """Return the deletions of a race with this rule if its layers make the given plays.

    Each arm always pays the same, 0 or 1. A layer of -1 means that no layer learns from the play.

    Args:
        rule: what the theorem prescribes for each layer.
        plays: layer and arm of every play, in order.
        rewards: what each arm always pays, 0 or 1.
    """
    layers, arms = rule.share.size, len(rewards)
    pulls = np.zeros((layers, arms))
    active = np.ones((layers, arms), dtype=bool)
    lower, upper = np.full((layers, arms), -np.inf), np.full((layers, arms), np.inf)
    patience = np.zeros((layers, arms), dtype=int)
    found = set()
    for number, (played, arm) in enumerate(plays, start=1):
        if played < 0:
            continue
        pulls[played, arm] += 1
        for layer in range(played, -1, -1) if rule.pooled else (played,):
            if not active[layer, arm] or active[layer].sum() == 1:
                continue
            patience[layer, arm] -= 1
            if patience[layer, arm] >= 0:
                continue
            count = pulls[layer:, arm].sum() if rule.pooled else pulls[layer, arm]
            if rule.kind != "paper":
                patience[layer, arm] = int(count) >> _AGE
            lower[layer, arm], upper[layer, arm] = ends(rule, layer, count, count * rewards[arm])
            beaten = active[layer] & (upper[layer] < lower[layer][active[layer]].max())
            for other in np.flatnonzero(beaten):
                for faster in range(layer + 1):
                    if active[faster, other]:
                        active[faster, other] = False
                        found.add(Deletion(faster, int(other), number, layer))
    return found
