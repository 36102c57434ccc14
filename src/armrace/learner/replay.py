"""A learner as the replay of a log: what each event changes, and how logs are applied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from armrace.errors import ForeignTicket, InvalidParameter
from armrace.kernels.event_log import PACKED
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Ticket,
    Visitor,
    choose,
    distribution_among,
)
from armrace.kernels.live import REPEATED, TAKEN, UNKNOWN
from armrace.kernels.streams import seek, tell
from armrace.learner.arguments import (
    TICKET_TYPES,
    check_arm,
    check_batch,
    check_decision,
    check_is_new,
    check_place,
    check_reward,
    check_rewards,
    check_taken,
    check_ticket,
)
from armrace.learner.events import (
    ArmAdded,
    ArmPaused,
    ArmResumed,
    Assigned,
    Decision,
    DecisionBatch,
    Dropped,
    Event,
    EventLog,
    Learned,
)
from armrace.learner.live_memory import LiveMemory
from armrace.randomness import Purpose, stream_for

_new: Any = tuple.__new__
_pack_into, _unpack = PACKED.pack_into, PACKED.unpack
_SURE = 1.0 - 1e-9
"""From here on a probability counts as 1."""
_ABOVE = 1.0 + 1e-9
"""A probability that is larger by less than this factor is the same, rounded otherwise."""


class Replayable(LiveMemory):
    """A memory that decisions, rewards and new arms change, and the log of these events.

    Nothing here is random: to apply the events of a log again leads to the same state.
    """

    @property
    def log(self) -> EventLog:
        """The events since the learner was made or restored, as plain data."""
        if not self._keeps_log:
            raise InvalidParameter("this learner keeps no log; make it with log=True.")
        with self._lock:
            return EventLog(self._live.log, self.arms)

    @property
    def taken(self) -> int:
        """How many random numbers have been taken from the stream, as an event records it."""
        return int(tell(self._stream))

    # --- single events --------------------------------------------------------------------

    def assign(self, ticket: Ticket) -> Decision:
        """Count a decision, made by this learner or elsewhere, and return it with its number.

        The returned decision must be given to :meth:`learn`: this learner's state has filled in
        the remaining fields of its ticket.

        Args:
            ticket: a ticket of :meth:`choose`, of this learner or of another one, or one of your
                own: for ``thompson`` and ``thompson-cf`` with a random number from [0, 1) as its
                ``memo``, by which a reward between 0 and 1 is rounded. With a memo of 0, all
                rewards above 0 would count as 1. A probability of 1, where the policy's own is
                smaller, says that somebody else made the decision: a policy that weights rewards
                by probabilities learns nothing from it.
        """
        if ticket is not self._drawn:
            ticket = check_ticket(ticket, self._live.shape)
            with self._lock:
                if self._is_of_others(ticket):
                    ticket = ticket._replace(layer=NO_LAYER, inner_arm=NO_ARM)
        return self.count(ticket)

    def _is_of_others(self, ticket: Ticket) -> bool:
        """Whether a ticket leaves other arms no chance, so that nothing can be learned from it.

        A policy that weights rewards by probabilities would count a loss for the arm of the ticket
        and none for the others.
        """
        weighs = self.policy.draws_by_weights and not self.policy.learns_from_others
        return weighs and ticket.probability >= 1.0 and self._weights()[ticket.arm] < _SURE

    def count(self, ticket: Ticket) -> Decision:
        """Count a decision of this learner, just drawn or from its log, as the ticket describes it.

        Args:
            ticket: a ticket of :meth:`choose`, or of an event of this learner's log.
        """
        # The check takes longer than the call: what was drawn here just now is not checked.
        if ticket is not self._drawn:
            ticket = check_ticket(ticket, self._live.shape)
        with self._lock:
            return self._assign(ticket)

    def recount(self, ticket: Ticket, replays: bool = True, context: Visitor = None) -> Decision:
        """Count a decision whose ticket was drawn here, or read from a log that was verified.

        A log may be replayed without some of its decisions, and this learner may then give the arm
        a larger probability than the one under which it was drawn. A policy that weights rewards by
        probabilities learns with the larger of the two: a few draws of an arm that forged rewards
        had made rare must not decide about it (docs/decisions/021).

        Args:
            ticket: the ticket, which is not checked: that would take longer than the call.
            replays: whether the ticket may be one of a log that is replayed.
            context: what was known about the visitor.
        """
        with self._lock:
            self._meet(context)
            if replays and ticket is not self._drawn and self.weighs:
                own = self._own_probability(ticket.arm)
                if own > ticket.probability * _ABOVE:
                    ticket = ticket._replace(probability=own)
            return self._assign(ticket)

    def _own_probability(self, arm: int) -> float:
        if self._away:
            return float(self._weights()[arm])
        out = self._scratch
        if out.size != len(self.arms):
            out = self._scratch = np.zeros(len(self.arms))
        self._calls.distribution(self._current.handle, out)
        return float(out[arm])

    @cached_property
    def weighs(self) -> bool:
        """Whether rewards are weighted by the probabilities of the own draws, in one layer.

        Only such a learner can let others draw by its weights.
        """
        policy = self.policy
        layers = policy.layer_count(len(self.arms), self.horizon)
        return policy.draws_by_weights and not policy.learns_from_others and layers == 1

    def _assign(self, ticket: tuple[Any, ...]) -> Decision:
        _pack_into(self._exchanged, 0, 0, 0, *ticket)
        while not self._calls.assign(self._current.handle):
            self._make_room(1)
        return self._decision()

    def _decision(self) -> Decision:
        """Return the decision that compiled code has written; the caller has the lock."""
        values = _unpack(self._exchanged)
        # tuple.__new__ is what the classes call, without their Python functions.
        made: Decision = _new(
            Decision, (values[0], self._current.arms[values[2]], _new(Ticket, values[2:]))
        )
        return made

    def _plain(self, decision: Any) -> tuple[int, Ticket]:
        """Return the number and the ticket of a decision, in the types that compiled code reads.

        Numbers of other types, as JSON may give them, are converted, or refused with a sentence.
        Neither happens under the lock, since that may run code of the caller's classes.
        """
        try:
            number, name, ticket = decision
            if (
                type(number) is int
                and tuple(map(type, ticket)) == TICKET_TYPES
                and self._current.arms[ticket[0]] == name
            ):
                return number, ticket
        except (TypeError, ValueError, IndexError):
            pass
        plain = check_decision(decision, self._current.arms)
        return plain.number, plain.ticket

    def learn(self, decision: Decision, reward: float, context: Visitor = None) -> None:
        """Learn the reward of a decision.

        Args:
            decision: a decision of this learner that has had no reward yet.
            reward: a number in [0, 1].
            context: what was known about the visitor at the decision.

        Raises:
            ForeignTicket: the decision was not made here, or has had its reward.
            InvalidParameter: the reward is not in [0, 1].
        """
        number, ticket = self._plain(decision)
        if type(reward) is not float or not 0.0 <= reward <= 1.0:
            reward = check_reward(reward)
        try:
            with self._lock:
                self._meet(context)
                _pack_into(self._exchanged, 0, number, 0, *ticket)
                status = self._calls.learn(self._current.handle, reward)
        except struct.error:  # an integer of more than 64 bits
            status = UNKNOWN
        if status != TAKEN:
            self._refuse(status, decision)

    def drop(self, decision: Decision) -> None:
        """Give up on the reward of a decision, from which nothing is learned then.

        As long as a reward is outstanding, a race must allow for any value of it, and its intervals
        are wider. In races, ``guarded`` and ``best-of-all-worlds``, a dropped decision counts as
        never made; all other policies go on counting the play, as they do while they wait for its
        reward. Guarantees hold if whether a reward is missing does not depend on its value.

        Args:
            decision: a decision of this learner that has had no reward yet.
        """
        number, ticket = self._plain(decision)
        try:
            with self._lock:
                _pack_into(self._exchanged, 0, number, 0, *ticket)
                status = self._calls.drop(self._current.handle)
        except struct.error:
            status = UNKNOWN
        if status != TAKEN:
            self._refuse(status, decision)

    def learn_many(self, batch: DecisionBatch, rewards: Sequence[float] | np.ndarray) -> None:
        """Learn the rewards of many decisions in order, as :meth:`learn` would one by one.

        If a reward is refused, those before it have been learned; the error names it.

        Args:
            batch: decisions of this learner that have had no reward yet.
            rewards: a number in [0, 1] for each of them.
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

    def add_arm(self, arm: str | int) -> None:
        """Add an arm, if the policy allows arms to be added while it runs.

        Args:
            arm: its name, which no other arm has.
        """
        label = check_arm(arm)
        if not self.policy.takes_new_arms:
            raise InvalidParameter(
                f"{self.policy.tag()} cannot add an arm while it runs; start a new learner."
            )
        with self._lock:
            check_is_new(label, self.arms)
            self._add_arm(label)

    def pause_arm(self, arm: str | int) -> None:
        """Take an arm away until :meth:`resume_arm`, or for good, if the policy allows it.

        Args:
            arm: its name.
        """
        place = check_place(arm, self._current.place_of)
        if not self.policy.loses_arms:
            raise InvalidParameter(
                f"{self.policy.tag()} cannot go on without an arm; start a new learner."
            )
        with self._lock:
            if place not in self._away:
                if len(self._away) + 1 == len(self.arms):
                    raise InvalidParameter(f"at least one arm must stay; {arm!r} is the last.")
                self._set_away(place, True)

    def resume_arm(self, arm: str | int) -> None:
        """Bring back an arm that was paused, as far behind the best as it was then.

        Args:
            arm: its name.
        """
        place = check_place(arm, self._current.place_of)
        with self._lock:
            if place in self._away:
                self._set_away(place, False)

    def _weights(self) -> np.ndarray:
        out = np.zeros(len(self.arms))
        if not self._away:
            self._calls.distribution(self._current.handle, out)
            return out
        present = np.ones(len(self.arms), dtype=np.bool_)
        present[list(self._away)] = False
        if not self.policy.exact_tickets:
            distribution_among(self._state, present, out, self._visitor)
        elif not self.policy.draws_by_weights:
            # An index: the one arm that it would choose, whatever the random numbers.
            stream = stream_for(0, Purpose.LEARNER, 0)
            out[choose(self._state, stream, present, self._visitor).arm] = 1.0
        else:
            self._calls.distribution(self._current.handle, out)
            out = np.where(present, out, 0.0) / out[present].sum()
        return out

    # --- events of a log ------------------------------------------------------------------

    def apply(self, event: Event) -> Decision | None:
        """Apply an event of a log; a decision is counted, not drawn again.

        Events may also follow a snapshot: a restored learner knows the decisions whose rewards
        were outstanding, if the learner that was saved kept a log. A learner that keeps no log
        cannot apply rewards of decisions that it has made since.

        Args:
            event: the next event of a log, this learner's own or another's.

        Returns:
            The decision that was counted, if the event is one.
        """
        if isinstance(event, Assigned):
            return self._apply_assigned(event)
        if isinstance(event, Learned):
            self.learn(self._known(event.number), event.reward)
        elif isinstance(event, Dropped):
            self.drop(self._known(event.number))
        elif isinstance(event, ArmAdded):
            self.add_arm(event.arm)
        elif isinstance(event, ArmPaused):
            self.pause_arm(event.arm)
        elif isinstance(event, ArmResumed):
            self.resume_arm(event.arm)
        else:
            raise InvalidParameter(
                "event must be Assigned, Learned, Dropped, ArmAdded, ArmPaused or ArmResumed; "
                f"got {event!r}."
            )
        return None

    def _apply_assigned(self, event: Assigned) -> Decision:
        ticket = check_ticket(event.ticket, self._live.shape)
        taken = check_taken(event.taken)
        with self._lock:
            if event.number != self.decisions:
                raise InvalidParameter(
                    f"the next event must assign decision {self.decisions}; got {event.number}."
                )
            # So that decisions after the replay draw the numbers that the original would draw.
            self._skip_to(taken)
            return self._assign(ticket)

    def skip_to(self, taken: int) -> None:
        """Advance the random stream to where ``taken`` numbers have been taken; never move it back.

        :meth:`apply` does so for each decision. When a long log is applied, it is faster to leave
        ``taken`` out of the events and to skip once at the end.

        Args:
            taken: how many random numbers have been taken, as an event records it.
        """
        checked = check_taken(taken)
        with self._lock:
            self._skip_to(checked)

    def go_back_to(self, taken: int) -> None:
        """Move the random stream back to where ``taken`` numbers had been taken.

        Only for draws of :meth:`choose` that led to no decision and that nobody has seen.

        Args:
            taken: how many random numbers had been taken.
        """
        with self._lock:
            seek(self._stream, check_taken(taken))

    def _skip_to(self, taken: int) -> None:
        # The stream never moves back: numbers must not be used twice.
        if taken > tell(self._stream):
            seek(self._stream, taken)
