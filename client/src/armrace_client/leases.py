"""Decisions that are drawn in your own process, with weights that the service has lent.

Draw ``n`` of a lease is a pure function of its seed, its stream and its weights, in whole numbers,
so that every language gets the same arm and the service can compute it again:

- block = floor(n / 16), lane = n mod 16
- digest = SHA-512(seed, stream as 8 bytes, block as 8 bytes), little endian
- u = word number ``lane`` of the digest, of 4 bytes, little endian
- arm = the smallest ``a`` with u < weights[0] + ... + weights[a]

The seed is 32 secret bytes, and the weights sum to 2^32. Where visitors fall into leaves, each leaf
has weights of its own, leaf after leaf, and the arm is drawn by those of the visitor's.
"""

from __future__ import annotations

import math
import struct
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from hashlib import sha512
from itertools import accumulate
from time import monotonic
from typing import NamedTuple, Self

from msgspec import ValidationError, convert
from msgspec.structs import replace

from armrace_client.answers import DecisionAnswer, Lease, VisitAnswer
from armrace_client.calls import Calls, RewardItem, check_reward
from armrace_client.errors import ArmraceError, InvalidParameter, RewardConflict
from armrace_client.operations import MOST_IN_BATCH, Context, Labels, LeasedVisit
from armrace_client.queue import Outbox

TOTAL = 2**32
_unpack = struct.Struct("<16I").unpack
_pack = struct.Struct("<QQ").pack
_rewarding = threading.Lock()
_RETRY_SECONDS = 1.0
"""How long to wait before another lease is asked for if the service gave none."""


def integer_weights(probabilities: Sequence[float]) -> list[int]:
    """Return whole numbers with the sum 2^32 in these proportions, as the service lends them.

    What is positive gets at least 1. The rest goes to the largest remainders, in case of ties to
    the lower places.
    """
    ratios = [float(each).as_integer_ratio() for each in probabilities]
    scale = max(below for _, below in ratios)  # all are powers of two
    parts = [above * (scale // below) for above, below in ratios]
    total = sum(parts)
    weights = [max(part * TOTAL // total, int(part > 0)) for part in parts]
    rest = TOTAL - sum(weights)
    if rest < 0:
        weights[weights.index(max(weights))] += rest
    remainders = [
        part * TOTAL - weight * total for part, weight in zip(parts, weights, strict=True)
    ]
    for place in sorted(range(len(parts)), key=lambda place: -remainders[place])[: max(rest, 0)]:
        weights[place] += 1
    return weights


class Draws:
    """The draws of a lease, a block of 16 at a time.

    >>> [Draws(bytes(range(32)), 1, [2**31, 2**30, 2**30]).arm(n) for n in range(8)]
    [0, 0, 1, 0, 0, 0, 2, 1]
    """

    def __init__(self, seed: bytes, stream: int, weights: Sequence[int], leaves: int = 1) -> None:
        if len(seed) != 32:
            raise InvalidParameter(f"seed must have 32 bytes; got {len(seed)}.")
        arms = len(weights) // leaves
        rows = [weights[leaf * arms :][:arms] for leaf in range(leaves)]
        if any(sum(row) != TOTAL or min(row) < 0 for row in rows):
            raise InvalidParameter("weights must be at least 0 and sum to 2^32.")
        self._seed, self._stream = seed, stream
        self._bounds = [list(accumulate(row)) for row in rows]
        self._cached: tuple[int, Sequence[int]] = (-1, ())

    def arm(self, n: int, leaf: int = 0) -> int:
        """Return the arm of a draw, for a visitor of a leaf."""
        block, words = self._cached
        if n >> 4 != block:
            block = n >> 4
            words = _unpack(sha512(self._seed + _pack(self._stream, block)).digest())
            self._cached = block, words
        return bisect_right(self._bounds[leaf], words[n & 15])


class _Held(NamedTuple):
    """A lease, and the times of this process at which to replace it and to stop using it."""

    lease: Lease
    draws: Draws
    stale: float
    end: float


class LeasedDecision:
    """A decision that was drawn here; it is reported in the background, and so is its reward."""

    def __init__(
        self,
        lease: Lease,
        arm: int,
        leaf: int,
        visit: LeasedVisit,
        report: Callable[[LeasedDecision], None],
    ) -> None:
        self.arm = lease.arms[arm]
        self.probability = lease.weights[leaf * len(lease.arms) + arm] / TOTAL
        self.decision: str | None = None
        """The signed name of the decision, once the service has answered the report."""
        self.lease, self.visit, self._report = lease, visit, report
        report(self)

    def reward(
        self,
        value: float,
        suspicion: float | None = None,
        metrics: dict[str, float] | None = None,
    ) -> None:
        """Say what the decision earned.

        Args:
            value: the reward.
            suspicion: how suspicious it is, from 0 to 1.
            metrics: numbers of the guardrails that the experiment declares.

        Raises:
            RewardConflict: it has had another reward, or other metrics.
            TooManyOpen: there is no room for another report.
        """
        made = check_reward("", value, suspicion=suspicion, metrics=metrics)
        with _rewarding:
            before = self.visit
            if before.value is not None and before.value != made.value:
                raise RewardConflict(
                    f"the decision has had the reward {before.value:g}; got {value:g}."
                )
            if before.value is not None and (before.metrics or {}) != (made.metrics or {}):
                raise RewardConflict("the decision has had its reward with other metrics.")
            more = {"suspicion": made.suspicion, "metrics": made.metrics}
            self.visit = replace(before, value=made.value, **more)
        try:
            self._report(self)
        except ArmraceError:
            self.visit = before
            raise

    def as_reward(self) -> RewardItem | None:
        """Return the reward by itself, if there is one and the visit has been reported."""
        visit = self.visit
        if self.decision is None or visit.value is None:
            return None
        made = DecisionAnswer(self.decision, self.lease.experiment, self.arm, self.probability)
        origin = visit.source, visit.suspicion, visit.labels
        return RewardItem(made, visit.value, *origin, visit.metrics)


class LeasedExperiment:
    """Decides in your own process, and reports in the background.

    A lease is taken at the first decision, and another one when it is ``refresh`` seconds old or
    nearly used up; until that has come, the old one serves as long as it lasts, so that the service
    may be away for a while. Visits are reported in batches, with their rewards or before them, and
    none is dropped: ``close`` returns when all are reported. Open one for each process, after a
    fork; it is safe under threads.

    Args:
        client: a client, which should not be patient: a decision without a lease waits for it.
        name: the experiment, whose policy must draw by weights.
        visits: how many decisions to draw under a lease.
        seconds: how long a lease lasts. Visits that are reported later than that are refused.
        refresh: after how many seconds weights are too old.
        room: how many reports may wait; beyond that, ``decide`` raises
            :class:`~armrace_client.errors.TooManyOpen`.
        linger: how many seconds reports wait for others to share a request.
    """

    def __init__(
        self,
        client: Calls,
        name: str,
        visits: int = 10_000,
        seconds: float = 600.0,
        refresh: float = 10.0,
        room: int = 100_000,
        linger: float = 1.0,
    ) -> None:
        self.name = name
        self._client, self._visits, self._seconds, self._refresh = client, visits, seconds, refresh
        self._outbox: Outbox[LeasedDecision, VisitAnswer] = Outbox(
            self._send, VisitAnswer, "reports", room, "raise", MOST_IN_BATCH, linger
        )
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._drawn = 0
        self._asking = False
        self._refusal: ArmraceError | None = None
        self._next_try = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, timeout: float | None = None) -> None:
        """Report what is left; as :meth:`armrace_client.RewardQueue.close`."""
        self._outbox.close(timeout)

    @property
    def refused(self) -> list[tuple[LeasedDecision, VisitAnswer]]:
        """Decisions whose visits or rewards the service has refused, with its answers."""
        return self._outbox.refused

    def decide(
        self,
        unit: str | None = None,
        request: str | None = None,
        source: str | None = None,
        labels: Labels | None = None,
        context: Context | None = None,
    ) -> LeasedDecision:
        """Draw an arm; every call draws anew. Arguments as :meth:`armrace_client.Client.decide`.

        Raises:
            ArmraceError: there is no lease, no room for another report, or a feature is refused.
        """
        given = {
            "unit": unit,
            "request": request,
            "source": source,
            "labels": labels,
            "context": context,
        }
        with self._lock:
            held, number = self._usable(monotonic()), self._drawn
            leaf = held.lease.leaf_of(context)
            try:
                visit = convert({"draw": number, **given}, LeasedVisit)
            except ValidationError as error:
                raise InvalidParameter(f"{error}.") from None
            self._drawn += 1
        arm = held.draws.arm(number, leaf)
        return LeasedDecision(held.lease, arm, leaf, visit, self._outbox.put_item)

    def _usable(self, now: float) -> _Held:
        """Return a lease to draw from; have a thread fetch another one in good time."""
        held = self._held
        if held is None or now >= held.end or self._drawn >= held.lease.visits:
            if now < self._next_try and self._refusal is not None:
                raise type(self._refusal)(str(self._refusal))  # a shop must not wait every time
            self._held, self._drawn = self._ask(), 0
            return self._held
        old = now >= held.stale or self._drawn >= 0.9 * held.lease.visits
        if old and not self._asking and now >= self._next_try:
            self._asking = True
            threading.Thread(target=self._replace, daemon=True).start()
        return held

    def _ask(self) -> _Held:
        asked = monotonic()
        try:
            lease = self._client.lease(self.name, self._visits, self._seconds)
        except ArmraceError as error:
            self._refusal, self._next_try = error, monotonic() + _RETRY_SECONDS
            raise
        leaves = len(lease.weights) // len(lease.arms)
        draws = Draws(bytes.fromhex(lease.seed), lease.stream, lease.weights, leaves)
        # The last tenth is for reports. Times are those of this process, whose clock may be wrong.
        return _Held(lease, draws, asked + self._refresh, asked + 0.9 * self._seconds)

    def _replace(self) -> None:
        try:
            held = self._ask()
            with self._lock:
                self._held, self._drawn = held, 0
        except ArmraceError:
            pass  # the old lease serves as long as it lasts, and says why there is none after that
        finally:
            self._asking = False

    def _send(self, batch: list[LeasedDecision]) -> list[VisitAnswer]:
        """Report visits by lease; what was reported before and has a reward now is rewarded."""
        rewards: dict[LeasedDecision, RewardItem] = {}
        reports: dict[str, list[LeasedDecision]] = defaultdict(list)
        for each in dict.fromkeys(batch):  # a visit and its reward may be in the same batch
            if item := each.as_reward():
                rewards[each] = item
            else:
                reports[each.lease.lease].append(each)
        found: dict[LeasedDecision, VisitAnswer] = {}
        for lease, members in reports.items():
            visits = [each.visit for each in members]
            answers = self._client.report(self.name, lease, visits)
            for each, answer in zip(members, answers, strict=True):
                found[each], each.decision = answer, answer.decision
        if rewards:
            for each, said in zip(rewards, self._client.reward_many(rewards.values()), strict=True):
                found[each] = VisitAnswer(said.status, each.decision, said.detail)
        return [found[each] for each in batch]
