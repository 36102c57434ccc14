"""A policy on live traffic in this process: decide now, learn when the reward arrives."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from armrace.audit import Audit, watch
from armrace.audit.audit_trail import has_trail_of_leaves, unwatched
from armrace.audit.auditing import Screens, audit_state, unfit_for_audit
from armrace.audit.changes import race_in
from armrace.errors import ArmraceError, DamagedFile, InvalidParameter
from armrace.kernels.compiling import is_stored
from armrace.kernels.dispatch import implementations
from armrace.kernels.event_log import DECISION, PACKED
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import (
    NO_FEATURES,
    Context,
    ContextShape,
    Ticket,
    Visitor,
    is_restrictable,
)
from armrace.kernels.live import SETTLED, Present, live_entries
from armrace.kernels.states import raw_arrays
from armrace.kernels.streams import tell
from armrace.learner.arguments import (
    check_arms,
    check_count,
    check_flag,
    check_horizon,
    check_seed,
    eligible_places,
)
from armrace.learner.events import Decision, DecisionBatch, Event
from armrace.learner.replay import Replayable
from armrace.learner.snapshots import Snapshot, pack_rewarded, write_arrays
from armrace.policies import POLICIES, ArmView, Policy
from armrace.policies.races.race import NEVER
from armrace.reports import NotebookView

_new: Any = tuple.__new__


class Learner(Replayable, NotebookView):
    """The compiled functions of the simulator, for live traffic.

    ``decide`` chooses an arm and counts it as assigned, which influences later choices; ``learn``
    takes its reward. Rewards may arrive late, in any order, or never. A learner is the replay of
    its :attr:`log`: applied to a fresh learner, the events lead to the same state, bit for bit. All
    methods are thread-safe.

    Args:
        policy: a policy, its name, or plain data with a ``name`` and parameters.
        arms: the arms' names (text or whole numbers), or the number of arms.
        horizon: the expected number of decisions; guarantees cover that many.
        seed: the seed of the decisions; equal seeds and rewards give equal decisions.
        watch: whether to record what :meth:`audit` needs; this changes no decision.
        log: whether to keep the events, some 120 bytes for a decision with its reward; without
            them, rewards are learned by :meth:`learn` and not by :meth:`apply`.
        shape: how large the contexts of decisions are; then every decision and every reward takes
            one, and no log is kept, since events have none.

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
        shape: ContextShape = NO_FEATURES,
    ) -> None:
        if log and shape != NO_FEATURES:
            raise InvalidParameter("a learner with contexts keeps no log; give log=False.")
        super().__init__(
            arms=check_arms(arms),
            horizon=check_horizon(horizon),
            seed=check_seed(seed),
            watch=check_flag("watch", watch),
            log=check_flag("log", log),
            policy=POLICIES.make(policy),
            shape=shape,
        )
        self._screens = Screens.fresh()
        self._is_copy = False
        self._spares: list[tuple[Any, Any]] = []
        """States of learners that stood still, each with the state of which it was a copy."""

    # --- deciding -------------------------------------------------------------------------

    def choose(self, eligible: Iterable[str | int] | None = None) -> Ticket:
        """Draw an arm without counting the decision; only the random stream advances.

        Args:
            eligible: the arms that may be chosen; by default all.

        Returns:
            The ticket of the choice, which :meth:`assign` counts.
        """
        return self.draw(eligible)[0]

    def draw(
        self, eligible: Iterable[str | int] | None = None, context: Visitor = None
    ) -> tuple[Ticket, int]:
        """Draw an arm as :meth:`choose` does.

        Args:
            eligible: the arms that may be chosen; by default all.
            context: what is known about the visitor.

        Returns:
            The ticket, and how many random numbers have been taken by then.
        """
        places = self._places(eligible)
        with self._lock:
            self._meet(context)
            values = self._choose(places)
        # tuple.__new__ is what Ticket calls, without its Python function
        ticket = self._drawn = _new(Ticket, values[1:])
        return ticket, values[0]

    def _places(self, eligible: Iterable[str | int] | None) -> list[int] | None:
        """Return where the eligible arms are among the arms, before the lock is taken.

        To read what the caller passed may run the caller's code, which may call this learner.
        Arms are only ever appended, so that places stay right while others add some.
        """
        away = self._away
        if eligible is None:
            return [p for p in range(len(self.arms)) if p not in away] if away else None
        if not is_restrictable(self._state):
            raise InvalidParameter(f"{self.policy.tag()} cannot be restricted to eligible arms.")
        wanted = eligible_places(eligible, self._current.place_of)
        places = [place for place in wanted if place not in away]
        if not places:
            raise InvalidParameter("eligible must name an arm that is not paused; got none.")
        return places

    def _choose(self, places: list[int] | None) -> tuple[Any, ...]:
        """Return the position of the stream after a draw, and the members of its ticket."""
        if places is None:
            self._calls.choose(self._current.handle)
        else:
            mask = np.zeros(len(self.arms), dtype=np.bool_)
            mask[places] = True
            self._calls.choose_among(self._current.handle, mask)
        return PACKED.unpack(self._exchanged)[1:]

    def decide(
        self, eligible: Iterable[str | int] | None = None, context: Visitor = None
    ) -> Decision:
        """Choose an arm and count the decision.

        Args:
            eligible: the arms that may be chosen; by default all.
            context: what is known about the visitor.

        Returns:
            The decision: the arm to play, and what :meth:`learn` needs with the reward.
        """
        places = None if eligible is None and not self._current.away else self._places(eligible)
        with self._lock:
            self._meet(context)
            if places is not None:
                return self._assign(self._choose(places)[1:])
            while not self._calls.decide(self._current.handle):
                self._make_room(1)
            return self._decision()

    def decide_many(self, count: int) -> DecisionBatch:
        """Make ``count`` decisions at once: the same that :meth:`decide` would make one by one.

        Args:
            count: how many decisions to make.
        """
        records = np.zeros(check_count(count), dtype=DECISION)
        places = self._places(None)
        with self._lock:
            self._meet(None)
            if places is not None:
                for place in range(records.size):
                    number, _, ticket = self._assign(self._choose(places)[1:])
                    records[place] = number, tell(self._stream), *ticket
                return DecisionBatch(records, self.arms)
            made = self._calls.decide_many(self._current.handle, records)
            if made < records.size:
                self._make_room(records.size - made)
                self._calls.decide_many(self._current.handle, records[made:])
        return DecisionBatch(records, self.arms)

    # --- replaying ------------------------------------------------------------------------

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

        Args:
            log: the events, in order.
            policy: a policy, its name, or plain data with a ``name`` and parameters.
            arms: the arms at the beginning of the log, or their number.
            horizon: the expected number of decisions.
            seed: the seed of the decisions after the log.
            watch: whether to record what :meth:`audit` needs.
        """
        learner = cls(policy, arms, horizon, seed, watch)
        for event in log:
            learner.apply(event)
        return learner

    # --- inspecting -----------------------------------------------------------------------

    def distribution(self, context: Visitor = None) -> dict[str | int, float]:
        """The probability with which the next decision will choose each arm.

        Args:
            context: what is known about the visitor.
        """
        with self._lock:
            self._meet(context)
            return dict(zip(self.arms, self._weights().tolist(), strict=True))

    def weights(self, context: Visitor = None) -> np.ndarray:
        """The probabilities of :meth:`distribution`, in the order of the arms.

        Args:
            context: what is known about the visitor.
        """
        with self._lock:
            self._meet(context)
            return self._weights()

    def inspect(self) -> ArmViews:
        """Return each layer's view of each arm: pulls, mean, interval, active or deleted."""
        with self._lock:
            return ArmViews(self.policy.inspect(self._state), self.arms)

    def coefficients(self) -> np.ndarray | None:
        """Return what each arm (row) is predicted to pay for each coordinate of a vector."""
        with self._lock:
            found = self.policy.coefficients(self._state)
            return None if found is None else found.copy()

    def experts(self) -> tuple[list[str], np.ndarray] | None:
        """Return the experts that learn, and the weights of these and of each arm as experts."""
        return self.policy.experts(self._state)

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

    @property
    def has_trail_of_leaves(self) -> bool:
        """Whether the rewards of each leaf are recorded apart, for audits."""
        return has_trail_of_leaves(self._live.policy)

    def audit(self, level: float = 0.05) -> Audit:
        """Look for traces of corruption, or of moved means, in the feedback so far.

        Args:
            level: a bound on the probability that any statement of any audit is wrong, however
                often and whenever audits are made.

        Returns:
            The alarms and certificates.
        """
        if not (self._is_alike or self.has_trail_of_leaves):
            raise unfit_for_audit(self.policy.tag())
        with self._lock:
            # Decisions need not wait for the audit, and nobody decides with a copy.
            live, arms = self._live.policy, self.arms
            kept = live if self._is_copy else copy.deepcopy(live)
        return audit_state(kept, level, arms, self._screens)

    def still(self) -> Learner:
        """Return the learner as it is now, to be inspected while this one goes on.

        It must not decide or learn: it shares the random stream and what audits keep.
        """
        with self._lock:
            still, live = object.__new__(type(self)), self._live
            vars(still).update(vars(self), _lock=threading.Lock(), _is_copy=True)
            kept = self._copied(live.policy)
            # Not shared: others ask for the weights of other visitors meanwhile.
            present = Present(live.present.vector.copy(), live.present.leaf.copy())
            counters, rewarded = live.counters.copy(), live.rewarded.copy()
            copied = live._replace(
                policy=kept, counters=counters, rewarded=rewarded, present=present
            )
            still._swap_in(copied, self.arms, unwatched(kept), self._away)
        weakref.finalize(still, self._spares.append, (live.policy, kept)).atexit = False
        return still

    def _copied(self, policy: Any) -> Any:
        """Return a copy of a state, in the arrays of one that is not needed any more.

        New arrays would take ten times as long, since the system must find the memory.
        """
        spare, self._spares[:] = [kept for made_of, kept in self._spares if made_of is policy], []
        if not spare:
            return copy.deepcopy(policy)
        for mine, other in zip(raw_arrays(spare[0]), raw_arrays(policy), strict=True):
            mine[...] = other
        return spare[0]

    # --- saving ---------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None) -> Snapshot:
        """Return the learner without its log, as plain data.

        If a log is kept, the decisions whose rewards are outstanding are included, 80 bytes
        each, so that the events after the snapshot can be applied to the restored learner.

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
                outstanding=self._outstanding().tobytes(),
                paused=list(self._away.items()),
            ).sealed(key)

    @classmethod
    def restore(
        cls,
        data: Snapshot | bytes | str | dict[str, Any],
        policy: Policy | None = None,
        key: bytes | None = None,
        log: bool = True,
        shape: ContextShape = NO_FEATURES,
    ) -> Learner:
        """Return a learner that continues exactly like the one that was saved.

        Args:
            data: a snapshot, its JSON or MessagePack form, or plain data parsed from JSON.
            policy: needed only for a policy that cannot be found by its name; it must be the one
                that was saved, with its parameters.
            key: the secret with which the snapshot was sealed, if any.
            log: whether to keep a log from now on.
            shape: how large contexts are, as it was when the learner was made.

        Returns:
            The learner.

        Raises:
            DamagedFile: the snapshot is damaged, was sealed with another key, or is one of another
                policy.
        """
        snapshot = Snapshot.read(data, key)
        made_with = snapshot.arms, snapshot.horizon, snapshot.seed, snapshot.watch
        try:
            learner = cls(policy or snapshot.policy, *made_with, check_flag("log", log), shape)
        except InvalidParameter as error:
            raise DamagedFile(f"the snapshot describes no learner: {error}") from None
        if not _is_saved_as(learner.policy, snapshot.policy):
            given = learner.policy.to_builtins()
            raise DamagedFile(f"the snapshot is one of the policy {snapshot.policy}; got {given}.")
        learner._resume(snapshot)
        return learner

    def __copy__(self) -> Learner:
        return type(self).restore(self.snapshot(), self.policy, None, self._keeps_log, self.shape)

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        data = self.snapshot().to_bytes()
        return _restore_copy, (data, self.policy, self._keeps_log, self.shape)


def _is_saved_as(policy: Policy, saved: Mapping[str, Any]) -> bool:
    """Whether plain data describes a policy, as far as this process can find its class."""
    try:
        kind = POLICIES.find(str(saved.get("name")))
    except ArmraceError:
        kind = type(policy)  # the class has moved, or is known to the caller only
    return isinstance(policy, kind) and _agrees(policy.to_builtins(), saved)


def _agrees(given: Any, saved: Any) -> bool:
    """Whether saved parameters have the given values; a later version may have further ones."""
    if isinstance(given, Mapping) and isinstance(saved, Mapping):
        return all(_agrees(given.get(key), saved[key]) for key in saved if key != "name")
    return bool(given == saved)


def _restore_copy(data: bytes, policy: Policy, log: bool, shape: ContextShape) -> Learner:
    return Learner.restore(data, policy, None, log, shape)


class ArmViews(list[ArmView], NotebookView):
    """Each layer's view of each arm, which a notebook shows as a table or a matrix."""

    def __init__(self, views: Iterable[ArmView], arms: Sequence[str | int]) -> None:
        super().__init__(views)
        self.names = [str(arm) for arm in arms]
        """The arms' names, in the order of their numbers."""


def compile_learner(learner: Learner, batches: bool = True) -> None:
    """Compile, or load, what a learner calls, by calling it once."""
    context = None
    if learner.shape != NO_FEATURES:
        vector = np.full(learner.shape.room(len(learner.arms)), learner.shape.dimension**-0.5)
        context = Context(vector, 0)
    learner.distribution(context)
    learner.learn(learner.decide(None, context), 1.0, context)
    learner.drop(learner.recount(learner.draw(None, context)[0], False, context))
    if is_restrictable(learner.policy.start(len(learner.arms), learner.horizon)):
        learner.draw(learner.arms[:1], context)
    if batches:
        learner.learn_many(learner.decide_many(1), [1.0])


def learner_is_stored(policy: Policy, arms: int, horizon: int) -> bool:
    """Whether machine code of all that :func:`compile_learner` calls is on disk."""
    state = policy.start(arms, horizon)
    entries = live_entries(fingerprint(implementations(watch(state, arms, horizon))))
    needed: dict[str, Any] = entries._asdict()
    if not is_restrictable(state):
        del needed["choose_among"]
    return all(map(is_stored, needed.values()))
