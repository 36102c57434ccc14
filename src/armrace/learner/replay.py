"""A learner as the replay of a log: what it keeps in memory, and what each event changes."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from armrace.audit import watch as put_under_watch
from armrace.audit.audit_trail import unwatched
from armrace.errors import BrokenPolicy, DamagedFile, ForeignTicket, InvalidParameter
from armrace.kernels.dispatch import implementations
from armrace.kernels.event_log import (
    ADDED_EVENT,
    ASSIGNED,
    DECISION,
    FIRST,
    PACKED,
    PAUSED_EVENT,
    RESUMED_EVENT,
    EventArrays,
    add_event,
    enlarge_log,
    make_log,
    ticket_of,
)
from armrace.kernels.fingerprints import fingerprint, is_users
from armrace.kernels.generics import (
    NO_ARM,
    NO_FEATURES,
    NO_LAYER,
    Context,
    ContextShape,
    Ticket,
    Visitor,
    choose,
    distribution_among,
)
from armrace.kernels.handles import Handle
from armrace.kernels.live import (
    DECISIONS,
    REPEATED,
    REWARDS,
    SETTLED,
    TAKEN,
    UNKNOWN,
    BadTicket,
    Live,
    LiveCalls,
    make_live_calls,
    make_present,
)
from armrace.kernels.states import grow_state, unsafe_array
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
from armrace.learner.snapshots import Snapshot, read_arrays
from armrace.policies import Policy
from armrace.policies.leaders.estimates import bring_back, set_aside
from armrace.randomness import Purpose, stream_for

_FIRST_ROOM = 1024
_new: Any = tuple.__new__
_pack_into, _unpack = PACKED.pack_into, PACKED.unpack
_SURE = 1.0 - 1e-9
"""From here on a probability counts as 1."""
_ABOVE = 1.0 + 1e-9
"""A probability that is larger by less than this factor is the same, rounded otherwise."""


class _Current(NamedTuple):
    """The parts of a learner that are replaced together, which an interruption cannot split."""

    arms: list[str | int]
    place_of: dict[str | int, int]
    state: Any
    """The policy's own state, without a watch."""
    handle: Handle
    away: dict[int, float]
    """The places of paused arms, and how far each was behind the best when it was paused."""


class Replayable:
    """A policy's state, the stream of its decisions, which of them were rewarded, and the log.

    Nothing here is random: to apply the events of a log again leads to the same state. Arrays
    cannot grow, so that more room, one more arm or a restored snapshot take new arrays. These are
    built beside the old ones, and one assignment replaces them all.
    """

    def __init__(
        self,
        policy: Policy,
        arms: list[str | int],
        horizon: int,
        seed: int,
        watch: bool,
        log: bool,
        shape: ContextShape = NO_FEATURES,
    ) -> None:
        self.policy = policy
        self.shape = shape
        self._is_alike = shape == NO_FEATURES
        """Whether decisions have no contexts."""
        self.horizon = horizon
        self.seed = seed
        self.watch = watch
        self._keeps_log = log
        self._lock = threading.Lock()
        self._stream = stream_for(seed, Purpose.LEARNER, replication=0)
        self._earlier = np.zeros(0, dtype=DECISION)
        """Decisions before the first of the log whose rewards were outstanding in a snapshot."""
        self._drawn = Ticket(NO_ARM)
        """What was drawn last."""
        self._scratch = np.zeros(len(arms))
        state, kept = self._start(len(arms))
        exchanged = np.zeros(1, dtype=DECISION).view(np.recarray)
        self._exchanged = exchanged.view(np.ndarray).view(np.uint8).data
        live = Live(
            policy=kept,
            stream=self._stream,
            counters=np.zeros(3, dtype=np.int64),
            rewarded=np.zeros(_FIRST_ROOM // 8, dtype=np.uint8),
            shape=self._shape(len(arms)),
            exchanged=exchanged,
            log=make_log(_FIRST_ROOM if log else 0),
            present=make_present(len(arms), shape),
        )
        self._swap_in(live, arms, state, {})
        code = fingerprint(implementations(kept))
        calls = make_live_calls(code, self._current.handle._numba_type_)
        self._calls = LiveCalls(*map(self._refusing, calls)) if is_users(code) else calls

    def _refusing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Make a call name the policy, one of the user's own, that drew what it cannot have."""

        def refusing(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except BadTicket as error:
                arms, layers, _ = self._live.shape.tolist()
                name = self.policy.tag()
                raise BrokenPolicy.by_ticket(name, error.args, arms, layers) from None

        return refusing

    def _start(self, arms: int) -> tuple[Any, Any]:
        """Make a fresh state for a number of arms, with an audit trail if ``watch`` is set."""
        state = self.policy.start_with(arms, self.horizon, self.shape)
        kept = put_under_watch(state, arms, self.horizon) if self.watch else state
        return unwatched(kept), kept

    def _meet(self, context: Visitor) -> None:
        """Have the next calls see a visitor; the caller has the lock.

        Compiled code does not check what is written here.
        """
        if context is None and self._is_alike:
            return
        present = self._live.present
        fits = context is not None and (
            context.vector.shape == present.vector.shape and 0 <= context.leaf < self.shape.leaves
        )
        if context is None or not fits:
            raise InvalidParameter(
                f"context must have {present.vector.size} coordinates and a leaf below "
                f"{self.shape.leaves}; got {context}."
            )
        present.vector[:] = context.vector
        present.leaf[0] = context.leaf

    @property
    def _visitor(self) -> Context:
        present = self._live.present
        return Context(present.vector, int(present.leaf[0]))

    def _shape(self, arms: int) -> np.ndarray:
        layers = self.policy.layer_count(arms, self.horizon)
        return np.array([arms, layers, self.policy.exact_tickets], dtype=np.int64)

    def _swap_in(
        self, live: Live, arms: list[str | int], state: Any, away: dict[int, float]
    ) -> None:
        """Replace everything that compiled code works on, in one step."""
        current = getattr(self, "_current", None)
        if current is not None and current.arms is arms:
            place_of = current.place_of
        else:
            place_of = {arm: place for place, arm in enumerate(arms)}
        self._current = _Current(arms, place_of, state, Handle(live), away)

    @property
    def arms(self) -> list[str | int]:
        """The names of the arms."""
        return self._current.arms

    @property
    def paused(self) -> list[str | int]:
        """The names of the arms that are paused."""
        return [self.arms[place] for place in self._away]

    @property
    def _away(self) -> dict[int, float]:
        return self._current.away

    @property
    def _state(self) -> Any:
        return self._current.state

    @property
    def _live(self) -> Live:
        live: Live = self._current.handle.state
        return live

    def _make_room(self, decisions: int) -> None:
        """Grow the arrays for ``decisions`` more decisions and all outstanding rewards."""
        live = self._live
        # At least as much again as there is: copying then costs each decision a constant time.
        room, log = max(decisions, 8 * live.rewarded.size), live.log
        if self._keeps_log:
            log = enlarge_log(log, room, 2 * room + self.pending)
        more = np.zeros(-(-room // 8), dtype=np.uint8)
        rewarded = np.concatenate([live.rewarded, more])
        live = live._replace(rewarded=rewarded, log=log)
        self._swap_in(live, self.arms, self._state, self._away)

    @property
    def decisions(self) -> int:
        """How many decisions have been made."""
        return int(self._live.counters[DECISIONS])

    @property
    def rewards(self) -> int:
        """How many decisions have had their reward, or are known never to have one."""
        return int(self._live.counters[REWARDS])

    @property
    def pending(self) -> int:
        """Decisions whose reward has not come."""
        # Read at once: others may decide and learn between two readings.
        made, rewarded, _ = self._live.counters.tolist()
        return int(made - rewarded)

    def _add_arm(self, label: str | int) -> None:
        # An interruption before the last line leaves the old learner intact.
        arms = [*self.arms, label]
        state, kept = self._start(len(arms))
        grow_state(self._live.policy, kept)
        log = self._log_with(ADDED_EVENT, len(arms) - 1)
        live = self._live._replace(
            policy=kept,
            shape=self._shape(len(arms)),
            log=log,
            present=make_present(len(arms), self.shape),
        )
        self._swap_in(live, arms, state, self._away)

    def _set_away(self, place: int, is_away: bool) -> None:
        """Take an arm from the state or give it back; an interruption leaves all as it was."""
        state, kept = self._start(len(self.arms))
        grow_state(self._live.policy, kept)
        away = dict(self._away)
        if is_away:
            away[place] = set_aside(state, place, away)
        else:
            bring_back(state, place, away[place], away)
            del away[place]
        log = self._log_with(PAUSED_EVENT if is_away else RESUMED_EVENT, place)
        self._swap_in(self._live._replace(policy=kept, log=log), self.arms, state, away)

    def _log_with(self, kind: int, place: int) -> EventArrays:
        """Return a copy of the log with an event about an arm, if a log is kept."""
        log = self._live.log
        if self._keeps_log:
            log = enlarge_log(log, 0, 1)._replace(counters=log.counters.copy())
            add_event(log, kind, place, 0.0)
        return log

    def _known(self, number: int) -> Decision:
        """Return a decision from this learner's log, or from the snapshot that it began with."""
        log = self._live.log
        first = int(log.counters[FIRST])
        records, place = log.decisions[: log.counters[ASSIGNED]], -1
        if isinstance(number, int):
            place = number - first
            if 0 <= number < first:
                # The log has no gaps, so that a number is a place; the earlier ones have gaps.
                records = self._earlier
                place = int(np.searchsorted(records["number"], number))
        if not 0 <= place < records.size or records["number"][place] != number:
            raise ForeignTicket(
                f"this learner does not know decision {number!r}: it is not in its log, nor was it "
                "outstanding in the snapshot of a learner that kept a log."
            )
        ticket = ticket_of(records[place])
        return Decision(number, self.arms[ticket.arm], ticket)

    def _outstanding(self) -> np.ndarray:
        """Return the decisions without a reward, as far as their tickets are known."""
        if not self._keeps_log:
            return self._earlier[:0]
        live, log = self._live, self._live.log
        before, first = int(live.counters[SETTLED]), int(log.counters[FIRST])
        bits = np.unpackbits(live.rewarded, bitorder="little")[: self.decisions - before]
        numbers = before + np.flatnonzero(bits == 0)
        earlier = self._earlier[np.isin(self._earlier["number"], numbers)]
        logged = np.asarray(log.decisions)[numbers[numbers >= first] - first]
        return np.concatenate([earlier, logged])

    def _resume(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot holds; this memory must be as it was made."""
        live = self._live
        rewarded = snapshot.rewarded_bits()
        rewards = snapshot.settled + int(np.unpackbits(rewarded).sum())
        read_arrays(live.policy, snapshot.state)
        arms = len(self.arms)
        unsafe = unsafe_array(live.policy, self._start(arms)[1])
        if unsafe is not None:
            raise DamagedFile(f"the snapshot's {unsafe} holds what this policy never does.")
        self._earlier = snapshot.outstanding_decisions(arms, rewarded)
        seek(self._stream, snapshot.taken)
        live.counters[[DECISIONS, REWARDS, SETTLED]] = snapshot.decisions, rewards, snapshot.settled
        live.log.counters[FIRST] = snapshot.decisions
        away = snapshot.paused_arms(arms)
        if away and not self.policy.loses_arms:
            raise DamagedFile(f"the snapshot has paused arms, which {self.policy.tag()} never has.")
        self._swap_in(live._replace(rewarded=rewarded), self.arms, self._state, away)
        self._make_room(_FIRST_ROOM)

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
