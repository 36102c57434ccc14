"""A policy on live traffic, in a process: decide now, learn whenever the reward comes."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from armrace.errors import ForeignTicket, InvalidParameter
from armrace.forensics import Audit, audit
from armrace.forensics.audit_trail import watch as put_under_watch
from armrace.kernels.compiling import fingerprint
from armrace.kernels.generics import NO_LAYER, implementations
from armrace.kernels.live import Live, make_live_calls
from armrace.kernels.streams import seek, tell
from armrace.kernels.unowned_arrays import Handle
from armrace.online.snapshots import Snapshot, read_arrays, write_arrays
from armrace.policies import POLICIES, ArmView, Policy
from armrace.randomness import MAXIMAL_SEED, Purpose, stream_for
from armrace.specification import MAXIMAL_HORIZON, Limits, check_number, is_list

__all__ = ["Learner", "Ticket"]

_HORIZON = Limits("expected number of decisions", 1, MAXIMAL_HORIZON)
_SEED = Limits("seed", 0, MAXIMAL_SEED)
_GROWTH = bytes(4096)


class Ticket(NamedTuple):
    """A decision: what to play, and what feedback must bring back.

    It is plain data and may be stored. Whoever can forge rewards should not see ``layer``:
    knowing it, they could aim at one layer of a race.
    """

    arm: str | int
    probability: float
    number: int
    arm_index: int
    layer: int
    note: int


class Learner:
    """The compiled functions of the simulator, for one decision at a time.

    ``decide`` counts an arm as assigned, which steers what is chosen next; ``learn`` counts
    its reward, which feeds the intervals. Rewards may come late, in any order, or never. A
    learner is safe under threads. Unless told not to ``watch``, it keeps what :meth:`audit`
    needs; that changes no decision.

    >>> learner = Learner("multi-layer-race", arms=["red", "green"], horizon=1000, seed=1)
    >>> ticket = learner.decide()
    >>> ticket.arm, ticket.probability
    ('red', 1.0)
    >>> learner.learn(ticket, reward=1.0)
    >>> learner.pending
    0
    """

    def __init__(
        self,
        policy: Policy | str | Mapping[str, Any],
        arms: Sequence[str | int] | int,
        horizon: int,
        seed: int = 0,
        watch: bool = True,
    ) -> None:
        if not isinstance(arms, int) and not is_list(arms):
            raise InvalidParameter(f"arms must be a list of names or a number; got {arms!r}.")
        labels: list[str | int] = list(range(arms)) if isinstance(arms, int) else list(arms)
        if len(labels) < 2:
            raise InvalidParameter(f"arms must name at least 2 arms; got {len(labels)}.")
        if len(set(labels)) < len(labels):
            raise InvalidParameter("arms must have different names; some are equal.")
        check_number("horizon", horizon, _HORIZON, whole=True)
        check_number("seed", seed, _SEED, whole=True)
        self.policy = POLICIES.make(policy)
        self.arms = labels
        self.horizon = horizon
        self.seed = seed
        self.watch = watch
        self.decisions = 0
        self.rewards = 0
        self._lock = threading.Lock()
        self._learned = bytearray()
        self._layers = self.policy.layer_count(len(labels), horizon)
        self._state = self.policy.start(len(labels), horizon)
        self._kept = put_under_watch(self._state, len(labels), horizon) if watch else self._state
        self._stream = stream_for(seed, Purpose.LEARNER, replication=0)
        calls = make_live_calls(fingerprint(implementations(self._kept)))
        self._decide, self._learn = calls.decide, calls.learn
        self._distribution = calls.distribution
        self._handle = Handle(Live(self._kept, self._stream), calls.put_down)

    @property
    def pending(self) -> int:
        """Decisions whose reward has not come."""
        return self.decisions - self.rewards

    def decide(self) -> Ticket:
        """Choose an arm."""
        with self._lock:
            index, layer, probability, note = self._decide(self._handle)
            number = self.decisions
            self.decisions = number + 1
            if number >> 3 >= len(self._learned):
                self._learned += _GROWTH
        return Ticket(self.arms[index], probability, number, index, layer, note)

    def learn(self, ticket: Ticket, reward: float) -> None:
        """Take the reward of a decision; each decision takes one."""
        try:
            arm, probability, number, index, layer, note = ticket
            known = self._fits(number, index, layer, probability) and self.arms[index] == arm
        except (TypeError, ValueError):
            known = False
        if not known:
            raise ForeignTicket(f"no decision of this learner has the ticket {ticket}.")
        try:
            legal = 0.0 <= reward <= 1.0
        except TypeError:
            legal = False
        if not legal:
            raise InvalidParameter(f"reward must be in [0, 1]; got {reward!r}.")
        byte, bit = number >> 3, 1 << (number & 7)
        with self._lock:
            if self._learned[byte] & bit:
                raise ForeignTicket(f"decision {number} has had its reward already.")
            self._learn(self._handle, index, layer, probability, note, float(reward))
            self._learned[byte] |= bit
            self.rewards += 1

    def _fits(self, number: int, index: int, layer: int, probability: float) -> bool:
        """Compiled code does not check bounds, so nothing else may reach it."""
        return (
            0 <= number < self.decisions
            and 0 <= index < len(self.arms)
            and NO_LAYER <= layer < self._layers
            and (0.0 < probability <= 1.0 or not self.policy.exact_tickets)
        )

    def distribution(self) -> dict[str | int, float]:
        """The probability with which the next decision will choose each arm."""
        out = np.zeros(len(self.arms))
        with self._lock:
            self._distribution(self._handle, out)
        return dict(zip(self.arms, out.tolist(), strict=True))

    def inspect(self) -> Sequence[ArmView]:
        """What each layer thinks of each arm: pulls, mean, interval, active or deleted."""
        with self._lock:
            return self.policy.inspect(self._state)

    def audit(self, level: float = 0.05) -> Audit:
        """What the feedback so far shows of corruption.

        ``level`` bounds the probability that anything it says is wrong, however often and
        whenever it is asked for, as long as delays do not depend on the rewards.
        """
        with self._lock:
            kept = copy.deepcopy(self._kept)  # decisions need not wait for the audit
        return audit(kept, level, self.arms)

    def snapshot(self) -> Snapshot:
        """All of the learner as plain data."""
        with self._lock:
            return Snapshot(
                policy=self.policy.to_builtins(),
                arms=self.arms,
                horizon=self.horizon,
                seed=self.seed,
                watch=self.watch,
                decisions=self.decisions,
                taken=tell(self._stream),
                learned=bytes(self._learned[: (self.decisions + 7) // 8]),
                state=write_arrays(self._kept),
            ).sealed()

    @classmethod
    def restore(
        cls, data: Snapshot | bytes | str | dict[str, Any], policy: Policy | None = None
    ) -> Learner:
        """A learner that goes on exactly as the one that was saved.

        ``policy`` is needed only for a policy that is not in the catalogue.
        """
        snapshot = Snapshot.read(data)
        learner = cls(
            policy or snapshot.policy,
            snapshot.arms,
            snapshot.horizon,
            snapshot.seed,
            snapshot.watch,
        )
        read_arrays(learner._kept, snapshot.state)
        seek(learner._stream, snapshot.taken)
        learner.decisions = snapshot.decisions
        learner._learned = bytearray(snapshot.learned) + bytearray(_GROWTH)
        learner.rewards = int.from_bytes(snapshot.learned, "little").bit_count()
        return learner
