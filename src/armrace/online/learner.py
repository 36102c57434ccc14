"""A policy on live traffic in this process: decide now, learn when the reward arrives."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from armrace.errors import DamagedFile, ForeignTicket, InvalidParameter
from armrace.forensics import Audit, audit
from armrace.forensics.layers import race_in
from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import Ticket, is_restrictable
from armrace.kernels.live import NO_ROOM, REPEATED, SETTLED, TAKEN, UNKNOWN
from armrace.kernels.streams import seek, tell
from armrace.online.arguments import (
    check_arm,
    check_arms,
    check_batch,
    check_count,
    check_decision,
    check_flag,
    check_horizon,
    check_reward,
    check_rewards,
    check_seed,
    check_taken,
    check_ticket,
    eligible_mask,
)
from armrace.online.batches import DecisionBatch
from armrace.online.events import ArmAdded, Assigned, Decision, Dropped, Event, EventLog, Learned
from armrace.online.live_memory import LiveMemory
from armrace.online.snapshots import Snapshot, pack_rewarded, write_arrays
from armrace.online.views import ArmViews
from armrace.policies import POLICIES, Policy
from armrace.policies.races.race import NEVER
from armrace.presentation import NotebookView

__all__ = ["Learner"]

_new: Any = tuple.__new__


class Learner(LiveMemory, NotebookView):
    """The compiled functions of the simulator, for live traffic.

    ``decide`` chooses an arm and counts it as assigned, which influences later choices; ``learn``
    takes its reward. Rewards may arrive late, in any order, or never. A learner is the fold of its
    :attr:`log`: applied to a fresh learner, the events lead to the same state, bit for bit. All
    methods are thread-safe.

    Args:
        policy: a policy, its name, or plain data with a ``name`` and parameters.
        arms: the arms' names (text or whole numbers), or the number of arms.
        horizon: the expected number of decisions; guarantees cover that many.
        seed: the seed of the decisions; equal seeds and rewards give equal decisions.
        watch: whether to record what :meth:`audit` needs; this changes no decision.
        log: whether to keep the events, some 110 bytes for a decision with its reward.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.

    >>> learner = Learner("multi-layer-race", arms=["red", "green"], horizon=1000, seed=1)
    >>> decision = learner.decide()
    >>> decision.arm, decision.probability
    ('red', 1.0)
    >>> learner.learn(decision, reward=1.0)
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
        log: bool = True,
    ) -> None:
        super().__init__(
            arms=check_arms(arms),
            horizon=check_horizon(horizon),
            seed=check_seed(seed),
            watch=check_flag("watch", watch),
            log=check_flag("log", log),
            policy=POLICIES.make(policy),
        )

    @property
    def taken(self) -> int:
        """How many random numbers have been taken from the stream, as an event records it."""
        return int(tell(self._stream))

    # --- deciding -------------------------------------------------------------------------

    def choose(self, eligible: Iterable[str | int] | None = None) -> Ticket:
        """Draw an arm without counting the decision; only the random stream advances.

        Args:
            eligible: the arms that may be chosen; by default all.

        Returns:
            The ticket of the choice, which :meth:`assign` counts.
        """
        return self.draw(eligible)[0]

    def draw(self, eligible: Iterable[str | int] | None = None) -> tuple[Ticket, int]:
        """Draw an arm as :meth:`choose` does.

        Args:
            eligible: the arms that may be chosen; by default all.

        Returns:
            The ticket, and how many random numbers have been taken by then.
        """
        with self._lock:
            values = self._choose(eligible)
        return _new(Ticket, values[2:]), values[1]

    def _choose(self, eligible: Iterable[str | int] | None) -> tuple[Any, ...]:
        if eligible is None:
            return cast("tuple[Any, ...]", self._calls.choose(self._current.handle))
        if not is_restrictable(self._state):
            raise InvalidParameter(f"{self.policy.tag()} cannot be restricted to eligible arms.")
        mask = eligible_mask(eligible, self.arms)
        return cast("tuple[Any, ...]", self._calls.choose_among(self._current.handle, mask))

    def assign(self, ticket: Ticket) -> Decision:
        """Count a decision, made by this learner or elsewhere, and return it with its number.

        The returned decision must be given to :meth:`learn`: this learner's state has filled in
        the remaining fields of its ticket.
        """
        return self.count(check_ticket(ticket, self._live.shape))

    def count(self, ticket: Ticket) -> Decision:
        """Count a decision as :meth:`assign` does, without a check.

        Args:
            ticket: a ticket that this learner's :meth:`draw` has returned. Another one may lead
                compiled code out of its bounds.

        Returns:
            The decision.
        """
        with self._lock:
            return self._assign(ticket)

    def _assign(self, ticket: tuple[Any, ...]) -> Decision:
        values = self._calls.assign(self._current.handle, *ticket)
        if values[0] == NO_ROOM:
            self._make_room(1)
            values = self._calls.assign(self._current.handle, *ticket)
        return _decision(values, self._current.arms)

    def decide(self, eligible: Iterable[str | int] | None = None) -> Decision:
        """Choose an arm and count the decision.

        Args:
            eligible: the arms that may be chosen; by default all.

        Returns:
            The decision: the arm to play, and what :meth:`learn` needs with the reward.
        """
        with self._lock:
            if eligible is not None:
                return self._assign(self._choose(eligible)[2:])
            values = self._calls.decide(self._current.handle)
            if values[0] == NO_ROOM:
                self._make_room(1)
                values = self._calls.decide(self._current.handle)
        return _decision(values, self._current.arms)

    def decide_many(self, count: int) -> DecisionBatch:
        """Make ``count`` decisions at once: the same that :meth:`decide` would make one by one."""
        records = np.zeros(check_count(count), dtype=DECISION)
        with self._lock:
            made = self._calls.decide_many(self._current.handle, records)
            if made < records.size:
                self._make_room(records.size - made)
                self._calls.decide_many(self._current.handle, records[made:])
        return DecisionBatch(records, self.arms)

    # --- learning -------------------------------------------------------------------------

    def learn(self, decision: Decision, reward: float) -> None:
        """Learn the reward of a decision.

        Args:
            decision: a decision of this learner that has had no reward yet.
            reward: a number in [0, 1].

        Raises:
            ForeignTicket: the decision was not made here, or has had its reward.
            InvalidParameter: the reward is not in [0, 1].
        """
        number, ticket = check_decision(decision, self._current.arms)
        value = reward if type(reward) is float else check_reward(reward)
        if not 0.0 <= value <= 1.0:
            raise InvalidParameter(f"reward must be in [0, 1]; got {reward!r}.")
        with self._lock:
            try:
                status = self._calls.learn(self._current.handle, number, *ticket, value)
            except OverflowError:  # a number of more than 64 bits
                status = UNKNOWN
        if status != TAKEN:
            self._refuse(status, decision)

    def drop(self, decision: Decision) -> None:
        """Give up on the reward of a decision, which then counts as never made.

        As long as a reward is outstanding, a race must allow for any value of it, and its intervals
        are wider. Guarantees hold if whether a reward is missing does not depend on its value.
        """
        number, ticket = check_decision(decision, self._current.arms)
        with self._lock:
            try:
                status = self._calls.drop(self._current.handle, number, *ticket)
            except OverflowError:
                status = UNKNOWN
        if status != TAKEN:
            self._refuse(status, decision)

    def learn_many(self, batch: DecisionBatch, rewards: Sequence[float] | np.ndarray) -> None:
        """Learn the rewards of many decisions in order, as :meth:`learn` would one by one.

        If a reward is refused, those before it have been learned; the error names it.
        """
        records = check_batch(batch, self.arms)
        values = check_rewards(rewards, len(batch))
        with self._lock:
            taken, status = self._calls.learn_many(self._current.handle, records, values)
        if status != TAKEN:
            self._refuse(status, records[taken].item())

    def _refuse(self, status: int, decision: Any) -> None:
        if status == REPEATED:
            raise ForeignTicket(f"decision {decision[0]} has had its reward already.")
        raise ForeignTicket(f"no decision of this learner is {decision}.")

    # --- arms -----------------------------------------------------------------------------

    def add_arm(self, arm: str | int) -> None:
        """Add an arm, if the policy allows arms to be added while it runs."""
        label = check_arm(arm, self.arms)
        if not self.policy.takes_new_arms:
            raise InvalidParameter(
                f"{self.policy.tag()} cannot take on an arm while it runs; start a new learner."
            )
        with self._lock:
            self._add_arm(label)

    # --- the log --------------------------------------------------------------------------

    @property
    def log(self) -> EventLog:
        """The events since the learner was made or restored, as plain data."""
        if not self._keeps_log:
            raise InvalidParameter("this learner keeps no log; make it with log=True.")
        with self._lock:
            return EventLog(self._live.log, self.arms[self._first_arms :])

    def apply(self, event: Event) -> Decision | None:
        """Apply an event of a log; a decision is counted, not drawn again.

        Returns:
            The decision that was counted, if the event is one.
        """
        if isinstance(event, Assigned):
            return self._apply_assigned(event)
        if isinstance(event, Learned):
            self.learn(self._logged(event.number), event.reward)
        elif isinstance(event, Dropped):
            self.drop(self._logged(event.number))
        elif isinstance(event, ArmAdded):
            self.add_arm(event.arm)
        else:
            raise InvalidParameter(
                f"event must be Assigned, Learned, Dropped or ArmAdded; got {event!r}."
            )
        return None

    def _apply_assigned(self, event: Assigned) -> Decision:
        if event.number != self.decisions:
            raise InvalidParameter(
                f"the next event must assign decision {self.decisions}; got {event.number}."
            )
        ticket = check_ticket(event.ticket, self._live.shape)
        taken = check_taken(event.taken)
        with self._lock:
            # So that decisions after the replay draw the numbers that the original would draw.
            self._skip_to(taken)
            return self._assign(ticket)

    def replay_many(self, records: np.ndarray, steps: np.ndarray, rewards: np.ndarray) -> None:
        """Apply many events of a log at once, as :meth:`apply` would one by one.

        Args:
            records: decisions of the type ``DECISION`` of :mod:`armrace.kernels.event_log`: those
                still to be assigned with their tickets, which are completed here, and those that
                were assigned before with their numbers and completed tickets.
            steps: what to do, in order: ``i`` assigns the record ``i``, ``-1 - i`` learns its
                reward.
            rewards: for each record its reward, or NaN if it is to be dropped.

        Raises:
            ForeignTicket: a decision could not have been made here, or has had its reward.
        """
        outside = (steps < -records.size) | (steps >= records.size)
        refused = ~(np.isnan(rewards) | ((rewards >= 0.0) & (rewards <= 1.0)))
        if outside.any() or refused.any() or rewards.size != records.size:
            raise InvalidParameter("steps must name records, and rewards must be in [0, 1] or NaN.")
        with self._lock:
            done, status = self._calls.replay(self._current.handle, records, steps, rewards)
            if status == NO_ROOM:
                self._make_room(steps.size)
                steps = steps[done:]
                done, status = self._calls.replay(self._current.handle, records, steps, rewards)
        if status != TAKEN:
            record = records[int(steps[done]) if steps[done] >= 0 else -1 - int(steps[done])]
            self._refuse(status, record.item())

    def skip_to(self, taken: int) -> None:
        """Go on in the random stream as if ``taken`` numbers had been taken, and never back.

        :meth:`apply` does so for each decision. When a long log is applied, it is faster to leave
        ``taken`` out of the events and to skip once at the end.
        """
        checked = check_taken(taken)
        with self._lock:
            self._skip_to(checked)

    def _skip_to(self, taken: int) -> None:
        # The stream never moves back: numbers must not be used twice.
        if taken > tell(self._stream):
            seek(self._stream, taken)

    @classmethod
    def replay(
        cls,
        log: Iterable[Event],
        policy: Policy | str | Mapping[str, Any],
        arms: Sequence[str | int] | int,
        horizon: int,
        seed: int = 0,
        watch: bool = True,
    ) -> Learner:
        """Return the learner that results from a log.

        Events may be left out: without the rewards that were retracted, the result is the learner
        that never received them. ``arms`` are those at the beginning of the log.
        """
        learner = cls(policy, arms, horizon, seed, watch)
        for event in log:
            learner.apply(event)
        return learner

    # --- inspecting -----------------------------------------------------------------------

    def distribution(self) -> dict[str | int, float]:
        """The probability with which the next decision will choose each arm."""
        return dict(zip(self.arms, self.weights().tolist(), strict=True))

    def weights(self) -> np.ndarray:
        """The probabilities of :meth:`distribution`, in the order of the arms."""
        with self._lock:
            out = np.zeros(len(self._current.arms))
            self._calls.distribution(self._current.handle, out)
        return out

    def inspect(self) -> ArmViews:
        """Return each layer's view of each arm: pulls, mean, interval, active or deleted."""
        with self._lock:
            return ArmViews(self.policy.inspect(self._state), self.arms)

    def tolerated(self) -> list[float]:
        """Return the corruption that each layer tolerates; nothing if there are no layers."""
        with self._lock:
            race = race_in(self._state)
            return [] if race is None else [float(each) for each in race.tolerated]

    def deletions(self) -> list[tuple[int, int, int, int]]:
        """Return the layer, the arm's place, the round and the deleting layer of each deletion."""
        with self._lock:
            race = race_in(self._state)
            if race is None:
                return []
            when, by = np.asarray(race.eliminated_at), np.asarray(race.eliminated_by)
            deleted = zip(*np.nonzero(when != NEVER), strict=True)
            return [(int(i), int(j), int(when[i, j]), int(by[i, j])) for i, j in deleted]

    def audit(self, level: float = 0.05) -> Audit:
        """Look for traces of corruption, or of moved means, in the feedback so far.

        Args:
            level: a bound on the probability that any statement of any audit is wrong, however
                often and whenever audits are made.

        Returns:
            The alarms and certificates.
        """
        with self._lock:
            kept = copy.deepcopy(self._live.policy)  # decisions need not wait for the audit
        return audit(kept, level, self.arms)

    # --- saving ---------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None) -> Snapshot:
        """Return the learner without its log, as plain data.

        Args:
            key: a secret that only the owner knows; :meth:`restore` must be given the same.

        Returns:
            The snapshot.
        """
        with self._lock:
            before = int(self._live.counters[SETTLED])
            settled, rewarded = pack_rewarded(self._live.rewarded, self.decisions - before)
            return Snapshot(
                policy=self.policy.to_builtins(),
                arms=list(self.arms),
                horizon=self.horizon,
                seed=self.seed,
                watch=self.watch,
                decisions=self.decisions,
                taken=int(tell(self._stream)),
                settled=before + settled,
                rewarded=rewarded,
                state=write_arrays(self._live.policy),
            ).sealed(key)

    @classmethod
    def restore(
        cls,
        data: Snapshot | bytes | str | dict[str, Any],
        policy: Policy | None = None,
        key: bytes | None = None,
        log: bool = True,
    ) -> Learner:
        """Return a learner that continues exactly like the one that was saved.

        Args:
            data: a snapshot, its JSON or MessagePack form, or plain data parsed from JSON.
            policy: needed only for a policy that cannot be found by its name.
            key: the secret with which the snapshot was sealed, if any.
            log: whether to keep a log from now on.

        Returns:
            The learner.

        Raises:
            DamagedFile: the snapshot is damaged, or was sealed with another key.
        """
        snapshot = Snapshot.read(data, key)
        made_with = snapshot.arms, snapshot.horizon, snapshot.seed, snapshot.watch
        try:
            learner = cls(policy or snapshot.policy, *made_with, check_flag("log", log))
        except InvalidParameter as error:
            raise DamagedFile(f"the snapshot describes no learner: {error}") from None
        learner._resume(snapshot)
        return learner

    def __copy__(self) -> Learner:
        return type(self).restore(self.snapshot(), self.policy, log=self._keeps_log)

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_copy, (self.snapshot().to_bytes(), self.policy, self._keeps_log)


def _decision(values: tuple[Any, ...], arms: list[str | int]) -> Decision:
    """Return what a compiled call gave as a decision."""
    # tuple.__new__ is what Decision and Ticket call, without their Python functions
    made: Decision = _new(Decision, (values[0], arms[values[2]], _new(Ticket, values[2:])))
    return made


def _restore_copy(data: bytes, policy: Policy, log: bool) -> Learner:
    return Learner.restore(data, policy, log=log)
