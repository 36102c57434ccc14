"""What a learner keeps in memory, and how it is replaced as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
    PAUSED_EVENT,
    RESUMED_EVENT,
    EventArrays,
    add_event,
    enlarge_log,
    make_log,
    ticket_of,
)
from armrace.kernels.fingerprints import fingerprint, is_users
from armrace.kernels.generics import NO_ARM, NO_FEATURES, Context, ContextShape, Ticket, Visitor
from armrace.kernels.handles import Handle
from armrace.kernels.live import (
    DECISIONS,
    REWARDS,
    SETTLED,
    BadTicket,
    Live,
    LiveCalls,
    make_live_calls,
    make_present,
)
from armrace.kernels.states import grow_state, unsafe_array
from armrace.kernels.streams import seek
from armrace.learner.events import Decision
from armrace.learner.snapshots import Snapshot, read_arrays
from armrace.policies import Policy
from armrace.policies.leaders.absence import bring_back, set_aside
from armrace.randomness import Purpose, stream_for

_FIRST_ROOM = 1024


class _Current(NamedTuple):
    """The parts of a learner that are replaced together, which an interruption cannot split."""

    arms: list[str | int]
    place_of: dict[str | int, int]
    state: Any
    """The policy's own state, without a watch."""
    handle: Handle
    away: dict[int, float]
    """The places of paused arms, and how far each was behind the best when it was paused."""


class LiveMemory:
    """A policy's state, the stream of its decisions, which of them were rewarded, and the log.

    Arrays cannot grow, so that more room, one more arm or a restored snapshot take new arrays.
    These are built beside the old ones, and one assignment replaces them all.
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
            present=make_present(shape),
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
                f"context must have {self.shape.dimension} coordinates and a leaf below "
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
        live = self._live._replace(policy=kept, shape=self._shape(len(arms)), log=log)
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
