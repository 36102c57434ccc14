"""Track-and-stop: find the best arm with a set confidence, in as few plays as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.base import ArmView
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.common.divergence import kl
from armrace.policies.indices.argmax import plays_next_arm
from armrace.policies.races.intervals import KL_JEFFREYS, for_all_times
from armrace.policies.races.race import NEVER
from armrace.specification import Confidence

_STEPS = 30
_REFRESH = 5
"""Shares are computed again when the rounds have grown by one part in ``2^5``."""

ANSWER, WHEN = 0, 1


class TrackAndStopState(NamedTuple):
    """Counts, the shares that are tracked, and the answer with the round in which it was given."""

    counts: Counts
    shares: npt.NDArray[np.float64]
    due: npt.NDArray[np.int64]
    """From this number of rewards on, shares are computed again."""
    stopped: npt.NDArray[np.int64]
    log_term: float
    allowance: float


class TrackAndStop(CountingPolicy, frozen=True, tag="track-and-stop"):
    """Plays arms in the shares that tell the best one soonest, then the answer for ever.

    The shares maximise the least, over other arms ``b`` than the one ``a`` that looks best, of
    ``w[a] kl(mean[a], m) + w[b] kl(mean[b], m)``, where ``m`` is the mean of both, weighted. The
    arm that lags most behind its share is played, or one that was played less than
    ``sqrt(t) - K/2`` times. It stops with the answer ``a`` when for all ``b``::

        n[a] kl(mean[a], m) + n[b] kl(mean[b], m) >= ln((K-1)/delta) + e(n[a]) + e(n[b])

    with ``e(n) = ln(pi (n + 1/2))/2``. Rewards may lie anywhere in [0, 1]. That the answer is wrong
    with probability at most ``delta`` follows from Jeffreys' mixtures (the theory page's lemma 2):
    the product of those of two arms is a martingale.

    With a ``corruption`` of ``C``, the means that it stops with are ``mean[a] - C/n[a]`` and
    ``mean[b] + C/n[b]``. Then ``delta`` holds whatever was changed, up to ``C`` in all, and also by
    an attacker who sees the arm. With the default of 0 a few changed rewards decide the answer.

    See :func:`armrace.identify`. It is no policy to earn rewards with: before it stops, it plays
    good and bad arms as it needs them.

    >>> shares = np.empty(2)
    >>> best_shares(np.array([0.5, 0.4]), 0, shares)
    >>> shares.round(4)
    array([0.4983, 0.5017])
    """

    family: ClassVar[str] = "published"
    reference: ClassVar[str] = (
        "Garivier and Kaufmann (2016), Optimal best arm identification with fixed confidence"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "Shares and tracking are from memory; the print was not compared. The threshold and the "
        "allowance are this library's, with the proof that the docstring has. Shares are computed "
        "again when the rounds have grown by a thirty-second, not in every round."
    )

    corruption: Annotated[float, Limits("bound on the total corruption, C", 0)] = 0.0
    delta: Confidence = 0.05

    def start(self, arms: int, horizon: int) -> TrackAndStopState:
        return TrackAndStopState(
            counts=make_counts(arms),
            shares=np.full(arms, 1.0 / arms),
            due=np.full(1, arms, dtype=np.int64),
            stopped=np.full(2, NEVER, dtype=np.int64),
            log_term=math.log(max(arms - 1, 1) / self.delta),
            allowance=float(self.corruption),
        )

    def inspect(self, state: Any) -> Sequence[ArmView]:
        """Return the views of all arms; once it has stopped, all but the answer are deleted."""
        views, (answer, when) = super().inspect(state), state.stopped.tolist()
        if answer == NEVER:
            return views
        gone = {"active": False, "eliminated_at": when, "eliminated_by": 0}
        return [v if v.arm == answer else msgspec.structs.replace(v, **gone) for v in views]


@inlined
def _cost(best: float, other: float, ratio: float) -> float:
    """What tells two arms apart, for one play of the better one and ``ratio`` of the other."""
    middle = (best + ratio * other) / (1.0 + ratio)
    return kl(best, middle) + ratio * kl(other, middle)


@inlined
def _ratio_for(best: float, other: float, level: float) -> float:
    """The ``ratio`` at which :func:`_cost` is ``level``, which is below ``kl(best, other)``."""
    low, high = 0.0, 1.0
    while _cost(best, other, high) < level and high < 1e12:
        low, high = high, 2.0 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if _cost(best, other, middle) < level:
            low = middle
        else:
            high = middle
    return high


@outlined
def best_shares(means: npt.NDArray[np.float64], best: int, out: npt.NDArray[np.float64]) -> None:
    """Write the shares that tell the best arm soonest, of means in (0, 1); equal ones at a tie."""
    top = np.inf
    for arm in range(means.size):
        if arm != best:
            top = min(top, kl(means[best], means[arm]))
    out[:] = 1.0 / means.size
    if top <= 0.0:
        return
    low, high = 0.0, top
    for _ in range(_STEPS):
        level, total = 0.5 * (low + high), 0.0
        for arm in range(means.size):
            if arm != best:
                ratio = _ratio_for(means[best], means[arm], level)
                middle = (means[best] + ratio * means[arm]) / (1.0 + ratio)
                total += kl(means[best], middle) / max(kl(means[arm], middle), 1e-300)
                out[arm] = ratio
        if total < 1.0:
            low = level
        else:
            high = level
    out[best] = 1.0
    out /= out.sum()


@plays_next_arm(TrackAndStopState)
@inlined
def _next_arm(state: TrackAndStopState, eligible: Eligible) -> int:
    counts, answer = state.counts, state.stopped[ANSWER]
    if answer != NEVER and (eligible is None or eligible[answer]):
        return int(answer)
    arms, played = counts.assigned.size, counts.rounds[0]
    fewest, lagging, most = -1, -1, -np.inf
    for arm in range(arms):
        if eligible is None or eligible[arm]:
            if fewest < 0 or counts.assigned[arm] < counts.assigned[fewest]:
                fewest = arm
            lag = (played + 1) * state.shares[arm] - counts.assigned[arm]
            if lag > most:
                lagging, most = arm, lag
    least = counts.assigned[fewest]
    return fewest if least == 0 or least < math.sqrt(played) - 0.5 * arms else lagging


@implement(assign, TrackAndStopState)
def track_and_stop_assign(state: TrackAndStopState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, TrackAndStopState)
def track_and_stop_learn(state: TrackAndStopState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    if state.stopped[ANSWER] == NEVER:
        _look(state)


@outlined
def _look(state: TrackAndStopState) -> None:
    """Stop if the best arm is known; else compute shares again where that is due."""
    counts = state.counts
    best, seen = 0, 0
    for arm in range(counts.pulls.size):
        if counts.pulls[arm] == 0:
            return
        seen += counts.pulls[arm]
        if counts.sums[arm] * counts.pulls[best] > counts.sums[best] * counts.pulls[arm]:
            best = arm
    known = True
    for arm in range(counts.pulls.size):
        known = known and (arm == best or evidence(state, best, arm) >= 0.0)
    if known:
        state.stopped[ANSWER], state.stopped[WHEN] = best, counts.rounds[0]
    elif seen >= state.due[0]:
        state.due[0] = seen + max(1, seen >> _REFRESH)
        # Not quite the means: at 0 and 1 divergences would be infinite.
        best_shares((counts.sums + 0.5) / (counts.pulls + 1.0), best, state.shares)


@inlined
def evidence(state: TrackAndStopState, best: int, other: int) -> float:
    """How much more than needed speaks for an arm being better than another; 0 is enough."""
    own, others = float(state.counts.pulls[best]), float(state.counts.pulls[other])
    mean = min(1.0, max(0.0, (state.counts.sums[best] - state.allowance) / own))
    rival = max(0.0, min(1.0, (state.counts.sums[other] + state.allowance) / others))
    if mean <= rival:
        return -np.inf
    middle = (own * mean + others * rival) / (own + others)
    found = own * kl(mean, middle) + others * kl(rival, middle)
    needed = state.log_term + for_all_times(KL_JEFFREYS, own)
    return found - needed - for_all_times(KL_JEFFREYS, others)
